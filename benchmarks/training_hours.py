"""How long a whole training takes: its clips, its steps, and the hours at a given speed.

Speed is given for the preset ``baseline``, in clips a second on one GPU; other presets are taken to
be slower or faster as their arithmetic (``benchmarks/results/presets_cpu.json``) says. Nothing is
measured here: the default is an estimate from counted work for one H200, and no training was timed
on a GPU yet. The measured speed of a run stands in its log; give that with --speed.

Examples:
    python benchmarks/training_hours.py                            # the table of docs/training.md
    python benchmarks/training_hours.py --presets baseline --speed 1.2 --gpus 1 2 4
    python benchmarks/training_hours.py --sequences 100 --frames 20000
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from presets import REPOSITORY, load, training_tflop

from vrtspike import cli
from vrtspike.deblurring.costs import training_steps
from vrtspike.deblurring.settings import Settings
from vrtspike.files import read_json

# Clips a second of `baseline` on one H200: what benchmarks/roofline.py counts, and half of it.
ESTIMATED_SPEED = (2.0, 4.0)
# Share of their speed that several GPUs keep beside each other: an assumption.
EFFICIENCY = 0.9
# The training split of GoPro.
SEQUENCES, FRAMES = 22, 2103


@dataclass(frozen=True)
class Plan:
    """A whole training.

    Attributes:
        batch: clips of an optimiser step, over all GPUs.
        steps: optimiser steps.
        relative_work: operations of a clip, of those of a clip of ``baseline``.
    """

    batch: int
    steps: int
    relative_work: float

    @property
    def clips(self) -> int:
        """Clips that are seen, each time they are."""
        return self.batch * self.steps

    def hours(self, speed: float, gpus: int, efficiency: float) -> float:
        """Hours of training, without validation.

        Args:
            speed: clips of ``baseline`` a second on one GPU.
            gpus: how many share the batch.
            efficiency: of several, from 0 to 1.
        """
        together = gpus * (efficiency if gpus > 1 else 1.0)
        return self.clips * self.relative_work / (speed * together) / 3600


def plan(settings: Settings, relative_work: float, sequences: int, frames: int) -> Plan:
    """What a preset asks of a data set, with its batch on one GPU.

    Args:
        settings: of the preset.
        relative_work: operations of a clip, of those of a clip of ``baseline``.
        sequences: of the training split.
        frames: blurry frames of all of them; every run of CLIP_LEN frames is a clip.
    """
    train, steps = settings.TRAIN, training_steps(settings, sequences, frames)
    return Plan(train.BATCH_SIZE * train.GRADIENT_ACCUMULATION_STEPS, steps, relative_work)


def table(names: Sequence[str], options: argparse.Namespace) -> str:
    """Markdown, a row for each preset; hours as a range from the fast to the slow speed."""
    work = read_json(REPOSITORY / "benchmarks/results/presets_cpu.json")["presets"]
    head = ["preset", "clips", "batch", "steps"]
    head += [f"hours on {n} GPU{'s' * (n > 1)}" for n in options.gpus]
    rows = [head, ["---"] * len(head)]
    for name in names:
        relative = training_tflop(work[name]) / training_tflop(work["baseline"])
        found = plan(load(name), relative, options.sequences, options.frames)
        row = [f"`{name}`", f"{found.clips:,}", str(found.batch), f"{found.steps:,}"]
        for gpus in options.gpus:
            hours = [found.hours(speed, gpus, options.efficiency) for speed in options.speed]
            row.append(" to ".join(f"{value:.{int(value < 10)}f}" for value in sorted(hours)))
        rows.append(row)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    options = parse(arguments)
    print(table(options.presets, options))
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--presets", nargs="+", default=["baseline", "reproduce"])
    add("--speed", nargs="+", type=float, default=ESTIMATED_SPEED, help="clips/s of baseline")
    add("--gpus", nargs="+", type=int, default=[1, 8], help="the batch stays that of one GPU")
    add("--efficiency", type=float, default=EFFICIENCY, help="of several GPUs beside each other")
    add("--sequences", type=int, default=SEQUENCES)
    add("--frames", type=int, default=FRAMES)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    cli.run(main)
