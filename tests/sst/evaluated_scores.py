"""Single scores of an evaluation."""

from __future__ import annotations

from vrtspike.sst.evaluate import ForecastEvaluation


def score(evaluation: ForecastEvaluation, name: str, system: str, lead: int) -> float:
    """The score of a system, so many months ahead."""
    return float(evaluation.table[name].sel(system=system, lead=lead))
