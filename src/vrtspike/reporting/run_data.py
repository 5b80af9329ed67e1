"""All data of a run for the report page: results, settings, code and machine."""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vrtspike.analysis.performance import analyze_run
from vrtspike.config.fields import shown_tree
from vrtspike.config.loading import BASE, load_preset
from vrtspike.config.preset_files import find_presets
from vrtspike.config.run_schema import RunSettings, unchanged_weights_note
from vrtspike.config.seed_names import split_seed
from vrtspike.config.tasks import find_task
from vrtspike.config.yaml_documents import read_yaml
from vrtspike.io.files import file_digest
from vrtspike.io.flatten import differing_values
from vrtspike.reporting.evaluation_data import read_evaluation
from vrtspike.reporting.page_data import RunOnPage, RunOrigin
from vrtspike.reporting.performance_data import performance, training_curves
from vrtspike.runs.file_names import WEIGHTS
from vrtspike.runs.folder import require_record
from vrtspike.runs.published import PublishedRun
from vrtspike.system.progress_bar import duration_words


def read_run_on_page(results: Path, name: str, presets: Path) -> RunOnPage:
    """Read one run below a folder of results.

    Args:
        results: folder with ``train/<name>`` and, if it exists, ``evaluate/<name>``.
        name: name of the preset.
        presets: folder of the presets.

    Returns:
        the run, without pictures of validations.

    Raises:
        RunError: if the run is missing, or a file is damaged.
    """
    folder = results / "train" / name
    analysis = analyze_run(folder)
    record = require_record(folder)
    run = analysis.run
    logs = analysis.logs
    weights = folder / WEIGHTS
    seconds = training_seconds(record, logs.train["time"].dropna().tolist())
    trains = run.settings.unchanged_weights is None
    return {
        "name": name,
        "task": run.settings.TASK,
        "dataset": dataset_name(run),
        "parameters": run.parameters,
        "weights_mb": weights.stat().st_size / 1e6 if weights.is_file() else None,
        "training_seconds": seconds if trains else None,
        "validation_pictures": [],
        "curves": training_curves(logs, analysis.metrics),
        "evaluation": read_evaluation(folder, run),
        "performance": performance(analysis),
        "origin": read_origin(folder, run, record, seconds, presets),
    }


def dataset_name(run: PublishedRun) -> str:
    """Return the name of a run's data set, the first of the folders that its task names.

    The name is taken from the manifest's path, because results may be in any folder.

    >>> sea = find_task("sst").SETTINGS(TASK="sst")
    >>> dataset_name(PublishedRun("one", sea, "results/data/sea/dataset.json", ""))
    'sea'
    """
    folder = find_task(run.settings.TASK).data_folder(run.settings)
    return Path(run.dataset).parent.parts[-len(Path(folder).parts)]


DEFAULTS = "the defaults of all keys"


def read_origin(
    folder: Path, run: PublishedRun, record: Mapping[str, Any], seconds: float, presets: Path
) -> RunOrigin:
    """Collect the origin of a published run.

    Args:
        folder: ``results/train/<preset>``.
        run: identity of the run.
        record: contents of its ``run.json``.
        seconds: duration of the training.
        presets: folder of the presets, with the base preset.
    """
    base, base_settings = _base(run.name, presets, run.settings)
    environment = record["environment"]
    commit, code = _code_facts(record)
    facts = {
        "code": "; ".join(code),
        "data set": f"{dataset_name(run)}, {run.dataset_digest}",
        "fingerprint": run.fingerprint,
        "machine": _machine_text(run, environment),
        "training": _training_text(run, record, seconds),
        "versions": _versions_text(environment),
        "precision": record.get("precision"),
        "parameters": f"{run.parameters:,}" if run.parameters else "",
        "weights": _weights_text(folder / WEIGHTS),
        **{f"begins with {key}": digest for key, digest in run.weights.items()},
    }
    return {
        "commit": commit,
        "base": base,
        "differences": setting_changes(base_settings, run.settings),
        "facts": [(name, value) for name, value in facts.items() if value],
    }


