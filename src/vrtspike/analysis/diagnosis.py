"""What a run's figures say about its speed and its health, most important first.

Each rule looks at one symptom and answers with a finding or nothing. Effects are bounds computed
from the run's own figures; where nothing was measured that would bound them, the text says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from vrtspike.analysis import health_rules, speed_rules
from vrtspike.analysis.figures import RunFigures
from vrtspike.analysis.finding import SEVERITIES, Finding
from vrtspike.config import Settings

COLUMNS = ["rank", "severity", "symptom", "figure", "change", "keys", "effect"]

Rule = Callable[[RunFigures, Settings], Finding | None]

RULES: tuple[Rule, ...] = (
    health_rules.not_finite,
    health_rules.exploding_gradient,
    health_rules.full_memory,
    speed_rules.data_wait,
    speed_rules.idle_gpu,
    speed_rules.slow_forward,
    speed_rules.low_throughput,
    speed_rules.cold_cache,
    health_rules.gpu_headroom,
)
"""Every rule; a new symptom is one function and one line here."""


def find(figures: RunFigures, settings: Settings) -> list[Finding]:
    """All findings for a run, the most important first.

    Args:
        figures: the run's figures.
        settings: the preset it ran with.
    """
    found = [finding for rule in RULES if (finding := rule(figures, settings)) is not None]
    return sorted(found, key=lambda finding: (SEVERITIES.index(finding.severity), -finding.weight))


def findings_table(findings: Sequence[Finding]) -> pd.DataFrame:
    """Findings as rows of text, ranked from 1."""
    rows = [
        (
            rank,
            finding.severity,
            finding.symptom,
            finding.figure,
            finding.change,
            "; ".join(f"{key}: {value}" for key, value in finding.keys.items()),
            finding.effect,
        )
        for rank, finding in enumerate(findings, start=1)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)
