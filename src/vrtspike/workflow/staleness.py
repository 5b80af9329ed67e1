"""Params of rules: lines on code, settings and data that Snakemake compares with the last run's.

If a line differs, the job is stale and the line is the printed reason (docs/staleness.md).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from vrtspike.config.problems import PROBLEMS, find_problem
from vrtspike.config.run_schema import DEFAULT_TASK, RunSettings
from vrtspike.config.workflow import Workflow
from vrtspike.errors import DataError, UserError
from vrtspike.io.files import read_json
from vrtspike.io.flatten import flat_settings
from vrtspike.io.manifests import ManifestKind, contents_digest, read_manifest
from vrtspike.runs.provenance import code_digests

Line = Callable[[Any], str]
"""From the wildcards of a job to a line."""

Preset = Callable[[Any], str]
"""From the wildcards of a job to the name of its preset."""


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
    plan: Workflow, scripts: Path, part: str, program: str, preset: Preset = own_preset
) -> list[Line]:
    """:func:`code_lines` of a program and a function of the problem of a job's preset.

    Args:
        plan: the presets.
        scripts: folder of the program.
        part: a function of :class:`vrtspike.config.problems.Problem`, which the program calls.
        program: the program.
        preset: returns the preset of a job.
    """
    tasks = {settings.TASK for settings in plan.presets.values()} | {DEFAULT_TASK}
    uses = {task: [f"{PROBLEMS[task]}.{part}"] for task in tasks}
    lines = {task: code_lines(scripts, program, uses[task]) for task in tasks}

    def line(number: int, wildcards: Any) -> str:  # noqa: ANN401 - Snakemake's
        own = lines[plan.preset(preset(wildcards)).TASK]
        return own[number] if number < len(own) else own[0]

    return [partial(line, number) for number in range(max(map(len, lines.values())))]


def setting_lines(
    plan: Workflow,
    select: Callable[[RunSettings], Mapping[str, Any]],
    preset: Preset = own_preset,
) -> list[Line]:
    """A line per selected key of a job's preset, such as ``TEST.TILE.SIZE: 64``.

    A rule has one list of params for all presets, and Snakemake compares them as sets. A preset
    without a key of another preset repeats one of its own lines, so that it does not become stale
    when preset files are added or removed.

    Args:
        plan: the presets.
        select: selects settings of a preset.
        preset: returns the preset of a job.
    """

    @cache
    def lines(name: str) -> dict[str, str]:
        return flat_settings(select(plan.preset(name)))

    def line(key: str, wildcards: Any) -> str:  # noqa: ANN401 - Snakemake's
        own = lines(preset(wildcards))
        if not own:
            return ""
        shown = key if key in own else next(iter(own))
        return f"{shown}: {own[shown]}"

    keys = sorted(set().union(*(lines(name) for name in plan.presets))) or [""]
    return [partial(line, key) for key in keys]


def evaluation_overrides(settings: RunSettings) -> str:
    """Options with the present TEST settings, which may differ from those of the training."""
    lines = flat_settings({"TEST": settings.TEST.model_dump(mode="json")})
    return (
        shlex.join(["--set", *(f"{key}={value}" for key, value in lines.items())]) if lines else ""
    )


class RerunDamaged:
    """Input functions without files that force the rerun of missing or damaged results.

    Snakemake does not make a missing file again if later results exist. But a job that fails or is
    killed loses its outputs, while results made from the former outputs remain.

    Args:
        results: folder of all results.
        force_rerun: called with a file and the reason for making it again.
    """

    def __init__(self, results: Path, force_rerun: Callable[[str, str], None]) -> None:
        self._results, self._force_rerun = results, force_rerun

    def __call__(
        self,
        file: str,
        kind: ManifestKind | None = None,
        later_results: Collection[str] = (),
        damage: Callable[[Any], str] | None = None,
    ) -> Callable[[Any], list[str]]:
        """An input function for the rule that makes a file.

        Args:
            file: below the results, with wildcards.
            kind: of a manifest, which must be readable.
            later_results: patterns of results made from the file; if there are none, a missing file
                is not forced.
            damage: returns the fault of other files of the same result, for given wildcards.
        """

        def no_input(wildcards: Any) -> list[str]:  # noqa: ANN401 - Snakemake's
            path = self._results / file.format(**wildcards)
            patterns = (each.format(**wildcards) for each in later_results)
            later = (found for each in patterns for found in self._results.glob(each))
            if path.exists():
                reason = _damage(path, kind) or (damage(wildcards) if damage else "")
            else:
                reason = "" if later_results and not any(later) else "no result yet"
            if reason:
                self._force_rerun(str(path), reason)
            return []

        return no_input


def _damage(path: Path, kind: ManifestKind | None) -> str:
    """The fault of an existing file; empty if it can be used."""
    try:
        if kind is not None:
            read_manifest(path, kind)
    except DataError:
        return f"{path} is damaged"
    return ""


class PreparedData:
    """Folders of data that the rule ``prepare`` makes.

    Args:
        plan: the configuration.
    """

    def __init__(self, plan: Workflow) -> None:
        self._plan = plan

    def files(self, folder: str) -> list[Path]:
        """The user's raw files.

        Raises:
            UserError: if there are none.
        """
        settings = self._settings(folder)
        return list(find_problem(settings.TASK).data_files(settings))

    def versions(self, folder: str) -> list[str]:
        """A line for each raw file, with the digest of its contents.

        The digest is taken from the manifest if size and date of the file are unchanged.
        """
        known = _listed_files(self._manifest(folder))
        return [
            f"raw file {path}: {contents_digest(path.parent, known, path.name)[:12]}"
            for path in self.files(folder)
        ]

    def damage(self, folder: str) -> str:
        """The fault of the existing manifest; empty if it can be used."""
        manifest = self._manifest(folder)
        try:
            find_problem(self._settings(folder).TASK).dataset_digest(manifest)
        except UserError:
            return f"{manifest} is damaged"
        return ""

    def _settings(self, folder: str) -> RunSettings:
        return self._plan.preset(self._plan.prepared[folder])

    def _manifest(self, folder: str) -> Path:
        return Path(self._plan.settings.RESULTS, "data", folder, "dataset.json")


def _listed_files(manifest: Path) -> dict[str, dict[str, Any]]:
    """The files that a manifest lists, by name; none if it is missing or unreadable."""
    try:
        return {entry["path"]: entry for entry in read_json(manifest)["files"]}
    except (UserError, OSError, KeyError, TypeError, ValueError):
        return {}
