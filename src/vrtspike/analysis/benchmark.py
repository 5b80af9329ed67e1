"""Benchmark of two settings of a preset: ratio of their step times, with confidence interval.

Trainings of a few steps run one after the other, each in a folder that is removed again.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import stats

from vrtspike.cluster.signals import EXIT_INTERRUPTED
from vrtspike.config.documents import parse_overrides
from vrtspike.config.loading import override_settings
from vrtspike.config.run_schema import UNLIMITED, RunSettings
from vrtspike.errors import ConfigError, RunError
from vrtspike.io.flatten import unequal
from vrtspike.monitoring.records import iter_records
from vrtspike.runs.folder import latest_run, read_record
from vrtspike.runs.names import LOGS, MEMORY, TIMING_OF_STARTS
from vrtspike.system.processes import stop_with_parent

SCHEMA = 1
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
class BenchmarkSide:
    """One of the two settings that are compared.

    Attributes:
        name: for messages.
        settings: complete, from :func:`timing_settings`.
        dataset: the dataset manifest.
    """

    name: str
    settings: RunSettings
    dataset: Path


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


def run_turns(
    sides: Sequence[BenchmarkSide],
    length: Length,
    gpus: int | Literal["auto"],
    show: Callable[[str], None],
) -> list[list[Turn]]:
    """Train with each of the settings in alternating turns.

    Args:
        sides: the settings.
        length: numbers of turns and steps.
        gpus: of this machine; ``auto`` for all free ones.
        show: called with a line for every turn.

    Returns:
        The turns of each side.

    Raises:
        RunError: if a training fails, or the turns ran on different devices.
    """
    found: list[list[Turn]] = [[] for _ in sides]
    for number in range(length.turns * len(sides)):
        place = number % len(sides)
        title = f"turn {number + 1} of {length.turns * len(sides)}, {sides[place].name}"
        with tempfile.TemporaryDirectory(prefix="vrtspike-benchmark-") as folder:
            turn = _train(sides[place], Path(folder), length, gpus, show)
        show(f"{title}: {statistics.median(turn.step_s):.4g} s a step")
        found[place].append(turn)
        if turn.device != found[0][0].device:
            raise RunError(
                f"turns on different devices: the first ran on {found[0][0].device}, this one on "
                f"{turn.device}; set a number of GPUs that stay free: --config GPUS=1"
            )
    return found


def _train(
    side: BenchmarkSide,
    folder: Path,
    length: Length,
    gpus: int | Literal["auto"],
    show: Callable[[str], None],
) -> Turn:
    """Start a training, stop it after its steps, and read its records."""
    with _launcher(side, folder, gpus) as process:
        shown_lines = 0
        while not any(step["step"] == length.last_step for step in _timed_steps(folder)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
                raise _failure(side, folder, process.returncode)
            # It may wait for free GPUs.
            lines = _log_lines(folder / "terminal.txt")
            for line in lines[shown_lines:]:
                if line.startswith("waiting: "):
                    show(line)
            shown_lines = len(lines)
        turn = _read(folder, length)
        process.terminate()
        if process.wait() != EXIT_INTERRUPTED:
            raise _failure(side, folder, process.returncode)
    return turn


@contextlib.contextmanager
def _launcher(
    side: BenchmarkSide, folder: Path, gpus: int | Literal["auto"]
) -> Iterator[subprocess.Popen[bytes]]:
    """The launcher of a training; it is terminated when the block is left."""
    presets, config, log = folder / "presets", folder / "config.yaml", folder / "log.txt"
    presets.mkdir()
    settings = side.settings.model_dump(mode="json")
    (presets / f"{_PRESET}.yaml").write_text(json.dumps(settings), encoding="utf-8")
    workflow = {
        "PRESETS": [_PRESET],
        "PRESET_DIR": str(presets),
        "RUNS": str(folder / "runs"),
        "RESULTS": str(folder / "results"),
        "GPUS": gpus,
    }
    config.write_text(json.dumps(workflow), encoding="utf-8")
    command = [
        *(sys.executable, str(PROGRAM), "--preset", _PRESET, "--configfile", str(config)),
        *("--dataset", str(side.dataset), "--output", str(folder / "result"), "--log", str(log)),
    ]
    # In a session of its own, so that it gets Ctrl-C only from here.
    with (folder / "terminal.txt").open("ab") as terminal, log.open("ab") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=errors,
            start_new_session=True,
            preexec_fn=stop_with_parent,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()


def _timed_steps(folder: Path) -> list[dict[str, Any]]:
    """The records of the steps that a training has timed so far."""
    path = next((folder / "runs" / _PRESET).glob(f"*/{LOGS}/{TIMING_OF_STARTS}"), None)
    records = () if path is None else iter_records(path)
    return [record for record in records if record["kind"] == "step"]


def _read(folder: Path, length: Length) -> Turn:
    """The records of a training that has made its steps."""
    run = latest_run(folder / "runs" / _PRESET)
    assert run is not None
    timed = [step for step in _timed_steps(folder) if step["step"] > length.warm_up]
    timed = timed[: length.steps]
    record = read_record(run) or {}
    device = record["environment"]["device"]
    memory = [line for line in iter_records(run / LOGS / MEMORY) if line["kind"] == "memory"]
    on_gpu = memory[-1]["gpu"] is not None
    return Turn(
        step_s=tuple(each["ms"]["step"] / 1e3 for each in timed),
        samples=sum(each["samples"] for each in timed) / len(timed),
        memory_mb=max(
            float(
                line["gpu"]["peak_mb"] if on_gpu else line["process_peak_mb"] + line["children_mb"]
            )
            for line in memory
        ),
        on_gpu=on_gpu,
        device=f"{record['processes']} x {device['type']} ({device['name']})",
    )


def _failure(side: BenchmarkSide, folder: Path, status: int) -> RunError:
    """The error for a training that failed."""
    lines = [line for line in _log_lines(folder / "log.txt") if line.strip()][-_LAST_LINES:]
    text = "\n".join(f"  {line}" for line in lines)
    return RunError(
        f"training {side.name} ended with status {status} before it was timed; its last lines:\n"
        f"{text}"
    )


def _log_lines(path: Path) -> list[str]:
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

    def scaled(self, factor: float) -> Ratio:
        """The ratio of the times per unit of work.

        Args:
            factor: work of the second setting relative to that of the first.
        """
        return Ratio(self.value * factor, self.low * factor, self.high * factor)


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
        return _mean_samples(self.before), _mean_samples(self.after)

    @property
    def sample_ratio(self) -> Ratio:
        """Of the times per sample."""
        before, after = self.samples
        return self.step_ratio.scaled(after / before)


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
        RunError: if a training fails.
    """
    before, after = settings
    pair = timing_settings_pair(before, after, length.last_step)
    changes = differences(*pair)
    words = " ".join(f"{key}={value}" for key, (_, value) in changes.items())
    names = (NAMES[0], f"{NAMES[1]} ({words})")
    sides = [BenchmarkSide(*side) for side in zip(names, pair, datasets, strict=True)]
    turns = run_turns(sides, length, gpus, show)
    keys = dict.fromkeys([*before.first_steps, *after.first_steps])
    notes = [f"timed are the first steps, with {each}" for each in keys]
    return Benchmark(preset, changes, length, turns[0], turns[1], notes)


