"""Params of rules: lines on code, settings and data that Snakemake compares with the last run's.

If a line differs, the job is stale and the line is the printed reason (docs/staleness.md).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from vrtspike.config.problems import PROBLEMS, find_problem
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.workflow import Workflow
from vrtspike.io.files import read_json
from vrtspike.io.flatten import flat_settings
from vrtspike.io.manifests import ManifestKind, contents_digest, read_manifest
from vrtspike.runs.provenance import code_digests
from vrtspike.system.errors import UserError

Preset = Callable[[Any], str]
"""From the wildcards of a job to the name of its preset."""

Lines = Callable[[Any], list[str]]
"""From the wildcards of a job to lines."""


def one_of(names: Iterable[str]) -> str:
    """A wildcard constraint that matches these names, and nothing if there are none.

    >>> one_of(["demo", "low.ram"]), one_of([])
    ('demo|low\\\\.ram', '(?!)')
    """
    return "|".join(re.escape(name) for name in names) or "(?!)"


def code_lines(
    scripts: Path, program: str, uses: Collection[str] = (), neutral: Collection[str] = ()
) -> list[str]:
    """A line per source file of a program, with its digest.

    Args:
        scripts: folder of the program.
        program: its file.
        uses: see :func:`vrtspike.runs.provenance.code_digests`.
        neutral: as there.
    """
    digests = code_digests(scripts / program, uses=uses, neutral=neutral)
    return [f"{file} {digest}" for file, digest in digests.items()]


def problem_parts(part: str) -> list[str]:
    """The dotted names of a function or constant in the modules of all problems."""
    return [f"{module}.{part}" for module in PROBLEMS.values()]


def own_preset(wildcards: Any) -> str:  # noqa: ANN401 - Snakemake's
    """The wildcard ``preset`` of a job."""
    return str(wildcards.preset)


def problem_code_lines(
    workflow: Workflow, scripts: Path, part: str, program: str, preset: Preset = own_preset
) -> Lines:
    """:func:`code_lines` of a program and a function of the problem of a job's preset.

    Args:
        workflow: the presets.
        scripts: folder of the program.
        part: a function of :class:`vrtspike.config.problems.Problem`, which the program calls.
        program: the program.
        preset: returns the preset of a job.
    """

    @cache
    def lines(task: str) -> list[str]:
        return code_lines(scripts, program, [f"{PROBLEMS[task]}.{part}"])

    return lambda wildcards: lines(workflow.preset(preset(wildcards)).TASK)


def setting_lines(
    workflow: Workflow,
    select: Callable[[RunSettings], Mapping[str, Any]],
    preset: Preset = own_preset,
) -> Lines:
    """A line per selected key of a job's preset, such as ``TEST.TILE.SIZE: 64``.

    Args:
        workflow: the presets.
        select: selects settings of a preset.
        preset: returns the preset of a job.
    """

    def lines(wildcards: Any) -> list[str]:  # noqa: ANN401 - Snakemake's
        selected = flat_settings(select(workflow.preset(preset(wildcards))))
        return [f"{key}: {value}" for key, value in selected.items()]

    return lines


def evaluation_overrides(settings: RunSettings) -> str:
    """Options with the present TEST settings, which may differ from those of the training."""
    lines = flat_settings({"TEST": settings.TEST.model_dump(mode="json")})
    pairs = [f"{key}={value}" for key, value in lines.items()]
    return shlex.join(["--set", *pairs]) if pairs else ""


def rerun_damaged(
    results: Path,
    force_rerun: Callable[[str, str], None],
    file: str,
    kind: ManifestKind | None = None,
    later_results: Collection[str] = (),
    damage: Callable[[Any], str] = lambda wildcards: "",
) -> Lines:
    """An input function without files that forces the rerun of a missing or damaged result.

    Snakemake does not make a missing file again if later results exist. But a job that fails or is
    killed loses its outputs, while results made from the former outputs remain.

    Args:
        results: folder of all results.
        force_rerun: called with a file and the reason for making it again.
        file: below the results, with wildcards; made by the rule.
        kind: of a manifest, which must be readable.
        later_results: patterns of results made from the file; if there are none, a missing file is
            not forced.
        damage: returns the fault of other files of the same result, for given wildcards.
    """

    def no_input(wildcards: Any) -> list[str]:  # noqa: ANN401 - Snakemake's
        path = results / file.format(**wildcards)
        patterns = (each.format(**wildcards) for each in later_results)
        if path.exists():
            unreadable = "" if kind is None else _damage(path, lambda: read_manifest(path, kind))
            reason = unreadable or damage(wildcards)
        elif later_results and not any(found for each in patterns for found in results.glob(each)):
            reason = ""
        else:
            reason = "no result yet"
        if reason:
            force_rerun(str(path), reason)
        return []

    return no_input


def data_damage(workflow: Workflow, preset: str) -> str:
    """The fault of the manifest of a preset's prepared data; empty if it can be used."""
    manifest, problem = workflow.manifest(preset), find_problem(workflow.preset(preset).TASK)
    return _damage(manifest, lambda: problem.dataset_digest(manifest))


def _damage(path: Path, read: Callable[[], object]) -> str:
    """The fault of a file that cannot be read; empty if it can."""
    try:
        read()
    except UserError:
        return f"{path} is damaged"
    return ""


def raw_file_lines(workflow: Workflow, preset: str) -> list[str]:
    """A line for each raw file of a preset's data, with the digest of its contents.

    The digest is taken from the manifest if size and date of the file are unchanged.

    Raises:
        UserError: if there are no raw files.
    """
    settings, known = workflow.preset(preset), _listed_files(workflow.manifest(preset))
    return [
        f"raw file {path}: {contents_digest(path.parent, known, path.name)[:12]}"
        for path in find_problem(settings.TASK).data_files(settings)
    ]


def _listed_files(manifest: Path) -> dict[str, dict[str, Any]]:
    """The files that a manifest lists, by name; none if it is missing or unreadable."""
    try:
        return {entry["path"]: entry for entry in read_json(manifest)["files"]}
    except (UserError, OSError, KeyError, TypeError, ValueError):
        return {}
