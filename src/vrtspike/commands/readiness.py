"""``vrtspike doctor``: checks of the machine and of the project."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from vrtspike.commands.hardware import free_bytes
from vrtspike.commands.machine_checks import (
    MACHINE,
    OPTIONAL,
    PRESETS,
    Check,
    State,
    fault,
    machine_checks,
    optional_checks,
)
from vrtspike.commands.preset_advice import PresetData, find_data, stores_needed
from vrtspike.config.problems import find_problem
from vrtspike.config.workflow import Workflow, read_plan
from vrtspike.deblurring.data.clips.requirements import require_spikes
from vrtspike.deblurring.data_size import GB
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.videos import Dataset, Videos
from vrtspike.errors import DataError, UserError
from vrtspike.io.locks import lock_file
from vrtspike.io.pretrained import PUBLISHED, verify_weights
from vrtspike.runs.names import WEIGHTS
from vrtspike.system.cli import nearest_existing

_LITTLE_DISK = 2 * GB
_MARKS: dict[State, str] = {"ok": "✓", "note": "·", "missing": "○", "broken": "✗"}


def all_checks(configfiles: Sequence[Path], overrides: Sequence[str]) -> Iterator[Check | str]:
    """The checks of machine and project, each group after its title.

    Outside of a project's folder only the machine is checked.
    """
    yield MACHINE
    yield from machine_checks()
    if Path("config/config.yaml").is_file() or configfiles:
        yield from project_checks(configfiles, overrides)
    else:
        yield Check(
            "project",
            "note",
            f"{Path.cwd()} is not the project's folder: configuration, data and weights are not "
            "checked",
        )
    yield OPTIONAL
    yield from optional_checks()


def show_checks(checks: Iterator[Check | str], show: Callable[[str], None]) -> bool:
    """Show every result, and a summary at the end; returns whether nothing is broken."""
    title = MACHINE
    broken: list[tuple[str, str]] = []
    missing: list[str] = []
    for check in checks:
        if isinstance(check, str):
            title = check
            show(f"{title}:")
            continue
        if check.state == "broken":
            broken.append((title, check.name))
        if check.state == "missing":
            missing.append(check.name)
        show(f"{_MARKS[check.state]} {check.name}: {check.found}")
        if check.cure:
            show(f"    -> {check.cure}")
    show(_closing(broken, missing))
    return not broken


def _closing(broken: Sequence[tuple[str, str]], missing: Sequence[str]) -> str:
    """The summary: what can be run, and what must be fixed or provided first."""
    if any(title == MACHINE for title, _ in broken):
        return f"fix first: {', '.join(name for _, name in broken)}"
    needed = [*(name for _, name in broken), *missing]
    if not needed:
        return "ready: make demo, and your presets"
    return f"ready: make demo; your presets need first: {', '.join(needed)}"


def project_checks(configfiles: Sequence[Path], overrides: Sequence[str]) -> Iterator[Check | str]:
    """Check configuration, disk, data and weights of the project in the working directory.

    Args:
        configfiles: overlays of ``config/config.yaml``.
        overrides: ``KEY=value``.
    """
    try:
        plan = read_plan(configfiles, overrides)
        videos = Videos(plan)
        datasets = {videos.dataset(name).name: videos.dataset(name) for name in presets_of(videos)}
    except UserError as error:
        yield fault("configuration", str(error))
        return
    yield Check("configuration", "ok", f"presets {', '.join(plan.settings.PRESETS)}")
    for name, reason in plan.broken.items():
        yield fault("preset", reason, "note", preset=name)
    data = {name: find_data(videos, dataset) for name, dataset in datasets.items()}
    yield from disk_checks(videos, data)
    yield PRESETS
    for name, dataset in datasets.items():
        yield data_check(videos, dataset, data[name])
    yield from other_data_checks(plan)
    yield from weight_checks(plan)


def presets_of(videos: Videos) -> list[str]:
    """The deblurring presets in PRESETS.

    Raises:
        ConfigError: if a preset is unknown or invalid.
    """
    names = videos.plan.settings.PRESETS
    return [name for name in names if isinstance(videos.plan.preset(name), Settings)]


def other_data_checks(plan: Workflow) -> Iterator[Check]:
    """Check the raw files of presets in PRESETS whose data the rule ``prepare`` makes."""
    for preset in plan.settings.PRESETS:
        settings = plan.preset(preset)
        problem = find_problem(settings.TASK)
        if problem.OWN_STAGES:
            continue
        name = f"data ({preset})"
        try:
            files = problem.data_files(settings)
        except UserError as error:
            found = _without_advice(str(error).splitlines()[0])
            yield fault("data_of_preset", found, "missing", dataset=preset)
            continue
        found = f"{len(files)} files" if files else "generated by the workflow"
        yield Check(name, "ok", found)


def disk_checks(videos: Videos, data: dict[str, PresetData]) -> Iterator[Check]:
    """Check space, permissions and locks of RESULTS and RUNS."""
    settings = videos.plan.settings
    bins = {
        (videos.dataset(name).name, videos.preset(name).DATA.NUM_VOXEL_BINS)
        for name in presets_of(videos)
    }
    stores = sum(
        stores_needed(data[name], number) for name, number in bins if data[name].missing is None
    )
    for key, place, needed in (("RESULTS", settings.RESULTS, stores), ("RUNS", settings.RUNS, 0.0)):
        yield disk_check(key, Path(place), needed)


def disk_check(key: str, path: Path, needed: float) -> Check:
    """Check a folder for results.

    Args:
        key: of the configuration.
        path: the folder, which need not exist.
        needed: bytes that stores will need.
    """
    name, place, free = f"disk ({key})", nearest_existing(path), free_bytes(path)
    found = f"{path}: {free / GB:.0f} GB free"
    if needed:
        found += f", stores need {needed / GB:.1f} GB more"
    try:
        with tempfile.NamedTemporaryFile(dir=place) as stream:
            lock_file(stream.fileno(), Path(stream.name))
    except UserError as error:
        return fault("disk_locks", str(error), key=key)
    except OSError as error:
        reason = f"{place}: cannot be written ({error.strerror})"
        return fault("disk_permission", reason, key=key)
    if free < needed + _LITTLE_DISK:
        return fault("disk_space", found, key=key)
    return Check(name, "ok", found)


def data_check(videos: Videos, dataset: Dataset, data: PresetData) -> Check:
    """Check a data set by its file names."""
    name = f"data ({dataset.name})"
    if data.missing is not None:
        if dataset.kind != "raw":
            return Check(name, "note", f"{dataset.root} is generated by the workflow")
        found = _without_advice(data.missing)
        state: State = "broken" if Path(dataset.root).exists() else "missing"
        return fault("data_missing", found, state, dataset=dataset.name)
    size = data.size
    counts = [f"{size.sequences[s]} sequences in {s}" for s in size.sequences]
    found = f"{dataset.root}: {', '.join(counts)}, {'' if size.spike_size else 'no '}spikes"
    for preset in presets_of(videos):
        if videos.dataset(preset).name != dataset.name:
            continue
        try:
            require_spikes(f"preset {preset}", size.spike_size is not None, videos.preset(preset))
        except UserError as error:
            return fault("data_without_spikes", str(error), dataset=dataset.name)
    if size.faults:
        first = next(f"{where}: {faults[0]}" for where, faults in size.faults.items())
        state = "broken" if dataset.on_error == "stop" else "note"
        found = f"{found}; {len(size.faults)} with faults ({first})"
        return fault("data_faults", found, state, dataset=dataset.name)
    return Check(name, "ok", found)


def _without_advice(error: object) -> str:
    """An error message without its advice, because the check has its own."""
    return str(error).split("; ")[0]


def weight_checks(plan: Workflow) -> Iterator[Check]:
    """Check the files of weights that the presets in PRESETS read."""
    files: dict[Path, str] = {}
    for preset in plan.settings.PRESETS:
        settings = plan.preset(preset)
        problem = find_problem(settings.TASK)
        read = problem.training_weights(settings) | problem.evaluation_weights(settings)
        for key, path in read.items():
            files.setdefault(path, key)
    if not files:
        yield Check("weights", "ok", "none are needed")
    trained = Path(plan.settings.RESULTS, "train")
    trained_here = [trained / name / WEIGHTS for name in plan.names]
    for path, key in files.items():
        yield weight_check(path, key, is_trained_here=path in trained_here)


def weight_check(path: Path, key: str, *, is_trained_here: bool = False) -> Check:
    """Check a file of weights.

    Args:
        path: of the file.
        key: that names it.
        is_trained_here: whether it is the result of a preset of this project.
    """
    name = f"weights ({key})"
    if path.name in PUBLISHED:
        try:
            verify_weights(path)
        except DataError as error:
            if path.exists():
                return fault("weights_damaged", _without_advice(error), key=key, path=path)
            return fault("weights_published", _without_advice(error), "missing", key=key)
        return Check(name, "ok", f"{path}, as published")
    if path.is_file():
        return Check(name, "ok", str(path))
    if is_trained_here:
        return Check(name, "note", f"{path} is not there: that preset is trained first")
    return fault("weights_given", f"{path}: no such file", "missing", key=key)