def _mean_samples(turns: Sequence[Turn]) -> float:
    return sum(turn.samples for turn in turns) / len(turns)


def benchmark_text(found: Benchmark) -> str:
    """The result as text, with a newline at the end."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Benchmark) -> Iterator[str]:
    length, first = found.length, found.before[0]
    yield f"{found.preset} on {first.device}"
    for key, (before, after) in found.settings.items():
        yield f"  {key}: {before} -> {after}"
    yield (
        f"{length.turns} turns of each, {length.steps} steps of a turn timed after {length.warm_up}"
    )
    yield from found.notes
    yield ""
    memory = "GPU memory" if first.on_gpu else "memory"
    yield f"{'':<10}{'s a step':>10}{'middle half':>22}{memory:>14}"
    for name, turns in zip(NAMES, (found.before, found.after), strict=True):
        low, median, high = quartiles(turns)
        half = f"{low:.4g} to {high:.4g}"
        peak = f"{max(turn.memory_mb for turn in turns):.0f} MB"
        yield f"{name:<10}{median:>10.4g}{half:>22}{peak:>14}"
    yield ""
    samples, changed = found.samples
    if samples == changed:
        yield _verdict("ratio of step times", found.step_ratio)
    else:
        yield f"samples of a step: {samples:g} as it is, {changed:g} changed"
        yield _verdict("ratio of step times", found.step_ratio, judged=False)
        yield _verdict("ratio of times per sample", found.sample_ratio)


def _verdict(name: str, ratio: Ratio, *, judged: bool = True) -> str:
    interval = f"{100 * CONFIDENCE:.0f} %: {ratio.low:.3f} to {ratio.high:.3f}"
    figures = f"{name}: {ratio.value:.3f} ({interval})"
    if not judged:
        return figures
    if not ratio.is_significant:
        more = "; more --turns would narrow it" if ratio.high > WIDE_INTERVAL * ratio.low else ""
        return f"{figures}; no difference seen{more}"
    if ratio.value > 1:
        return f"{figures}; changed is {ratio.value:.2f} x as fast"
    return f"{figures}; changed is slower: {1 / ratio.value:.2f} x the time"


def quartiles(turns: Sequence[Turn]) -> list[float]:
    """First quartile, median and third quartile of all step times, in seconds."""
    times = [seconds for turn in turns for seconds in turn.step_s]
    return [float(value) for value in np.quantile(times, (0.25, 0.5, 0.75))]


def benchmark_json(found: Benchmark) -> dict[str, Any]:
    """All figures, with the time of each step, as a JSON value."""
    return {
        "schema": SCHEMA,
        "preset": found.preset,
        "settings": {key: list(values) for key, values in found.settings.items()},
        "device": found.before[0].device,
        "length": asdict(found.length),
        "notes": list(found.notes),
        "sides": {
            name: {
                "seconds_per_step": dict(
                    zip(("low", "median", "high"), quartiles(turns), strict=True)
                ),
                "samples_per_step": samples,
                "peak_memory_mb": round(max(turn.memory_mb for turn in turns), 1),
                "memory_of": "gpu" if turns[0].on_gpu else "processes",
                "step_s": [list(turn.step_s) for turn in turns],
            }
            for name, turns, samples in zip(
                NAMES, (found.before, found.after), found.samples, strict=True
            )
        },
        "confidence": CONFIDENCE,
        "ratio_of_step_times": asdict(found.step_ratio),
        "ratio_of_times_per_sample": asdict(found.sample_ratio),
        "difference_seen": found.sample_ratio.is_significant,
    }
