"""Two settings of a preset, trained in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vrtspike.benchmarking.ratio import Ratio, ratio_of_times
from vrtspike.benchmarking.short_runs import Side, differences, first_steps, timed_pair
from vrtspike.benchmarking.turns import Length, Turn, take_turns
from vrtspike.config.run_schema import RunSettings

NAMES = ("as it is", "changed")
"""Of the two settings."""


@dataclass(frozen=True)
class Benchmark:
    """Two settings of a preset and the turns of both.

    Attributes:
        preset: its name.
        settings: keys in which they differ, with the value as it is and the changed one, as JSON.
        length: of the turns.
        before: turns of the preset as it is.
        after: turns of the changed one, as many.
        notes: in what the timed steps differ from those of a whole training.
    """

    preset: str
    settings: Mapping[str, tuple[str, str]]
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
        """Samples of a step, as it is and changed."""
        return _mean_samples(self.before), _mean_samples(self.after)

    @property
    def sample_ratio(self) -> Ratio:
        """Of the times of a sample: what counts where steps have different numbers of them."""
        before, after = self.samples
        return self.step_ratio.scaled(after / before)


def run_benchmark(
    preset: str,
    settings: tuple[RunSettings, RunSettings],
    datasets: tuple[Path, Path],
    length: Length,
    gpus: int | Literal["auto"],
    tell: Callable[[str], None],
) -> Benchmark:
    """Train a few steps with each of two settings, in turns.

    Args:
        preset: its name.
        settings: as it is and changed, as a configuration gives them.
        datasets: manifest of the data of each.
        length: how many turns and steps.
        gpus: of this machine; ``auto`` for all that are free.
        tell: is told of every turn.

    Raises:
        ConfigError: if timing would make a key equal in which they differ.
        RunError: if a training fails.
    """
    before, after = settings
    pair = timed_pair(before, after, length.last_step)
    changes = differences(*pair)
    words = " ".join(f"{key}={value}" for key, (_, value) in changes.items())
    names = (NAMES[0], f"{NAMES[1]} ({words})")
    sides = [Side(*side) for side in zip(names, pair, datasets, strict=True)]
    turns = take_turns(sides, length, gpus, tell)
    notes = dict.fromkeys([*first_steps(before), *first_steps(after)])
    return Benchmark(preset, changes, length, turns[0], turns[1], tuple(notes))


def _mean_samples(turns: Sequence[Turn]) -> float:
    return sum(turn.samples for turn in turns) / len(turns)
