"""Benchmark of two settings of a preset: trainings of a few steps, one after the other.

Each training writes into a temporary folder, which is removed afterwards.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.analysis.diagnosis.task_advice import task_advice
from vrtspike.analysis.step_times import SETTINGS_NAMES, times_text
from vrtspike.config.loading import override_settings
from vrtspike.config.run_schema import UNLIMITED, RunSettings
from vrtspike.config.workflow import WorkflowConfig
from vrtspike.config.yaml_documents import parse_overrides
from vrtspike.io.files import write_json
from vrtspike.io.flatten import differing_values
from vrtspike.io.records import iter_records
from vrtspike.runs.file_names import LOGS, MEMORY_LOG, TIMING_OF_STARTS
from vrtspike.runs.folder import require_record
from vrtspike.system.errors import ConfigError, RunError
from vrtspike.system.home import require_home
from vrtspike.system.processes import stop_with_parent

PROGRAM = "scripts/launch_training.py"
"""The launcher, in the workflow's own folder."""

_PRESET = "timed"
_POLL_S = 0.2
_LAST_LINES = 15
_TIMED = (
    "TRAIN.MAX_STEPS=null",
    f"TRAIN.EPOCHS={UNLIMITED}",
    "TRAIN.EARLY_STOPPING=null",
    f"TRAIN.SAVE_EVERY_STEPS={UNLIMITED}",
    f"LOG.VAL_EVERY_STEPS={UNLIMITED}",
    "LOG.ENABLE_TIMING_LOG=true",
    "LOG.TIMING_FILE=true",
    "LOG.TIMING_FILE_INTERVAL=1",
    "LOG.WANDB=null",
    "LOG.MLFLOW=null",
    "LOG.ON_END=null",
)
"""Keys of a timed training. The training has no last step, because a validation would precede it:
the benchmark stops the training. Notifications are off."""


@dataclass(frozen=True)
class BenchmarkLength:
    """The length of a benchmark.

    Attributes:
        turns: number of trainings of each setting.
        steps: timed steps of a training.
        warm_up: steps before the timed ones.
    """

    turns: int
    steps: int
    warm_up: int

    @property
    def last_step(self) -> int:
        """The last timed step of a training."""
        return self.warm_up + self.steps


