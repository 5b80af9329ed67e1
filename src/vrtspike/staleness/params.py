"""Params of rules: lines on code, settings and data that Snakemake compares with the last run.

If a line differs, the job is stale and the line is the printed reason (docs/staleness.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from vrtspike.config.tasks import TASKS, find_task
from vrtspike.config.workflow import WorkflowConfig
from vrtspike.io.files import read_json
from vrtspike.io.flatten import flat_settings
from vrtspike.io.manifests import FileEntry, ManifestKind, contents_digest, read_manifest
from vrtspike.staleness.stage_inputs import stage_digests, stage_inputs
from vrtspike.system.errors import UserError

Wildcards: TypeAlias = Any
"""Wildcards of a job: a class of Snakemake, which has no types."""

PresetFunction = Callable[[Wildcards], str]
"""Function that returns the name of a job's preset, from its wildcards."""

LinesFunction = Callable[[Wildcards], list[str]]
"""Function that returns lines, from the wildcards of a job."""


def code_lines(
    scripts: Path, program: str, tasks: Collection[str] = tuple(TASKS.values())
) -> list[str]:
    """Return a line per source file of a program, with its digest.

    Args:
        scripts: folder of the program.
        program: file name of the program.
        tasks: dotted names of the modules of the tasks whose parts it uses.
    """
    digests = stage_digests(scripts / program, tasks)
    return [f"{file} {digest}" for file, digest in digests.items()]


def own_preset(wildcards: Wildcards) -> str:
    """Return the wildcard ``preset`` of a job."""
    return str(wildcards.preset)


def task_code_lines(
    workflow: WorkflowConfig, scripts: Path, program: str, preset: PresetFunction = own_preset
) -> LinesFunction:
    """Return :func:`code_lines` of a program that uses only the task of a job's preset.

    Args:
        workflow: configuration with the presets.
        scripts: folder of the program.
        program: file name of the program.
        preset: function that returns the preset of a job.
    """

    @cache
    def lines(task: str) -> list[str]:
        return code_lines(scripts, program, [TASKS[task]])

    return lambda wildcards: lines(workflow.settings_of(preset(wildcards)).TASK)


def setting_lines(
    workflow: WorkflowConfig, program: str, preset: PresetFunction = own_preset
) -> LinesFunction:
    """Return a line per key of a job's preset that changes its result: ``TEST.TILE.SIZE: 64``.

    Args:
        workflow: configuration with the presets.
        program: file name of a program whose entry in the table of
            :mod:`vrtspike.staleness.stage_inputs` selects settings.
        preset: function that returns the preset of a job.
    """
    select = stage_inputs(program).settings
    if select is None:
        raise KeyError(f"{program}: its entry in STAGE_INPUTS selects no settings")

    def lines(wildcards: Wildcards) -> list[str]:
        selected = flat_settings(select(workflow.settings_of(preset(wildcards))))
        return [f"{key}: {value}" for key, value in selected.items()]

    return lines


def rerun_damaged(
    results: Path,
    force_rerun: Callable[[str, str], None],
    file: str,
    kind: ManifestKind[Any] | None = None,
    later_results: Collection[str] = (),
    damage: Callable[[Wildcards], str] = lambda wildcards: "",
) -> LinesFunction:
    """Return an input function without files that forces the rerun of a missing or damaged result.

    Snakemake does not make a missing file again if later results exist. However, a job that fails
    or is killed loses its outputs, while results of the former outputs remain. No trigger of
    Snakemake expresses this, see ``SnakemakeInternals.force_rerun``.

    Args:
        results: folder of all results.
        force_rerun: function called with a file and the reason for making it again.
        file: output of the rule below the results, with wildcards.
        kind: kind of the file if it is a manifest, which must be readable.
        later_results: patterns of results made from the file. If there are patterns but no such
            results, a missing file is not forced.
        damage: function that returns the fault of other files of the same result, for given
            wildcards.
    """

    def has_later_results(wildcards: Wildcards) -> bool:
        patterns = [pattern.format(**wildcards) for pattern in later_results]
        return any(any(results.glob(pattern)) for pattern in patterns)

    def no_input(wildcards: Wildcards) -> list[str]:
        path = results / file.format(**wildcards)
        reason = ""
        if path.exists():
            if kind is not None:
                reason = _damage(path, lambda: read_manifest(path, kind))
            reason = reason or damage(wildcards)
        elif not later_results or has_later_results(wildcards):
            reason = "no result yet"
        if reason:
            force_rerun(str(path), reason)
        return []

    return no_input


def data_damage(workflow: WorkflowConfig, preset: str) -> str:
    """Return the fault of the manifest of a preset's prepared data; empty if it is valid."""
    manifest = workflow.manifest(preset)
    task = find_task(workflow.settings_of(preset).TASK)
    return _damage(manifest, lambda: task.dataset_digest(manifest))


def _damage(path: Path, read: Callable[[], object]) -> str:
    """Return the fault of a file that cannot be read; empty if it can."""
    try:
        read()
    except UserError:
        return f"{path} is damaged"
    return ""


def raw_file_lines(workflow: WorkflowConfig, preset: str) -> list[str]:
    """Return a line for each raw file of a preset's prepared data, with the digest of its contents.

    The digest is taken from the manifest if size and date of the file are unchanged.

    Raises:
        UserError: if there are no raw files.
    """
    listed_files = _listed_files(workflow.manifest(preset))
    return [
        f"raw file {path}: {contents_digest(path.parent, listed_files, path.name)[:12]}"
        for path in workflow.raw_files(preset)
    ]


def _listed_files(manifest: Path) -> dict[str, FileEntry]:
    """Return the files that a manifest lists, by name; none if it is missing or unreadable."""
    try:
        return {entry["path"]: entry for entry in read_json(manifest)["files"]}
    except (UserError, OSError, KeyError, TypeError, ValueError):
        return {}
