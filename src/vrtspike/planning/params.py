"""Lines that a scheduler compares with those of the last run, one per source file or key.

Where one differs the stage is stale, and the line is the reason that is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from vrtspike.config.schema import Settings
from vrtspike.config.workflow import Workflow
from vrtspike.flatten import flat_settings
from vrtspike.provenance import code_digests

Line = Callable[[Any], str]
"""From the wildcards of a job (with ``preset``) to a line."""


def code_lines(*programs: Path) -> list[str]:
    """A line per source file behind these programs; it changes with the parts they use."""
    return sorted({str(digest) for program in programs for digest in code_digests(program)})


def setting_lines(plan: Workflow, select: Callable[[Settings], Mapping[str, Any]]) -> list[Line]:
    """A line per key, ``TRAIN.OPTIM.LR: 0.0002``, of what is selected from a job's preset.

    Args:
        plan: the presets.
        select: which settings count.
    """

    @cache
    def lines(preset: str) -> dict[str, str]:
        return flat_settings(select(plan.preset(preset)))

    keys = sorted(set().union(*(lines(name) for name in plan.presets)))
    return [partial(_line, lines, key) for key in keys]


def _line(lines: Callable[[str], dict[str, str]], key: str, wildcards: Any) -> str:  # noqa: ANN401
    """The line of a key; that of another key, once more, where this preset has no such key.

    Snakemake compares sets of lines. So a preset stays what it is when a file comes or goes, or
    cannot be read for now, that alone has some key.
    """
    own = lines(wildcards.preset)
    shown = key if key in own else next(iter(own))
    return f"{shown}: {own[shown]}"