def compare_step_times(
    workflow: WorkflowConfig,
    preset: str,
    changes: Sequence[str],
    length: BenchmarkLength,
    show: Callable[[str], None],
) -> str:
    """Train a few steps of a preset with its own and with changed keys, in alternating turns.

    Args:
        workflow: configuration with the preset.
        preset: name of the preset.
        changes: changed keys, ``KEY=value``.
        length: number of trainings, and their steps.
        show: function called with a line for every turn.

    Returns:
        the result as text.

    Raises:
        ConfigError: if a key or value is invalid, or changes nothing.
        RunError: if the data are not prepared, a training fails, or the turns ran on different
            devices.
    """
    before = workflow.settings_of(preset)
    after = override_settings(before, parse_overrides(changes, "--against"), "the preset")
    pair = timed_settings(before, after, length.last_step)
    changed = replace(workflow, presets={**workflow.presets, preset: after})
    manifests = [workflow.manifest(preset), changed.manifest(preset)]
    for path, keys in zip(manifests, ([], changes), strict=True):
        if not path.is_file():
            command = f"snakemake --cores 2 {path}"
            pieces = workflow.settings.set_pieces_with(keys)
            if pieces:
                command += f" --config {shlex.quote(f'SET={json.dumps(pieces)}')}"
            raise RunError(
                f"{path}: no such file, the data of preset {preset} are not prepared; prepare "
                f"them: {command}"
            )
    differences = _differences(*pair)
    changed_keys = " ".join(f"{key}={value}" for key, (_, value) in differences.items())
    names = (SETTINGS_NAMES[0], f"{SETTINGS_NAMES[1]} ({changed_keys})")
    results: list[pd.DataFrame] = []
    for index in range(2 * length.turns):
        side = index % 2
        result = _timed_steps(
            names[side], pair[side], manifests[side], workflow.settings.GPUS, length, show
        )
        median = result["s"].median()
        show(f"turn {index + 1} of {2 * length.turns}, {names[side]}: {median:.4g} s a step")
        results.append(result.assign(setting=SETTINGS_NAMES[side], turn=index // 2))
        device = _common_device(results)
    times = pd.concat(results)
    first_steps = dict.fromkeys([*task_advice(before).first_steps, *task_advice(after).first_steps])
    lines = [f"{preset} on {device}"]
    lines += [f"  {key}: {old} -> {new}" for key, (old, new) in differences.items()]
    lines.append(
        f"{length.turns} turns of each, {length.steps} steps of a turn timed after {length.warm_up}"
    )
    lines += [f"timed are the first steps, with {key}" for key in first_steps]
    lines += ["", times_text(times)]
    return "\n".join(lines)


def _common_device(results: Sequence[pd.DataFrame]) -> str:
    """Return the device of all turns.

    Raises:
        RunError: if they ran on different devices.
    """
    device, *others = pd.concat(results)["device"].unique()
    if others:
        raise RunError(
            f"turns on different devices: the first ran on {device}, this one on {others[0]}; "
            "set a number of GPUs that stay free: --config GPUS=1"
        )
    return str(device)


def timed_settings(
    before: RunSettings, after: RunSettings, last_step: int
) -> tuple[RunSettings, RunSettings]:
    """Set the keys of a timed training in both settings.

    Args:
        before: settings of the preset.
        after: changed settings.
        last_step: step after which memory is logged.

    Raises:
        ConfigError: if nothing is changed, or a changed key is set by the benchmark itself.
    """

    def timed(settings: RunSettings) -> RunSettings:
        keys = [
            *_TIMED,
            f"LOG.MEMORY_EVERY_STEPS={last_step}",
            *task_advice(settings).first_steps,
        ]
        return override_settings(settings, parse_overrides(keys, "benchmark"), "the preset")

    pair = timed(before), timed(after)
    changed = _differences(before, after).keys()
    if not changed or changed - _differences(*pair).keys():
        raise ConfigError(
            f"--against {', '.join(sorted(changed))}: there is nothing to compare, the preset has "
            "these values already, or the benchmark sets the key itself; give other keys"
        )
    return pair


def _differences(before: RunSettings, after: RunSettings) -> dict[str, tuple[str, ...]]:
    """Return the keys whose values differ, with both values as JSON."""
    return differing_values(before.model_dump(mode="json"), after.model_dump(mode="json"))


def _timed_steps(
    name: str,
    settings: RunSettings,
    manifest_path: Path,
    gpus: int | str,
    length: BenchmarkLength,
    show: Callable[[str], None],
) -> pd.DataFrame:
    """Train in a temporary folder and return the timed steps, see :func:`_read_turn`.

    Args:
        name: name of the settings, for messages.
        settings: settings with the keys of a timed training.
        manifest_path: path of the data set's manifest.
        gpus: number of GPUs, as ``GPUS`` of the configuration.
        length: steps of the training.
        show: function called with a line while the training waits for GPUs.

    Raises:
        RunError: if the training ends too early.
    """
    with tempfile.TemporaryDirectory(prefix="vrtspike-benchmark-") as temporary:
        folder = Path(temporary)
        process = _launch(folder, settings, manifest_path, gpus)
        try:
            records = _wait_for_steps(name, process, folder, length.last_step, show)
            return _read_turn(folder, records[length.warm_up : length.last_step])
        finally:
            process.terminate()
            process.wait()


def _launch(
    folder: Path, settings: RunSettings, manifest_path: Path, gpus: int | str
) -> subprocess.Popen[bytes]:
    """Start the launcher of a training, which writes below a folder."""
    config = folder / "config.yaml"
    log = folder / "log.txt"
    write_json(folder / "presets" / f"{_PRESET}.yaml", settings.model_dump(mode="json"))
    workflow = {
        "PRESETS": [_PRESET],
        "PRESET_DIR": str(folder / "presets"),
        "RUNS": str(folder / "runs"),
        "RESULTS": str(folder / "results"),
        "GPUS": gpus,
    }
    write_json(config, workflow)
    program = require_home() / PROGRAM
    command = [sys.executable, str(program), "--preset", _PRESET, "--configfile", str(config)]
    command += ["--dataset", str(manifest_path)]
    command += ["--output", str(folder / "result"), "--log", str(log)]
    with (folder / "terminal.txt").open("ab") as terminal, log.open("ab") as errors:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=errors,
            # Ctrl-C in the terminal must not reach the launcher: this process stops it.
            start_new_session=True,
            preexec_fn=stop_with_parent,
        )


def _wait_for_steps(
    name: str,
    process: subprocess.Popen[bytes],
    folder: Path,
    count: int,
    show: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Wait until a training has made its steps, and read their records.

    Raises:
        RunError: if the training ends before, with the last lines of its log.
    """
    with (folder / "terminal.txt").open(encoding="utf-8", errors="replace") as terminal:
        while True:
            records = _step_records(folder)
            if len(records) >= count:
                return records
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(_POLL_S)
                text = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
                lines = [f"  {line}" for line in text.splitlines() if line.strip()]
                raise RunError(
                    f"training {name} ended with status {status} before it was timed; its last "
                    "lines:\n" + "\n".join(lines[-_LAST_LINES:])
                )
            for line in terminal:
                if line.startswith("waiting: "):  # the training waits for free GPUs
                    show(line.rstrip())


def _step_records(folder: Path) -> list[dict[str, Any]]:
    """Return the timing records of the steps that a training has made."""
    paths = (folder / "runs" / _PRESET).glob(f"*/{LOGS}/{TIMING_OF_STARTS}")
    records = (record for path in paths for record in iter_records(path))
    return [record for record in records if record["kind"] == "step"]


def _read_turn(folder: Path, timed: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Read a row for each timed step: ``s``, ``samples``, the run's ``memory`` and ``device``.

    Seconds include the wait for data; on CUDA they are the device's. Memory is the peak in
    megabytes (2**20 bytes) of the first GPU, or (not ``on_gpu``) of the first process and its
    workers.
    """
    (run,) = (folder / "runs" / _PRESET).iterdir()
    record = require_record(run)
    device = record["environment"]["device"]
    lines = [line for line in iter_records(run / LOGS / MEMORY_LOG) if line["kind"] == "memory"]
    memory = pd.json_normalize(lines)
    steps = pd.json_normalize(list(timed))
    on_gpu = "gpu.peak_mb" in memory
    peaks = memory["gpu.peak_mb"] if on_gpu else memory["process_peak_mb"] + memory["children_mb"]
    return pd.DataFrame(
        {
            "s": steps["ms.step"] / 1e3,
            "samples": steps["samples"],
            "memory": peaks.max(),
            "on_gpu": on_gpu,
            "device": f"{record['processes']} x {device['type']} ({device['name']})",
        }
    )
