"""The largest batch that fits, and the learning rate that goes with it.

A step over n times as many samples has gradients whose noise is smaller by the root of n, so the
rate may be larger by as much (Krizhevsky, "One weird trick for parallelizing convolutional neural
networks", 2014).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vrtspike.config.run_schema import RunSettings

MOST_GROWTH = 4
"""Times the samples of a step up to which the rule is followed here: beyond, a run sees too few
steps."""


@dataclass(frozen=True)
class BatchAdvice:
    """What is said about the batches of a preset.

    Attributes:
        fits: samples of a micro-step that fit.
        batch: samples of a micro-step to take.
        micro_steps: micro-steps to take.
        rate: learning rate to take.
        before: samples of a step as it is, on one device.
        rate_before: learning rate as it is.
    """

    fits: int
    batch: int
    micro_steps: int
    rate: float
    before: int
    rate_before: float

    @property
    def text(self) -> str:
        """Words and keys for a person.

        >>> BatchAdvice(70, 64, 1, 0.002, 16, 0.001).text
        '70 fit: TRAIN.BATCH_SIZE=64 TRAIN.OPTIM.LR=0.002 (0.001 x sqrt(64/16))'
        """
        keys = f"{self.fits} fit: TRAIN.BATCH_SIZE={self.batch}"
        if self.micro_steps > 1 or self.batch < self.before:
            keys += f" TRAIN.GRADIENT_ACCUMULATION_STEPS={self.micro_steps}"
        step = self.batch * self.micro_steps
        if step == self.before:
            return f"{keys}, {step} samples a step as before"
        rate = f"TRAIN.OPTIM.LR={self.rate:.3g}"
        return f"{keys} {rate} ({self.rate_before:g} x sqrt({step}/{self.before}))"


def advise_batch(settings: RunSettings, fixed: float, sample: float, room: float) -> BatchAdvice:
    """The batches of a preset on a device.

    Where its samples of a step fit into one micro-step, more are taken, up to :data:`MOST_GROWTH`
    times as many, by powers of two; where they do not, as many as fit, and micro-steps that keep
    the samples of a step.

    Args:
        settings: of the preset.
        fixed: GiB that a training takes by itself.
        sample: GiB for each sample of a micro-step.
        room: GiB of the device that may be filled.
    """
    train = settings.TRAIN
    before = train.BATCH_SIZE * train.GRADIENT_ACCUMULATION_STEPS
    fits = max(0, int((room - fixed) / sample))
    rate = train.OPTIM.LR
    if fits < before:
        batch = max((n for n in range(1, fits + 1) if before % n == 0), default=0)
        return BatchAdvice(fits, batch, before // max(1, batch), rate, before, rate)
    growth = min(MOST_GROWTH, 2 ** int(math.log2(fits / before)))
    return BatchAdvice(fits, before * growth, 1, rate * math.sqrt(growth), before, rate)
