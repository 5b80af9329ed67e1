"""What a run's figures say about its speed and its health, most important first.

Each rule looks at one symptom and answers with a finding or nothing. Effects are bounds computed
from the run's own figures; where nothing was measured that would bound them, the text says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from vrtspike.analysis import data_rules, health_rules, memory_rules, speed_rules
from vrtspike.analysis.figures import RunFigures
from vrtspike.analysis.finding import SEVERITIES, Finding, Rule
from vrtspike.config.run_schema import RunSettings
from vrtspike.errors import DataError

COLUMNS = ["rank", "severity", "symptom", "figure", "change", "keys", "effect"]

RULES: tuple[Rule, ...] = (
    health_rules.not_finite,
    health_rules.exploding_gradient,
    health_rules.vanishing_gradient,
    health_rules.skipped_steps,
    health_rules.stuck_loss,
    health_rules.late_run,
    memory_rules.full_memory,
    memory_rules.growing_memory,
    memory_rules.large_cache,
    data_rules.data_wait,
    data_rules.stalls,
    data_rules.cold_cache,
    speed_rules.idle_gpu,
    speed_rules.slow_forward,
    speed_rules.low_throughput,
    speed_rules.slow_loss,
    speed_rules.slow_sync,
    speed_rules.slow_validation,
    speed_rules.slow_checkpoints,
    speed_rules.single_precision,
    speed_rules.deterministic,
    memory_rules.full_gpu,
    memory_rules.large_optimizer,
    memory_rules.gpu_headroom,
)
"""Every rule; a new symptom is one function and one line here."""

_TABLE = re.compile(r"\| symptom \| measured \|.*?\n(?!\|)", re.DOTALL)


def with_rules_table(page: str) -> str:
    """A Markdown page with its table of rules (``| symptom | measured |...``) as the rules are now.

    Raises:
        DataError: if the page has no such table.
    """
    if not _TABLE.search(page):
        raise DataError("no table that begins with | symptom | measured |; expected one to replace")
    rows = [f"| {r.symptom} | {r.measured} | {r.limit} | {r.cause} | {r.cure} |" for r in RULES]
    head = ["| symptom | measured | reported | usual cause | what helps |", "|---|---|---|---|---|"]
    table = "\n".join([*head, *rows]) + "\n"
    return _TABLE.sub(lambda _: table, page, count=1)


def find(figures: RunFigures, settings: RunSettings) -> list[Finding]:
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
            "; ".join(finding.key_lines),
            finding.effect,
        )
        for rank, finding in enumerate(findings, start=1)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)