def _code_facts(record: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the commit of the code in words, and all facts about the code."""
    git = record["environment"]["git"] or {}
    if git:
        commit = f"commit {git['commit'][:8]}"
        code = [git["commit"]]
    else:
        commit = "no known commit"
        code = ["no commit known: trained outside a git checkout"]
    if git.get("changed"):
        code.append("with changes that were not committed")
    changed = record.get("code_changed")
    if changed:
        code.append(f"changed during the run: {', '.join(changed)}")
    if len(code) > 1:
        commit += " with changes"
    return commit, code


def _machine_text(run: PublishedRun, environment: Mapping[str, Any]) -> str:
    """Return the devices, CPUs and host of a training."""
    device = environment["device"]
    memory = device.get("memory_mb")
    if memory:
        devices = f"{run.processes} x {device['name']}, {memory / 1024:.0f} GiB of GPU memory"
    else:
        devices = f"{device['name']} (CPU)"
    return f"{devices}, {environment['cpus']} CPUs, host {environment['host']}"


def _training_text(run: PublishedRun, record: Mapping[str, Any], seconds: float) -> str:
    """Return the steps, duration and start of a training."""
    start = run.settings.unchanged_weights
    if start is not None:
        return unchanged_weights_note(start)
    began = datetime.datetime.fromtimestamp(record["starts"][0]["time"], datetime.UTC)
    return f"{run.steps:,} steps, {duration_words(seconds)}, begun {began:%Y-%m-%d %H:%M} UTC"


def _versions_text(environment: Mapping[str, Any]) -> str:
    """Return the versions of Python, packages and CUDA."""
    versions = {"python": environment["python"], **environment["packages"]}
    for name in ("cuda", "cudnn"):
        versions[name] = environment["device"].get(name)
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def _weights_text(path: Path) -> str:
    """Return name, size and digest of a file of weights."""
    if not path.is_file():
        return "missing"
    size = f"{path.stat().st_size / 1e6:.1f} MB"
    return f"{path.name}, {size}, SHA-256 {file_digest(path)}"


def setting_changes(base: RunSettings, settings: RunSettings) -> list[tuple[str, ...]]:
    """Return key, base value and own value of every setting that differs, values as JSON."""
    text = functools.partial(json.dumps, ensure_ascii=False)
    differences = differing_values(shown_tree(base), shown_tree(settings), text=text)
    return [(key, *values) for key, values in differences.items()]


def training_seconds(record: Mapping[str, Any], times: Sequence[float]) -> float:
    """Compute the duration of a training, without the time between its interruptions and restarts.

    Args:
        record: ``run.json``, with the time of every start.
        times: times of its logged steps, in any order.

    >>> training_seconds({"starts": [{"time": 0.0}, {"time": 100.0}]}, [1.0, 5.0, 107.0])
    12.0
    """
    starts = sorted(start["time"] for start in record.get("starts", ()))
    seconds = 0.0
    for start, end in zip(starts, [*starts[1:], float("inf")], strict=False):
        moments = [moment for moment in times if start <= moment < end]
        seconds += max(moments, default=start) - start
    return seconds


def _base(name: str, presets: Path, settings: RunSettings) -> tuple[str, RunSettings]:
    """Return name and settings of the base of a preset: its ``BASE``, or the schema's defaults.

    The base of an ablation's variant is the preset that it is derived from; further seeds have the
    base of the first.
    """
    name, _ = split_seed(name)
    files = find_presets(presets).bases
    parent = None
    if name in files:
        parent = read_yaml(files[name]).values.get(BASE)
    elif settings.ablation:
        parent = settings.ablation.origin(name)
    if parent is None or parent not in files:
        return DEFAULTS, type(settings)(TASK=settings.TASK)
    return f"preset {parent}", load_preset(files[parent])
