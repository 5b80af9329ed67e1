"""Benchmark of two settings of a preset: ratio of their step times, with confidence interval.

Trainings of a few steps run one after the other, each in a folder that is removed again.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import stats

from vrtspike.cluster.signals import EXIT_INTERRUPTED
from vrtspike.config.documents import parse_overrides
from vrtspike.config.loading import override_settings
from vrtspike.config.run_schema import UNLIMITED, RunSettings
from vrtspike.errors import ConfigError, RunError
from vrtspike.io.files import write_json
from vrtspike.io.flatten import unequal
from vrtspike.monitoring.records import iter_records
from vrtspike.runs.folder import latest_run, read_record
from vrtspike.runs.names import LOGS, MEMORY, TIMING_OF_STARTS
from vrtspike.system.processes import stop_with_parent

NAMES = ("as it is", "changed")
"""Of the two settings."""
CONFIDENCE = 0.95
"""Of the interval around a ratio."""
_ORIGIN = "--against"
WIDE_INTERVAL = 1.5
"""If the ends of an interval differ by more than this factor, more turns are recommended."""
PROGRAM = Path("scripts/launch_training.py")
"""The launcher, in the project's folder."""

_PRESET = "timed"
_POLL_S = 0.2
_LAST_LINES = 15


@dataclass(frozen=True)
class Length:
    """Numbers of turns and steps.

    Attributes:
        turns: of each setting.
        steps: timed steps of a turn.
        warm_up: steps before them, which are not timed.
    """

    turns: int
    steps: int
    warm_up: int

    @property
    def last_step(self) -> int:
        """The number of a turn's last step."""
        return self.warm_up + self.steps


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

    step_s: tuple[float, ...]
    samples: float
    memory_mb: float
    on_gpu: bool
    device: str


def _train(
    name: str,
    settings: RunSettings,
    dataset: Path,
    length: Length,
    gpus: int | Literal["auto"],
    show: Callable[[str], None],
) -> Turn:
    """Start a training in a temporary folder, stop it after its steps, and read its records."""
    with tempfile.TemporaryDirectory(prefix="vrtspike-benchmark-") as temporary:
        folder = Path(temporary)
        process = _launch(settings, dataset, folder, gpus)
        try:
            shown = 0
            while len(_timed_steps(folder)) < length.last_step:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    raise _failure(name, folder, process.wait(_POLL_S))
                # It may wait for free GPUs.
                waiting = [x for x in _lines(folder / "terminal.txt") if x.startswith("waiting: ")]
                for line in waiting[shown:]:
                    show(line)
                shown = len(waiting)
            turn = _read(folder, length)
            process.terminate()
            if process.wait() != EXIT_INTERRUPTED:
                raise _failure(name, folder, process.returncode)
            return turn
        finally:
            process.terminate()
            process.wait()


