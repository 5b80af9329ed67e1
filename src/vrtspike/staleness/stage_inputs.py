"""Inputs that make the result of a stage stale: the code and the settings that count.

The result of a program depends on

- its source files: all that it imports (:mod:`vrtspike.staleness.source_digests`), and the
  definitions of its task that it uses, without the modules that do not change its result:
  :data:`STAGE_INPUTS`;
- settings: the keys that :data:`STAGE_INPUTS` selects, of which the schema leaves out keys that
  change no result (``operational`` in :mod:`vrtspike.config.fields`);
- files: other jobs' results and raw files, by their contents (:mod:`vrtspike.io.manifests`).

Rules compare these with the last run. A training is compared with its own records instead, so that
it stays when ``.snakemake`` is lost or it is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vrtspike.config.run_schema import RunSettings
from vrtspike.config.tasks import find_task, has_part
from vrtspike.runs.identity import evaluation_settings, result_settings
from vrtspike.staleness.source_digests import code_digests
from vrtspike.system.errors import ConfigError


class StageInputs(NamedTuple):
    """Inputs of a program, in addition to files and all the modules that it imports.

    Attributes:
        parts: functions and constants of the module ``task`` of a task that it uses.
        ignored_modules: modules that it imports and that do not change its result; a package
            includes its modules.
        settings: function that selects the keys of a preset that change its result; None if rules
            pass them to it as options.
    """

    parts: tuple[str, ...] = ()
    ignored_modules: tuple[str, ...] = ()
    settings: Callable[[RunSettings], Mapping[str, Any]] | None = None


def prepared_data_settings(settings: RunSettings) -> Mapping[str, Any]:
    """Return the keys that change the data that the rule ``prepare`` makes.

    Raises:
        ConfigError: if rules of the task's own make them.
    """
    task = find_task(settings.TASK)
    if not has_part(task, "prepare"):
        raise ConfigError(f"TASK {settings.TASK}: its data are not made by the rule prepare")
    return task.data_settings(settings)


_LOGS_AND_FILES = (
    "vrtspike.io.files",
    "vrtspike.io.locks",
    "vrtspike.io.manifests",
    "vrtspike.io.records",
    "vrtspike.launching",
    "vrtspike.monitoring",
    "vrtspike.runs",
    "vrtspike.staleness",
    "vrtspike.system.termination",
    "vrtspike.training.checkpoints",
)
"""Modules that change no weights: logs, launching, files."""

_SETTINGS = ("vrtspike.config", "vrtspike.deblurring_settings")
"""Modules of settings, which are compared by their values."""

_TABLES = StageInputs(parts=("METRICS", "SETTINGS", "FRAME_KEYS"))
_PAGES = StageInputs(parts=(*_TABLES.parts, "page"))

STAGE_INPUTS: Mapping[str, StageInputs] = {
    # A shard's job has code of both stages.
    "ingest.py": StageInputs(
        ignored_modules=("vrtspike.data.store", "vrtspike.deblurring_settings.stores")
    ),
    "voxelize.py": StageInputs(ignored_modules=("vrtspike.data.checks",)),
    "prepare.py": StageInputs(parts=("prepare",), settings=prepared_data_settings),
    "train.py": StageInputs(
        parts=("build",),
        # The contents of raw files are part of the data set's digest.
        ignored_modules=(*_LOGS_AND_FILES, *_SETTINGS, "vrtspike.data.manifests"),
        settings=result_settings,
    ),
    "evaluate.py": StageInputs(parts=("evaluate",), settings=evaluation_settings),
    "analyze_performance.py": StageInputs(parts=(*_TABLES.parts, "advice")),
    "compare.py": _TABLES,
    "ablation.py": _TABLES,
    "seeds.py": _PAGES,
    "sweep.py": _PAGES,
    "leaderboard.py": _TABLES,
    "report_page.py": StageInputs(parts=(*_PAGES.parts, "advice")),
    "demo_summary.py": StageInputs(parts=("METRICS",)),
    "bundle_weights.py": StageInputs(parts=("METRICS",)),
}
"""Inputs of programs in ``scripts/``, by their file; of all others only what they import."""


def stage_inputs(program: str) -> StageInputs:
    """Return the inputs of a program.

    Args:
        program: file name of the program in ``scripts/``.
    """
    return STAGE_INPUTS.get(program, StageInputs())


def stage_digests(
    script: Path, tasks: Collection[str], ignored_modules: Collection[str] = ()
) -> dict[str, str]:
    """Digest the source files that change the result of a program.

    Args:
        script: the program.
        tasks: dotted names of the modules of the tasks whose parts it uses.
        ignored_modules: further modules that do not change its result.
    """
    inputs = stage_inputs(script.name)
    uses = [f"{module}.{part}" for part in inputs.parts for module in tasks]
    ignored = [*inputs.ignored_modules, *ignored_modules]
    return code_digests(script, dynamic_uses=uses, ignored_modules=ignored)
