"""Lines that a scheduler compares with those of the last run, one per source file or key.

Where one differs the stage is stale, and the line is the reason that is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from vrtspike.config.run_schema import RunSettings
from vrtspike.config.workflow import Workflow
from vrtspike.flatten import flat_settings
from vrtspike.problems import DEFAULT, PROBLEMS
from vrtspike.provenance import code_digests

Line = Callable[[Any], str]
"""From the wildcards of a job to a line."""

Preset = Callable[[Any], str]
"""From the wildcards of a job to the name of its preset."""


def code_lines(*programs: Path, uses: Collection[str] = ()) -> list[str]:
    """A line per source file behind these programs; it changes with the parts they use.

    Args:
        programs: below ``scripts/``.
        uses: what they use by names that they compute (:func:`vrtspike.provenance.code_digests`).
    """
    return sorted(
        {str(digest) for program in programs for digest in code_digests(program, uses=uses)}
    )


def of_every_problem(part: str) -> list[str]:
    """The dotted names of a part of all problems."""
    return [f"{module}.{part}" for module in PROBLEMS.values()]


def own_preset(wildcards: Any) -> str:  # noqa: ANN401 - Snakemake's
    """The preset that a job names itself."""
    return str(wildcards.preset)


def problem_code_lines(
    plan: Workflow, part: str, program: Path, preset: Preset = own_preset
) -> list[Line]:
    """A line per source file behind a program and a part of the problem of a job's preset.

    Args:
        plan: the presets.
        part: a function of :class:`vrtspike.problems.Problem`, which the program calls.
        program: the program.
        preset: tells the preset of a job.
    """
    tasks = {settings.TASK for settings in plan.presets.values()} | {DEFAULT}
    lines = {
        task: sorted(map(str, code_digests(program, uses=[f"{PROBLEMS[task]}.{part}"])))
        for task in tasks
    }

    def line(number: int, wildcards: Any) -> str:  # noqa: ANN401 - Snakemake's
        own = lines[plan.preset(preset(wildcards)).TASK]
        return own[number] if number < len(own) else own[0]

    return [partial(line, number) for number in range(max(map(len, lines.values())))]


def setting_lines(
    plan: Workflow,
    select: Callable[[RunSettings], Mapping[str, Any]],
    preset: Preset = own_preset,
) -> list[Line]:
    """A line per key, ``TRAIN.OPTIM.LR: 0.0002``, of what is selected from a job's preset.

    Args:
        plan: the presets.
        select: which settings count.
        preset: tells the preset of a job.
    """

    @cache
    def lines(name: str) -> dict[str, str]:
        return flat_settings(select(plan.preset(name)))

    # A preset without any such key has one empty line, whatever others have.
    keys = sorted(set().union(*(lines(name) for name in plan.presets))) or [""]
    return [partial(_line, lines, key, preset) for key in keys]


def _line(
    lines: Callable[[str], dict[str, str]],
    key: str,
    preset: Preset,
    wildcards: Any,  # noqa: ANN401 - Snakemake's
) -> str:
    """The line of a key; that of another key, once more, where this preset has no such key.

    Snakemake compares sets of lines. So a preset stays what it is when a file comes or goes, or
    cannot be read for now, that alone has some key.
    """
    own = lines(preset(wildcards))
    if not own:
        return ""
    shown = key if key in own else next(iter(own))
    return f"{shown}: {own[shown]}"
