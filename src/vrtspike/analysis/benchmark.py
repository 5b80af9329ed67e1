"""Benchmark of two settings of a preset: ratio of their step times, with confidence interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import stats

from vrtspike.analysis.turns import BenchmarkSide, Length, Turn, run_turns
from vrtspike.config.loading import override_settings
from vrtspike.config.run_schema import UNLIMITED, RunSettings
from vrtspike.errors import ConfigError
from vrtspike.io.flatten import unequal

SCHEMA = 1
NAMES = ("as it is", "changed")
"""Of the two settings."""
CONFIDENCE = 0.95
"""Of the interval around a ratio."""
_ORIGIN = "--against"
WIDE_INTERVAL = 1.5
"""If the ends of an interval differ by more than this factor, more turns are recommended."""


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
    changed = override_settings(settings, changes, "the preset", _ORIGIN)
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
    keys += settings.first_steps.overrides
    return override_settings(settings, keys, "the preset", "benchmark")


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
    notes = dict.fromkeys([*before.first_steps.notes, *after.first_steps.notes])
    return Benchmark(preset, changes, length, turns[0], turns[1], tuple(notes))


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
