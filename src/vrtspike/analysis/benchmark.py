"""Benchmark of two settings of a preset: ratio of their step times, with confidence interval.

Trainings of a few steps run one after the other, each in a folder that is removed again.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from vrtspike.config.documents import parse_overrides
from vrtspike.config.loading import override_settings
from vrtspike.config.run_schema import UNLIMITED, RunSettings
from vrtspike.config.workflow import Workflow
from vrtspike.errors import ConfigError, RunError
from vrtspike.io.files import write_json
from vrtspike.io.flatten import unequal
from vrtspike.monitoring.records import iter_records
from vrtspike.runs.folder import read_record
from vrtspike.runs.names import LOGS, MEMORY, TIMING_OF_STARTS
from vrtspike.system.processes import stop_with_parent

NAMES = ("as it is", "changed")
"""Of the two settings."""
CONFIDENCE = 0.95
"""Of the interval around a ratio."""
WIDE_INTERVAL = 1.5
"""If the ends of an interval differ by more than this factor, more turns are recommended."""
PROGRAM = Path("scripts/launch_training.py")
"""The launcher, in the project's folder."""

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
"""Keys of a timed training, which is stopped after some steps. It has no last step, because a
validation would come first, and informs nobody."""


@dataclass(frozen=True)
class Turn:
    """Result of one training of a few steps.

    Attributes:
        step_s: seconds of each timed step, including the wait for data; the device's time on CUDA.
        samples: mean number of samples of a step.
        memory_mb: peak memory in megabytes (2**20 bytes).
        on_gpu: whether that is memory of the first GPU; else of the first process and its workers.
        device: description.
    """

    step_s: Sequence[float]
    samples: float
    memory_mb: float
    on_gpu: bool
    device: str


def run_benchmark(
    workflow: Workflow,
    preset: str,
    changes: Sequence[str],
    turns: int,
    steps: int,
    warm_up: int,
    show: Callable[[str], None],
) -> str:
    """Train a few steps of a preset with its own and with changed keys, in alternating turns.

    Args:
        workflow: the configuration.
        preset: its name.
        changes: ``KEY=value``.
        turns: number of trainings of each setting.
        steps: timed steps of a training.
        warm_up: steps before them, which are not timed.
        show: called with a line for every turn.

    Returns:
        the result as text.

    Raises:
        ConfigError: if a key or value is invalid, or changes nothing.
        RunError: if the data are not prepared, a training fails, or the turns ran on different
            devices.
    """
    before = workflow.preset(preset)
    after = override_settings(before, parse_overrides(changes, "--against"), "the preset")
    pair = timed_settings(before, after, warm_up + steps)
    changed = replace(workflow, presets={**workflow.presets, preset: after})
    manifests = [_manifest(each, preset) for each in (workflow, changed)]
    differing = _differences(*pair)
    words = " ".join(f"{key}={value}" for key, (_, value) in differing.items())
    names = (NAMES[0], f"{NAMES[1]} ({words})")
    done: tuple[list[Turn], list[Turn]] = [], []
    for number in range(2 * turns):
        side = number % 2
        with tempfile.TemporaryDirectory(prefix="vrtspike-benchmark-") as folder:
            process = _launch(pair[side], manifests[side], Path(folder), workflow.settings.GPUS)
            try:
                turn = _time(process, names[side], Path(folder), warm_up, steps, show)
            finally:
                process.terminate()
                process.wait()
        median = statistics.median(turn.step_s)
        show(f"turn {number + 1} of {2 * turns}, {names[side]}: {median:.4g} s a step")
        done[side].append(turn)
        device = done[0][0].device
        if turn.device != device:
            raise RunError(
                f"turns on different devices: the first ran on {device}, this one on "
                f"{turn.device}; set a number of GPUs that stay free: --config GPUS=1"
            )
    first_steps = dict.fromkeys([*before.first_steps, *after.first_steps])
    lines = [
        f"{preset} on {device}",
        *(f"  {key}: {one} -> {other}" for key, (one, other) in differing.items()),
        f"{turns} turns of each, {steps} steps of a turn timed after {warm_up}",
        *(f"timed are the first steps, with {key}" for key in first_steps),
        "",
        comparison_text(*done),
    ]
    return "\n".join(lines)