def _launch(
    settings: RunSettings, dataset: Path, folder: Path, gpus: int | Literal["auto"]
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


def _timed_steps(folder: Path) -> list[dict[str, Any]]:
    """The records of the steps that a training has timed so far."""
    path = next((folder / "runs" / _PRESET).glob(f"*/{LOGS}/{TIMING_OF_STARTS}"), None)
    records = () if path is None else iter_records(path)
    return [record for record in records if record["kind"] == "step"]


def _read(folder: Path, length: Length) -> Turn:
    """The records of a training that has made its steps."""
    run = latest_run(folder / "runs" / _PRESET)
    assert run is not None
    timed = _timed_steps(folder)[length.warm_up : length.last_step]
    record = read_record(run) or {}
    device = record["environment"]["device"]
    memory = [line for line in iter_records(run / LOGS / MEMORY) if line["kind"] == "memory"]
    on_gpu = memory[-1]["gpu"] is not None
    if on_gpu:
        peaks = [line["gpu"]["peak_mb"] for line in memory]
    else:
        peaks = [line["process_peak_mb"] + line["children_mb"] for line in memory]
    return Turn(
        step_s=tuple(each["ms"]["step"] / 1e3 for each in timed),
        samples=sum(each["samples"] for each in timed) / len(timed),
        memory_mb=float(max(peaks)),
        on_gpu=on_gpu,
        device=f"{record['processes']} x {device['type']} ({device['name']})",
    )


def _failure(name: str, folder: Path, status: int) -> RunError:
    """The error for a training that failed."""
    lines = [f"  {line}" for line in _lines(folder / "log.txt") if line.strip()][-_LAST_LINES:]
    title = f"training {name} ended with status {status} before it was timed; its last lines:"
    return RunError("\n".join([title, *lines]))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()


@dataclass(frozen=True)
class Ratio:
    """A ratio of times and its confidence interval; above 1 the second setting is faster.

    Attributes:
        value: geometric mean over the pairs of turns.
        low: lower end of the interval.
        high: upper end.
    """

    value: float
    low: float
    high: float

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes 1."""
        return not self.low <= 1.0 <= self.high


def ratio_of_times(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> Ratio:
    """Ratio of the step times of two settings.

    Steps of one turn are correlated (memory layout, load of the machine), so that a turn is one
    observation, its median, and successive turns are a pair. The interval is Student's, for the
    mean of the logarithms of the pairs' ratios. For equal settings whose turns differ by 2 %, it
    excludes 1 in 5 % of cases, a bootstrap over steps in 25 %, one over five turns in 14 %.

    Args:
        before: step times of each turn of the first setting, in any unit.
        after: those of the second, as many turns, in the same order.

    Raises:
        ValueError: if there are fewer than two pairs, or the numbers of turns differ.
    """
    if len(before) < 2:
        raise ValueError(f"found {len(before)} pairs of turns, expected 2 or more")
    pairs = zip(before, after, strict=True)
    logs = np.log([np.median(one) / np.median(other) for one, other in pairs])
    interval = stats.ttest_1samp(logs, 0.0).confidence_interval(CONFIDENCE)
    return Ratio(*np.exp([logs.mean(), interval.low, interval.high]).tolist())


@dataclass(frozen=True)
class Benchmark:
    """Result of a benchmark of two settings.

    Attributes:
        preset: its name.
        settings: changed keys, with original and changed value as JSON.
        length: of the turns.
        before: turns with the original settings.
        after: turns with the changed settings, as many.
        notes: differences between the timed steps and those of a complete training.
    """

    preset: str
    settings: Mapping[str, tuple[str, ...]]
    length: Length
    before: Sequence[Turn]
    after: Sequence[Turn]
    notes: Sequence[str] = ()

    @property
    def step_ratio(self) -> Ratio:
        """Of the times of a step."""
        return ratio_of_times([t.step_s for t in self.before], [t.step_s for t in self.after])

    @property
    def samples(self) -> tuple[float, float]:
        """Samples of a step, original and changed."""
        before, after = ([turn.samples for turn in turns] for turns in (self.before, self.after))
        return statistics.fmean(before), statistics.fmean(after)

    @property
    def sample_ratio(self) -> Ratio:
        """Of the times per sample."""
        before, after = self.samples
        times, work = self.step_ratio, after / before
        return Ratio(times.value * work, times.low * work, times.high * work)


def apply_changes(settings: RunSettings, changes: Sequence[str]) -> RunSettings:
    """The settings with changed keys.

    Args:
        settings: of the preset.
        changes: ``KEY=value``.

    Raises:
        ConfigError: if a key or value is invalid, or nothing is changed.
    """
    changed = override_settings(settings, parse_overrides(changes, _ORIGIN), "the preset")
    if not differences(settings, changed):
        raise ConfigError(
            f"{_ORIGIN} {' '.join(changes)}: the preset has these values already, there is nothing "
            "to compare; give other values"
        )
    return changed


def differences(before: RunSettings, after: RunSettings) -> dict[str, tuple[str, ...]]:
    """The keys whose values differ, with both values as JSON."""
    trees = (settings.model_dump(mode="json") for settings in (before, after))
    return unequal(*trees, absent="-")


def timing_settings(settings: RunSettings, last_step: int) -> RunSettings:
    """The settings of a timed training, which is stopped after some steps.

    It has no last step, because a validation would come first, no trackers, and the crops of the
    first phase. All else is as in the preset.

    Args:
        settings: of the preset.
        last_step: the step after which memory is logged.
    """
    keys = [
        "TRAIN.MAX_STEPS=null",
        f"TRAIN.EPOCHS={UNLIMITED}",
        "TRAIN.EARLY_STOPPING=null",
        f"TRAIN.SAVE_EVERY_STEPS={UNLIMITED}",
        f"LOG.VAL_EVERY_STEPS={UNLIMITED}",
        f"LOG.MEMORY_EVERY_STEPS={last_step}",
        "LOG.ENABLE_TIMING_LOG=true",
        "LOG.TIMING_FILE=true",
        "LOG.TIMING_FILE_INTERVAL=1",
        "LOG.WANDB=null",
        "LOG.MLFLOW=null",
        "LOG.ON_END=null",
    ]
    keys += settings.first_steps
    return override_settings(settings, parse_overrides(keys, "benchmark"), "the preset")


def timing_settings_pair(
    before: RunSettings, after: RunSettings, last_step: int
) -> tuple[RunSettings, RunSettings]:
    """:func:`timing_settings` of both.

    Raises:
        ConfigError: if a changed key is one that timing sets itself.
    """
    pair = timing_settings(before, last_step), timing_settings(after, last_step)
    lost = differences(before, after).keys() - differences(*pair).keys()
    if lost:
        raise ConfigError(
            f"{_ORIGIN} {', '.join(sorted(lost))}: the benchmark sets this key itself, for both "
            "settings; leave it out"
        )
    return pair


def run_benchmark(
    preset: str,
    settings: tuple[RunSettings, RunSettings],
    datasets: tuple[Path, Path],
    length: Length,
    gpus: int | Literal["auto"],
    show: Callable[[str], None],
) -> Benchmark:
    """Train a few steps with each of two settings, in alternating turns.

    Args:
        preset: its name.
        settings: original and changed.
        datasets: dataset manifest of each.
        length: numbers of turns and steps.
        gpus: of this machine; ``auto`` for all free ones.
        show: called with a line for every turn.

    Raises:
        ConfigError: if a changed key is one that timing sets itself.
        RunError: if a training fails, or the turns ran on different devices.
    """
    before, after = settings
    pair = timing_settings_pair(before, after, length.last_step)
    changes = differences(*pair)
    words = " ".join(f"{key}={value}" for key, (_, value) in changes.items())
    names = (NAMES[0], f"{NAMES[1]} ({words})")
    turns: tuple[list[Turn], list[Turn]] = [], []
    for number in range(2 * length.turns):
        side = number % 2
        turn = _train(names[side], pair[side], datasets[side], length, gpus, show)
        median = statistics.median(turn.step_s)
        show(f"turn {number + 1} of {2 * length.turns}, {names[side]}: {median:.4g} s a step")
        turns[side].append(turn)
        if turn.device != turns[0][0].device:
            raise RunError(
                f"turns on different devices: the first ran on {turns[0][0].device}, this one on "
                f"{turn.device}; set a number of GPUs that stay free: --config GPUS=1"
            )
    keys = dict.fromkeys([*before.first_steps, *after.first_steps])
    notes = [f"timed are the first steps, with {each}" for each in keys]
    return Benchmark(preset, changes, length, *turns, notes)


def benchmark_text(found: Benchmark) -> str:
    """The result as text, with a newline at the end."""
    length, first = found.length, found.before[0]
    rows = []
    for turns in (found.before, found.after):
        times = [seconds for turn in turns for seconds in turn.step_s]
        low, median, high = np.quantile(times, (0.25, 0.5, 0.75))
        peak = max(turn.memory_mb for turn in turns)
        rows.append((f"{median:.4g}", f"{low:.4g} to {high:.4g}", f"{peak:.0f} MB"))
    heads = ["s a step", "middle half", "GPU memory" if first.on_gpu else "memory"]
    samples, changed = found.samples
    if samples == changed:
        verdict = [_ratio("ratio of step times", found.step_ratio)]
    else:
        verdict = [
            f"samples of a step: {samples:g} as it is, {changed:g} changed",
            _ratio("ratio of step times", found.step_ratio),
            _ratio("ratio of times per sample", found.sample_ratio),
        ]
    verdict[-1] += f"; {_meaning(found.sample_ratio)}"
    lines = [
        f"{found.preset} on {first.device}",
        *(f"  {key}: {before} -> {after}" for key, (before, after) in found.settings.items()),
        f"{length.turns} turns of each, {length.steps} steps of a turn timed after "
        f"{length.warm_up}",
        *found.notes,
        "",
        pd.DataFrame(rows, index=list(NAMES), columns=heads).to_string(col_space=10),
        "",
        *verdict,
    ]
    return "\n".join(lines) + "\n"


def _ratio(name: str, ratio: Ratio) -> str:
    interval = f"{CONFIDENCE:.0%}: {ratio.low:.3f} to {ratio.high:.3f}"
    return f"{name}: {ratio.value:.3f} ({interval})"


def _meaning(ratio: Ratio) -> str:
    if not ratio.is_significant:
        more = "; more --turns would narrow it" if ratio.high > WIDE_INTERVAL * ratio.low else ""
        return f"no difference seen{more}"
    if ratio.value > 1:
        return f"changed is {ratio.value:.2f} x as fast"
    return f"changed is slower: {1 / ratio.value:.2f} x the time"
