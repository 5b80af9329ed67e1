"""All data of a run for the report page: results, settings, code and machine."""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.config.loading import load_preset, preset_base
from vrtspike.config.problems import find_problem
from vrtspike.config.run_schema import RunSettings, shown_settings
from vrtspike.errors import RunError
from vrtspike.io.files import file_digest
from vrtspike.io.flatten import unequal
from vrtspike.reporting.evaluations import Contents, read_evaluation
from vrtspike.reporting.measurements import read_performance, training_curves
from vrtspike.runs.folder import read_record
from vrtspike.runs.names import METRICS_TABLE, WEIGHTS
from vrtspike.runs.published import PublishedRun, read_published
from vrtspike.system.progress_bar import duration_words


def read_run(results: Path, name: str, presets: Path) -> Contents:
    """Read one run below a folder of results.

    Args:
        results: contains ``train/<name>`` and, if they exist, ``evaluate/<name>`` and
            ``performance/<name>``.
        name: the preset.
        presets: folder of the presets.

    Returns:
        the run's ``name``, ``dataset`` and ``steps``; ``parameters`` of its model,
        ``weights_mb``: size of its file of weights in 10**6 bytes (None if it is missing) and
        ``training_seconds``; ``uses_spikes``: whether its model uses spikes, None for a problem
        without spikes; ``curves``, ``evaluation``, ``performance`` and ``origin``.

    Raises:
        RunError: if the run is missing, or a file is damaged.
    """
    folder = results / "train" / name
    run, record = read_published(folder), read_record(folder) or {}
    log = folder / METRICS_TABLE
    if not log.is_file():
        raise RunError(f"{log}: no such file, which every finished run has; train the preset again")
    weights, problem = folder / WEIGHTS, find_problem(run.settings.TASK)
    times = pd.read_csv(log, usecols=["time"])["time"].dropna().tolist()
    return {
        "name": name,
        "dataset": _dataset_name(run.dataset, problem.data_folder(run.settings)),
        "steps": run.steps,
        "parameters": run.parameters,
        "weights_mb": weights.stat().st_size / 1e6 if weights.is_file() else None,
        "training_seconds": training_seconds(record, times),
        "uses_spikes": run.settings.value("MODEL.USE_SPIKE"),
        "curves": training_curves(log, problem.METRICS),
        "evaluation": read_evaluation(results / "evaluate" / name, run.fingerprint),
        "performance": read_performance(results / "performance" / name, run.fingerprint),
        "origin": read_origin(folder, run, record, times, presets),
    }


def _dataset_name(manifest: str, folder: str) -> str:
    """The name of a data set from its manifest's path.

    Args:
        manifest: its path, below any folder of results.
        folder: the data folder of a preset, as deep as that of the manifest.

    >>> _dataset_name("results/data/demo/k8/dataset.json", "gopro/k32")
    'demo'
    """
    return Path(manifest).parent.parts[-len(Path(folder).parts)]


DEFAULTS = "the defaults of all keys"


def read_origin(
    folder: Path,
    run: PublishedRun,
    record: Mapping[str, Any],
    times: Sequence[float],
    presets: Path,
) -> Contents:
    """Collect the origin of a published run.

    Args:
        folder: ``results/train/<preset>``.
        run: its identity.
        record: its ``run.json``.
        times: of its logged steps, seconds since the epoch.
        presets: folder of the presets, with the base preset.

    Returns:
        ``commit`` of the code that trained it, shortened; empty outside git; ``changed``: whether
        the code had uncommitted changes, or was changed during the run; ``base``: what the settings
        are compared with; ``differences``: key, base value, own value; ``facts``: name and value of
        everything else, in order.
    """
    base, there = _base(run.name, presets, run.settings)
    environment = record.get("environment") or {}
    git = environment.get("git") or {}
    facts = {
        "code": _code(environment, record),
        "data set": f"{Path(run.dataset).parent.parent.name}, {run.dataset_digest}",
        "fingerprint": run.fingerprint,
        "machine": _machine(environment, record),
        "training": _training(record, times),
        "versions": _versions(environment),
        "precision": str(record.get("precision", "")),
        "parameters": f"{run.parameters:,}" if run.parameters else "",
        "weights": _weights(folder),
        **{f"begins with {key}": digest for key, digest in run.weights.items()},
    }
    return {
        "commit": str(git.get("commit") or "")[:8],
        "changed": bool(git.get("changed") or record.get("code_changed")),
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
    parent = preset_base(path) if path.is_file() else derived_from
    file = path.with_name(f"{parent}.yaml")
    if parent is None or not file.is_file():
        return DEFAULTS, type(own)(TASK=own.TASK)
    return f"preset {parent}", load_preset(file)


def _code(environment: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    git = environment.get("git") or {}
    if not git.get("commit"):
        return "no commit known: trained outside a git checkout"
    words = [
        git["commit"],
        *(["with changes that were not committed"] if git.get("changed") else []),
    ]
    if changed := record.get("code_changed"):
        words.append(f"changed during the run: {', '.join(map(str, changed))}")
    return "; ".join(words)


def _machine(environment: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    device = environment.get("device") or {}
    name, memory = device.get("name", ""), device.get("memory_mb")
    is_gpu, count = device.get("type") == "cuda", record.get("processes", 1)
    facts = {
        f"{count} x {name}" if is_gpu else f"{name} (CPU)": device,
        f"{(memory or 0) / 1024:.0f} GiB of GPU memory": memory,
        f"{environment.get('cpus')} CPUs": environment.get("cpus"),
        f"host {environment.get('host')}": environment.get("host"),
    }
    return ", ".join(text for text, known in facts.items() if known)


def _training(record: Mapping[str, Any], times: Sequence[float]) -> str:
    parts = [f"{record['step']:,} steps"] if record.get("step") is not None else []
    if starts := record.get("starts"):
        begun = datetime.datetime.fromtimestamp(starts[0]["time"], datetime.UTC)
        parts.append(duration_words(training_seconds(record, times)))
        parts.append(f"begun {begun:%Y-%m-%d %H:%M} UTC")
    return ", ".join(parts)


def _versions(environment: Mapping[str, Any]) -> str:
    packages = {"python": environment.get("python"), **(environment.get("packages") or {})}
    device = environment.get("device") or {}
    packages |= {name: device.get(name) for name in ("cuda", "cudnn")}
    return ", ".join(f"{name} {version}" for name, version in packages.items() if version)


def _weights(folder: Path) -> str:
    path = folder / WEIGHTS
    if not path.is_file():
        return "missing"
    return f"{path.name}, {path.stat().st_size / 1e6:.1f} MB, SHA-256 {file_digest(path)}"