def timed_settings(
    before: RunSettings, after: RunSettings, last_step: int
) -> tuple[RunSettings, RunSettings]:
    """Both settings with the keys of a timed training; all else is as in the preset.

    Args:
        before: of the preset.
        after: the changed ones.
        last_step: the step after which memory is logged.

    Raises:
        ConfigError: if nothing is changed, or a key that timing sets itself.
    """

    def timed(settings: RunSettings) -> RunSettings:
        keys = [*_TIMED, f"LOG.MEMORY_EVERY_STEPS={last_step}", *settings.first_steps]
        return override_settings(settings, parse_overrides(keys, "benchmark"), "the preset")

    pair = timed(before), timed(after)
    changed = _differences(before, after).keys()
    if not changed:
        raise ConfigError(
            "--against: the preset has these values already, there is nothing to compare; give "
            "other values"
        )
    if lost := changed - _differences(*pair).keys():
        raise ConfigError(
            f"--against {', '.join(sorted(lost))}: the benchmark sets this key itself, for both "
            "settings; leave it out"
        )
    return pair


def _differences(before: RunSettings, after: RunSettings) -> dict[str, tuple[str, ...]]:
    """The keys whose values differ, with both values as JSON."""
    return unequal(*(each.model_dump(mode="json") for each in (before, after)), absent="-")


def _manifest(workflow: Workflow, preset: str) -> Path:
    """The manifest of a preset's prepared data."""
    path = workflow.manifest(preset)
    if not path.is_file():
        raise RunError(
            f"{path}: no such file, the data of preset {preset} are not prepared; prepare them: "
            f"snakemake --cores 2 {path}"
        )
    return path


def _launch(
    settings: RunSettings, dataset: Path, folder: Path, gpus: int | str
) -> subprocess.Popen[bytes]:
    """Start the launcher of a training, which writes below a folder."""
    presets, config, log = folder / "presets", folder / "config.yaml", folder / "log.txt"
    write_json(presets / f"{_PRESET}.yaml", settings.model_dump(mode="json"))
    workflow = {
        "PRESETS": [_PRESET],
        "PRESET_DIR": str(presets),
        "RUNS": str(folder / "runs"),
        "RESULTS": str(folder / "results"),
        "GPUS": gpus,
    }
    write_json(config, workflow)
    command = [
        *(sys.executable, str(PROGRAM), "--preset", _PRESET, "--configfile", str(config)),
        *("--dataset", str(dataset), "--output", str(folder / "result"), "--log", str(log)),
    ]
    # In a session of its own, so that it gets Ctrl-C only from here.
    with (folder / "terminal.txt").open("ab") as terminal, log.open("ab") as errors:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=errors,
            start_new_session=True,
            preexec_fn=stop_with_parent,
        )


