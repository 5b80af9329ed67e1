"""Benchmark of two settings of a preset: ratio of their step times, with confidence interval.

Trainings of a few steps run one after the other, each in a folder that is removed again.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from vrtspike.config.documents import parse_overrides
from vrtspike.config.loading import override_settings
from vrtspike.config.run_schema import UNLIMITED, RunSettings
from vrtspike.config.workflow import Workflow
from vrtspike.io.files import write_json
from vrtspike.io.flatten import unequal
from vrtspike.monitoring.records import iter_records
from vrtspike.runs.folder import read_record
from vrtspike.runs.names import LOGS, MEMORY, TIMING_OF_STARTS
from vrtspike.system.errors import ConfigError, RunError
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
    manifests = [each.manifest(preset) for each in (workflow, changed)]
    for path in manifests:
        if not path.is_file():
            raise RunError(
                f"{path}: no such file, the data of preset {preset} are not prepared; prepare "
                f"them: snakemake --cores 2 {path}"
            )
    differing = _differences(*pair)
    words = " ".join(f"{key}={value}" for key, (_, value) in differing.items())
    names = (NAMES[0], f"{NAMES[1]} ({words})")
    done: list[pd.DataFrame] = []
    for number in range(2 * turns):
        side = number % 2
        with tempfile.TemporaryDirectory(prefix="vrtspike-benchmark-") as folder:
            process = _launch(pair[side], manifests[side], Path(folder), workflow.settings.GPUS)
            try:
                records = _timed_steps(process, names[side], Path(folder), warm_up + steps, show)
                turn = _read_turn(Path(folder), records[warm_up : warm_up + steps])
            finally:
                process.terminate()
                process.wait()
        show(f"turn {number + 1} of {2 * turns}, {names[side]}: {turn['s'].median():.4g} s a step")
        done.append(turn.assign(setting=NAMES[side], turn=number // 2))
        device, *others = pd.concat(done)["device"].unique()
        if others:
            raise RunError(
                f"turns on different devices: the first ran on {device}, this one on {others[0]}; "
                "set a number of GPUs that stay free: --config GPUS=1"
            )
    first_steps = dict.fromkeys([*before.first_steps, *after.first_steps])
    lines = [
        f"{preset} on {device}",
        *(f"  {key}: {one} -> {other}" for key, (one, other) in differing.items()),
        f"{turns} turns of each, {steps} steps of a turn timed after {warm_up}",
        *(f"timed are the first steps, with {key}" for key in first_steps),
        "",
        comparison_text(pd.concat(done)),
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
    if not changed or changed - _differences(*pair).keys():
        raise ConfigError(
            f"--against {', '.join(sorted(changed))}: there is nothing to compare, the preset has "
            "these values already, or the benchmark sets the key itself; give other keys"
        )
    return pair


def _differences(before: RunSettings, after: RunSettings) -> dict[str, tuple[str, ...]]:
    """The keys whose values differ, with both values as JSON."""
    return unequal(*(each.model_dump(mode="json") for each in (before, after)), absent="-")


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


def _timed_steps(
    process: subprocess.Popen[bytes],
    name: str,
    folder: Path,
    steps: int,
    show: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Wait until a training has made its steps, and read their records."""
    runs, pattern = folder / "runs" / _PRESET, f"*/{LOGS}/{TIMING_OF_STARTS}"
    with (folder / "terminal.txt").open(encoding="utf-8", errors="replace") as terminal:
        while True:
            records = (record for path in runs.glob(pattern) for record in iter_records(path))
            timed = [record for record in records if record["kind"] == "step"]
            if len(timed) >= steps:
                return timed
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(_POLL_S)
                log = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
                last = [f"  {line}" for line in log.splitlines() if line.strip()][-_LAST_LINES:]
                title = f"training {name} ended with status {status} before it was timed; its last"
                raise RunError("\n".join([f"{title} lines:", *last]))
            for line in terminal:
                if line.startswith("waiting: "):  # for free GPUs
                    show(line.rstrip())


