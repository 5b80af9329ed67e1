"""Seeds: a table that compares the trainings of a preset with different seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from vrtspike.analysis.comparisons.quality_tables import (
    SPREAD,
    frames_note,
    quality_formats,
    quality_note,
    quality_table,
    read_evaluated,
    require_seeds,
)
from vrtspike.plotting.pages import Table, write_tables


def write_seeds(folders: Sequence[Path], output: Path) -> pd.DataFrame:
    """Compare the trainings of a preset with different seeds; write the table into ``output``.

    Args:
        folders: result folders (``results/train/<preset>``), one for each seed, with evaluations.
        output: folder for ``table.csv`` and ``table.html``.

    Returns:
        a row for each seed, then their mean; the columns ``spread`` of the latter hold the standard
        deviation over seeds.

    Raises:
        RunError: if a run or its evaluation is missing, or the runs differ in more than the seed.
    """
    evaluated = read_evaluated(folders)
    require_seeds([member.run for member in evaluated])
    summaries = [member.summary for member in evaluated]
    values, metrics = quality_table([*([summary] for summary in summaries), summaries])
    seeds = [str(member.run.settings.SEED) for member in evaluated]
    seeds.append(f"mean of {len(evaluated)}")
    table = values.assign(seed=seeds)[["seed", *values.columns]]
    by_name = {member.run.name: member.summary for member in evaluated}
    note = (
        f"Trainings that differ in their seed alone. {quality_note(metrics)} The {SPREAD} is the "
        f"standard deviation over seeds. {frames_note(by_name)}"
    )
    page = Table(table, formats=quality_formats(metrics), strong_rows=frozenset({len(evaluated)}))
    write_tables(output, f"Seeds of {evaluated[0].run.name}", note.strip(), [page])
    return table
