"""The forecast task with a signal to its own process at a given place."""

from __future__ import annotations

import os

from tests.training.forecast import ForecastTask


class StopAfter(ForecastTask):
    """Sends this process a signal while it computes a given micro-batch; never for 0."""

    def __init__(self, micro_batches: int, number: int) -> None:
        super().__init__()
        self._left = micro_batches
        self._signal = number

    def losses(self, output, batch, step):
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), self._signal)
        return super().losses(output, batch, step)
