"""All data of a run for the report page: results, settings, code and machine."""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vrtspike.analysis.performance import read_analysis
from vrtspike.config.documents import read_yaml
from vrtspike.config.loading import BASE, load_preset
from vrtspike.config.problems import find_problem
from vrtspike.config.run_schema import RunSettings, kept_note, shown_settings
from vrtspike.io.files import file_digest
from vrtspike.io.flatten import unequal
from vrtspike.reporting.evaluations import Contents, read_evaluation
from vrtspike.reporting.measurements import performance, training_curves
from vrtspike.runs.folder import read_record
from vrtspike.runs.names import WEIGHTS
from vrtspike.runs.published import PublishedRun
from vrtspike.system.progress_bar import duration_words


def read_run(results: Path, name: str, presets: Path) -> Contents:
    """Read one run below a folder of results.

    Args:
        results: contains ``train/<name>`` and, if it exists, ``evaluate/<name>``.
        name: the preset.
        presets: folder of the presets.

    Returns:
        the run's ``name`` and ``dataset``; ``parameters`` of its model,
        ``weights_mb``: size of its file of weights in 10**6 bytes (None if it is missing) and
        ``training_seconds`` (None if nothing was trained); ``uses_spikes``: whether its model uses
        spikes, None for a problem without spikes; ``validation``: the value of ``DATA.VALIDATION``,
        None without validations; ``curves``, ``evaluation``, ``performance`` and ``origin``.

    Raises:
        RunError: if the run is missing, or a file is damaged.
    """
    folder = results / "train" / name
    analysis, record = read_analysis(folder), read_record(folder) or {}
    run, logs, weights = analysis.run, analysis.logs, folder / WEIGHTS
    seconds = training_seconds(record, logs.train["time"].dropna().tolist())
    trains = run.settings.kept_start is None
    return {
        "name": name,
        "dataset": dataset_name(run),
        "parameters": run.parameters,
        "weights_mb": weights.stat().st_size / 1e6 if weights.is_file() else None,
        "training_seconds": seconds if trains else None,
        "uses_spikes": run.settings.value("MODEL.USE_SPIKE"),
        "validation": run.settings.value("DATA.VALIDATION") if trains else None,
        "curves": training_curves(logs, analysis.metrics),
        "evaluation": read_evaluation(folder, run),
        "performance": performance(analysis),
        "origin": read_origin(folder, run, record, seconds, presets),
    }


def dataset_name(run: PublishedRun) -> str:
    """The name of a run's data set: of the folders that its problem names the first one.

    Only the manifest's path has it; results may lie in any folder.

    >>> sea = find_problem("sst").SETTINGS(TASK="sst")
    >>> dataset_name(PublishedRun("one", sea, "results/data/sea/dataset.json", ""))
    'sea'
    """
    folder = find_problem(run.settings.TASK).data_folder(run.settings)
    return Path(run.dataset).parent.parts[-len(Path(folder).parts)]


DEFAULTS = "the defaults of all keys"


def read_origin(
    folder: Path, run: PublishedRun, record: Mapping[str, Any], seconds: float, presets: Path
) -> Contents:
    """Collect the origin of a published run.

    Args:
        folder: ``results/train/<preset>``.
        run: its identity.
        record: its ``run.json``.
        seconds: that the training took.
        presets: folder of the presets, with the base preset.

    Returns:
        ``commit`` of the code that trained it, in words; ``base``: what the settings are compared
        with; ``differences``: key, base value, own value; ``facts``: name and value of everything
        else, in order.
    """
    base, there = _base(run.name, presets, run.settings)
    environment, started = record["environment"], record["starts"][0]["time"]
    git, device = environment["git"] or {}, environment["device"]
    commit, code = "no known commit", ["no commit known: trained outside a git checkout"]
    if git:
        commit, code = f"commit {git['commit'][:8]}", [git["commit"]]
    if git.get("changed"):
        code.append("with changes that were not committed")
    if changed := record.get("code_changed"):
        code.append(f"changed during the run: {', '.join(changed)}")
    machine = f"{device['name']} (CPU)"
    if memory := device.get("memory_mb"):
        machine = f"{run.processes} x {device['name']}, {memory / 1024:.0f} GiB of GPU memory"
    begun = f"{datetime.datetime.fromtimestamp(started, datetime.UTC):%Y-%m-%d %H:%M} UTC"
    versions = {"python": environment["python"], **environment["packages"]}
    versions |= {name: device.get(name) for name in ("cuda", "cudnn")}
    weights, found = folder / WEIGHTS, "missing"
    if weights.is_file():
        size = f"{weights.stat().st_size / 1e6:.1f} MB"
        found = f"{weights.name}, {size}, SHA-256 {file_digest(weights)}"
    trained = f"{run.steps:,} steps, {duration_words(seconds)}, begun {begun}"
    if (start := run.settings.kept_start) is not None:
        trained = kept_note(start)
    facts = {
        "code": "; ".join(code),
        "data set": f"{dataset_name(run)}, {run.dataset_digest}",
        "fingerprint": run.fingerprint,
        "machine": f"{machine}, {environment['cpus']} CPUs, host {environment['host']}",
        "training": trained,
        "versions": ", ".join(f"{name} {each}" for name, each in versions.items() if each),
        "precision": record.get("precision"),
        "parameters": f"{run.parameters:,}" if run.parameters else "",
        "weights": found,
        **{f"begins with {key}": digest for key, digest in run.weights.items()},
    }
    return {
        "commit": f"{commit} with changes" if len(code) > 1 else commit,
        "base": base,
        "differences": setting_changes(there, run.settings),
        "facts": [(name, value) for name, value in facts.items() if value],
    }


def setting_changes(there: RunSettings, here: RunSettings) -> tuple[tuple[str, ...], ...]:
    """Key, base value and own value of every setting that differs, values as JSON."""
    trees = shown_settings(there), shown_settings(here)
    text = functools.partial(json.dumps, ensure_ascii=False)
    return tuple((key, *pair) for key, pair in unequal(*trees, text=text).items())


def training_seconds(record: Mapping[str, Any], times: Sequence[float]) -> float:
    """Duration of a training without the time between interruptions and the next starts.

    Args:
        record: ``run.json``, with the time of every start.
        times: of its logged steps, in any order.

    >>> training_seconds({"starts": [{"time": 0.0}, {"time": 100.0}]}, [1.0, 5.0, 107.0])
    12.0
    """
    starts = sorted(start["time"] for start in record.get("starts", ()))
    seconds = 0.0
    for start, end in zip(starts, [*starts[1:], float("inf")], strict=False):
        within = [moment for moment in times if start <= moment < end]
        seconds += max(within, default=start) - start
    return seconds


def _base(name: str, presets: Path, own: RunSettings) -> tuple[str, RunSettings]:
    """What a preset is compared with: its ``BASE``, or else the schema's defaults.

    The base of an ablation's variant is the preset that it is derived from.
    """
    path = presets / f"{name}.yaml"
    derived_from = own.ablation.origin(name) if own.ablation else None
    parent = read_yaml(path).values.get(BASE) if path.is_file() else derived_from
    file = path.with_name(f"{parent}.yaml")
    if parent is None or not file.is_file():
        return DEFAULTS, type(own)(TASK=own.TASK)
    return f"preset {parent}", load_preset(file)
