"""Where a run comes from: settings, data, code, machine, time, weights."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrtspike.config.loading import load_preset, preset_base
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.shown import shown_settings
from vrtspike.durations import duration_words
from vrtspike.files import file_digest
from vrtspike.flatten import flatten
from vrtspike.runs.names import WEIGHTS
from vrtspike.runs.published import PublishedRun

DEFAULTS = "the defaults of all keys"


@dataclass(frozen=True)
class Origin:
    """The origin of one run.

    Attributes:
        commit: of the code that trained it, shortened; empty where it was none of git.
        changed: whether that code was not quite this commit's, or became another on the way.
        base: what the settings are compared with.
        differences: key, value there, value here.
        facts: name and value of everything else, in order.
    """

    commit: str
    changed: bool
    base: str
    differences: tuple[tuple[str, str, str], ...]
    facts: tuple[tuple[str, str], ...]


def read_origin(
    folder: Path,
    run: PublishedRun,
    record: Mapping[str, Any],
    times: Sequence[float],
    presets: Path,
) -> Origin:
    """Collect the origin of a published run.

    Args:
        folder: ``results/train/<preset>``.
        run: its identity.
        record: its ``run.json``.
        times: of its logged steps, seconds since the epoch.
        presets: folder of the presets, where the base is looked up.
    """
    base, there = _base(run.name, presets, run.settings)
    environment = record.get("environment") or {}
    commit = _commit(environment)
    facts = {
        "code": _code(environment, record),
        "data set": f"{Path(run.identity.dataset).parent.parent.name}, {run.dataset_digest}",
        "fingerprint": run.fingerprint,
        "machine": _machine(environment, record),
        "training": _training(record, times),
        "versions": _versions(environment),
        "precision": str(record.get("precision", "")),
        "parameters": f"{run.parameters:,}" if run.parameters else "",
        "weights": _weights(folder),
        **{f"begins with {key}": digest for key, digest in run.identity.weights.items()},
    }
    return Origin(
        commit[:8],
        bool((environment.get("git") or {}).get("changed") or record.get("code_changed")),
        base,
        setting_changes(there, run.settings),
        tuple((name, value) for name, value in facts.items() if value),
    )


def setting_changes(there: RunSettings, here: RunSettings) -> tuple[tuple[str, str, str], ...]:
    """Key, value there and value here of every setting that differs, values as JSON."""
    before, after = (flatten(shown_settings(settings)) for settings in (there, here))
    keys = dict.fromkeys([*before, *after])
    return tuple(
        (key, _text(before, key), _text(after, key))
        for key in keys
        if _text(before, key) != _text(after, key)
    )


def training_seconds(record: Mapping[str, Any], times: Sequence[float]) -> float:
    """Time of a training without the time between an interruption and the next start.

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
    """What a preset is compared with: its ``BASE``, or for one without the schema's defaults.

    One that an ablation derives has no file; its base is the preset that it is derived from.
    """
    path = presets / f"{name}.yaml"
    derived_from = own.ablation.origin(name) if own.ablation else None
    parent = preset_base(path) if path.is_file() else derived_from
    file = path.with_name(f"{parent}.yaml")
    if parent is None or not file.is_file():
        return DEFAULTS, type(own)(TASK=own.TASK)
    return f"preset {parent}", load_preset(file)


def _text(values: Mapping[str, Any], key: str) -> str:
    return json.dumps(values[key], ensure_ascii=False) if key in values else "–"


def _commit(environment: Mapping[str, Any]) -> str:
    return str((environment.get("git") or {}).get("commit") or "")


def _code(environment: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    commit = _commit(environment)
    if not commit:
        return "no commit known: trained outside a git checkout"
    words = [commit]
    if environment["git"].get("changed"):
        words.append("with changes that were not committed")
    if changed := record.get("code_changed"):
        words.append(f"other code on the way: {', '.join(map(str, changed))}")
    return "; ".join(words)


def _machine(environment: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    device = environment.get("device") or {}
    count, name = record.get("processes", 1), device.get("name", "")
    parts = [f"{count} x {name}" if device.get("type") == "cuda" else f"{name} (CPU)"]
    if device.get("memory_mb"):
        parts.append(f"{device['memory_mb'] / 1024:.0f} GiB of GPU memory")
    if environment.get("cpus"):
        parts.append(f"{environment['cpus']} CPUs")
    if environment.get("host"):
        parts.append(f"host {environment['host']}")
    if environment.get("batch_job"):
        parts.append(f"job {environment['batch_job']}")
    return ", ".join(parts) if environment else ""


def _training(record: Mapping[str, Any], times: Sequence[float]) -> str:
    parts = [f"{record['step']:,} steps"] if record.get("step") is not None else []
    if starts := record.get("starts"):
        parts.append(duration_words(training_seconds(record, times)))
        begun = datetime.datetime.fromtimestamp(starts[0]["time"], datetime.UTC)
        parts.append(f"begun {begun:%Y-%m-%d %H:%M} UTC")
        if len(starts) > 1:
            parts.append(f"{len(starts)} starts")
    if record.get("status") not in (None, "finished"):
        parts.append(str(record["status"]))
    return ", ".join(parts)


def _versions(environment: Mapping[str, Any]) -> str:
    packages = {"python": environment.get("python"), **(environment.get("packages") or {})}
    device = environment.get("device") or {}
    packages |= {name: device.get(name) for name in ("cuda", "cudnn")}
    return ", ".join(f"{name} {version}" for name, version in packages.items() if version)


def _weights(folder: Path) -> str:
    path = folder / WEIGHTS
    if not path.is_file():
        return "not there any more"
    return f"{path.name}, {path.stat().st_size / 1e6:.1f} MB, SHA-256 {file_digest(path)}"