def _read_turn(folder: Path, timed: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """A row for each timed step: ``s``, ``samples``, and the run's ``memory`` and ``device``.

    Seconds include the wait for data; on CUDA they are the device's. Memory is the peak in
    megabytes (2**20 bytes) of the first GPU, else (not ``on_gpu``) of the first process and its
    workers.
    """
    (run,) = (folder / "runs" / _PRESET).iterdir()
    record = read_record(run) or {}
    device = record["environment"]["device"]
    lines = [line for line in iter_records(run / LOGS / MEMORY) if line["kind"] == "memory"]
    memory, steps = pd.json_normalize(lines), pd.json_normalize(list(timed))
    on_gpu = "gpu.peak_mb" in memory
    own = memory["process_peak_mb"] + memory["children_mb"]
    return pd.DataFrame(
        {
            "s": steps["ms.step"] / 1e3,
            "samples": steps["samples"],
            "memory": (memory["gpu.peak_mb"] if on_gpu else own).max(),
            "on_gpu": on_gpu,
            "device": f"{record['processes']} x {device['type']} ({device['name']})",
        }
    )


def ratio_of_times(times: pd.DataFrame) -> tuple[float, float, float]:
    """Ratio of the step times of two settings, and the ends of its confidence interval.

    Steps of one turn are correlated (memory layout, load of the machine), so that a turn is one
    observation, its median, and successive turns are a pair. The interval is Student's, for the
    mean of the logarithms of the pairs' ratios. For equal settings whose turns differ by 2 %, it
    excludes 1 in 5 % of cases, a bootstrap over steps in 25 %, one over five turns in 14 %.

    Args:
        times: a row for each step: ``setting`` of :data:`NAMES`, ``turn`` and ``s``.
    """
    medians = times.pivot_table("s", "turn", "setting", aggfunc="median")
    logs = np.log(medians[NAMES[0]] / medians[NAMES[1]])
    interval = stats.ttest_1samp(logs, 0.0).confidence_interval(CONFIDENCE)
    value, low, high = np.exp([logs.mean(), interval.low, interval.high]).tolist()
    return value, low, high


def comparison_text(times: pd.DataFrame) -> str:
    """Times and memory of two settings as a table, and the ratio, with a newline at the end.

    Args:
        times: a row for each step of all turns, with ``setting`` and ``turn``.
    """
    settings = times.groupby("setting")
    low, median, high = (settings["s"].quantile(q).map("{:.4g}".format) for q in (0.25, 0.5, 0.75))
    peak = settings["memory"].max().map("{:.0f} MB".format)
    memory = "GPU memory" if times["on_gpu"].iloc[0] else "memory"
    columns = {"s a step": median, "middle half": low + " to " + high, memory: peak}
    table = pd.DataFrame(columns).rename_axis(None).to_string(col_space=10)

    def line(name: str, value: float, low: float, high: float) -> str:
        return f"{name}: {value:.3f} ({CONFIDENCE:.0%}: {low:.3f} to {high:.3f})"

    ratio = ratio_of_times(times)
    lines = [table, "", line("ratio of step times", *ratio)]
    one, other = settings["samples"].mean()[list(NAMES)]
    value, lowest, highest = (each * other / one for each in ratio)
    if one != other:
        lines.insert(2, f"samples of a step: {one:g} as it is, {other:g} changed")
        lines.append(line("ratio of times per sample", value, lowest, highest))
    if lowest <= 1 <= highest:
        more = "; more --turns would narrow it" if highest > WIDE_INTERVAL * lowest else ""
        meaning = f"no difference seen{more}"
    elif value > 1:
        meaning = f"changed is {value:.2f} x as fast"
    else:
        meaning = f"changed is slower: {1 / value:.2f} x the time"
    return "\n".join(lines) + f"; {meaning}\n"