def _time(
    process: subprocess.Popen[bytes],
    name: str,
    folder: Path,
    warm_up: int,
    steps: int,
    show: Callable[[str], None],
) -> Turn:
    """Wait until a training has made its steps, and read its records."""
    with (folder / "terminal.txt").open(encoding="utf-8", errors="replace") as terminal:
        while len(timed := _timed_steps(folder)) < warm_up + steps:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(_POLL_S)
                log = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
                last = [f"  {line}" for line in log.splitlines() if line.strip()][-_LAST_LINES:]
                title = f"training {name} ended with status {status} before it was timed; its last"
                raise RunError("\n".join([f"{title} lines:", *last]))
            for line in terminal:
                if line.startswith("waiting: "):  # for free GPUs
                    show(line.rstrip())
    timed = timed[warm_up : warm_up + steps]
    (run,) = (folder / "runs" / _PRESET).iterdir()
    record = read_record(run) or {}
    device = record["environment"]["device"]
    memory = [line for line in iter_records(run / LOGS / MEMORY) if line["kind"] == "memory"]
    on_gpu = memory[-1]["gpu"] is not None
    if on_gpu:
        peaks = [line["gpu"]["peak_mb"] for line in memory]
    else:
        peaks = [line["process_peak_mb"] + line["children_mb"] for line in memory]
    return Turn(
        step_s=[each["ms"]["step"] / 1e3 for each in timed],
        samples=statistics.fmean(each["samples"] for each in timed),
        memory_mb=float(max(peaks)),
        on_gpu=on_gpu,
        device=f"{record['processes']} x {device['type']} ({device['name']})",
    )


def _timed_steps(folder: Path) -> list[dict[str, Any]]:
    """The records of the steps that a training has timed so far."""
    path = next((folder / "runs" / _PRESET).glob(f"*/{LOGS}/{TIMING_OF_STARTS}"), None)
    records = () if path is None else iter_records(path)
    return [record for record in records if record["kind"] == "step"]


def ratio_of_times(
    before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]
) -> tuple[float, float, float]:
    """Ratio of the step times of two settings, and the ends of its confidence interval.

    Steps of one turn are correlated (memory layout, load of the machine), so that a turn is one
    observation, its median, and successive turns are a pair. The interval is Student's, for the
    mean of the logarithms of the pairs' ratios. For equal settings whose turns differ by 2 %, it
    excludes 1 in 5 % of cases, a bootstrap over steps in 25 %, one over five turns in 14 %.

    Args:
        before: step times of each turn of the first setting, in any unit.
        after: those of the second, as many turns, in the same order.
    """
    pairs = zip(before, after, strict=True)
    logs = np.log([np.median(one) / np.median(other) for one, other in pairs])
    interval = stats.ttest_1samp(logs, 0.0).confidence_interval(CONFIDENCE)
    value, low, high = np.exp([logs.mean(), interval.low, interval.high]).tolist()
    return value, low, high


def comparison_text(before: Sequence[Turn], after: Sequence[Turn]) -> str:
    """Times and memory of two settings as a table, and the ratio, with a newline at the end."""
    rows = []
    for turns in (before, after):
        times = [seconds for turn in turns for seconds in turn.step_s]
        low, median, high = np.quantile(times, (0.25, 0.5, 0.75))
        peak = max(turn.memory_mb for turn in turns)
        rows.append((f"{median:.4g}", f"{low:.4g} to {high:.4g}", f"{peak:.0f} MB"))
    heads = ["s a step", "middle half", "GPU memory" if before[0].on_gpu else "memory"]
    table = pd.DataFrame(rows, index=list(NAMES), columns=heads).to_string(col_space=10)

    def line(name: str, value: float, low: float, high: float) -> str:
        return f"{name}: {value:.3f} ({CONFIDENCE:.0%}: {low:.3f} to {high:.3f})"

    ratio = ratio_of_times([turn.step_s for turn in before], [turn.step_s for turn in after])
    lines = [table, "", line("ratio of step times", *ratio)]
    one, other = (statistics.fmean(turn.samples for turn in turns) for turns in (before, after))
    value, low, high = (each * other / one for each in ratio)
    if one != other:
        lines.insert(2, f"samples of a step: {one:g} as it is, {other:g} changed")
        lines.append(line("ratio of times per sample", value, low, high))
    if low <= 1 <= high:
        more = "; more --turns would narrow it" if high > WIDE_INTERVAL * low else ""
        meaning = f"no difference seen{more}"
    elif value > 1:
        meaning = f"changed is {value:.2f} x as fast"
    else:
        meaning = f"changed is slower: {1 / value:.2f} x the time"
    return "\n".join(lines) + f"; {meaning}\n"
