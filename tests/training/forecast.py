"""A second objective for the training loop: forecast a field on a grid, sequence to sequence.

Waves travel over a periodic grid; from the first frames of a sequence the model predicts the next
ones. Nothing here knows images, blur or spikes.
"""

from __future__ import annotations

import os
import signal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.checkpoint import checkpoint

from vrtspike.monitoring.timing import section
from vrtspike.system.seeds import mix_seed
from vrtspike.training.objectives import Objective

PAST, FUTURE, SIZE = 3, 2, 16
TERM = signal.SIGTERM


class Waves:
    """Map-style data set of travelling waves; noise depends on (epoch, index) alone."""

    def __init__(self, count: int, noise: float = 0.02) -> None:
        self._count = count
        self._noise = noise
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        rng = np.random.default_rng(mix_seed(index))
        number, speed, phase = rng.integers(1, 4, 2), rng.uniform(0.2, 0.6), rng.uniform(0, 6.28)
        y, x = np.mgrid[:SIZE, :SIZE] * (2 * np.pi / SIZE)
        times = np.arange(PAST + FUTURE)[:, None, None]
        field = np.sin(number[0] * y + number[1] * x + phase - speed * times)
        noise = np.random.default_rng(mix_seed(index, self._epoch)).normal(size=field.shape)
        past = field[:PAST] + self._noise * noise[:PAST]
        return {
            "past": torch.from_numpy(past).float(),
            "future": torch.from_numpy(field[PAST:]).float(),
            "index": torch.tensor(index),
        }


class Forecaster(nn.Module):
    """A few convolutions with dropout (so that random numbers matter) and checkpointing."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.inlet = nn.Conv2d(PAST, width, 3, padding=1, padding_mode="circular")
        self.body = nn.Sequential(
            nn.GELU(), nn.Dropout2d(0.1), nn.Conv2d(width, width, 3, padding=1)
        )
        self.outlet = nn.Conv2d(width, FUTURE, 3, padding=1)

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        """(B, PAST, H, W) to (B, FUTURE, H, W)."""
        x = self.inlet(past)
        with section("body"):
            x = x + checkpoint(self.body, x, use_reentrant=False)
        return self.outlet(x)

    def lr_groups(self) -> dict[str, list[str]]:
        """Parts that may learn at rates of their own; the outlet is in none."""
        named = [name for name, _ in self.named_parameters()]
        return {
            "inlet": [name for name in named if name.startswith("inlet.")],
            "body": [name for name in named if name.startswith("body.")],
        }


class ForecastObjective(Objective):
    """Mean squared error to minimise, skill (1 - error / variance) to report."""

    metric = "skill"

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def prepare(
        self, batch: dict[str, torch.Tensor], device: torch.device
    ) -> dict[str, torch.Tensor]:
        self.seen.append(batch["index"].tolist())
        return {name: value.to(device) for name, value in batch.items()}

    def forward(self, model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return model(batch["past"])

    def losses(
        self, output: torch.Tensor, batch: dict[str, torch.Tensor], step: int
    ) -> dict[str, torch.Tensor]:
        with section("mse"):
            return {"mse": (output - batch["future"]).square().mean()}

    def metrics(
        self, output: torch.Tensor, batch: dict[str, torch.Tensor]
    ) -> list[dict[str, float]]:
        error = (output - batch["future"]).square().mean((1, 2, 3))
        variance = batch["future"].var((1, 2, 3))
        return [{"skill": float(value)} for value in 1 - error / variance]

    def batch_counts(self, batch: dict[str, torch.Tensor]) -> tuple[int, int]:
        return batch["past"].shape[0], batch["past"].shape[0] * (PAST + FUTURE)

    def pictures(
        self, output: torch.Tensor, batch: dict[str, torch.Tensor]
    ) -> dict[str, NDArray[np.uint8]]:
        pair = torch.cat([output[0, 0], batch["future"][0, 0]], dim=1)
        gray = ((pair.clamp(-1, 1) + 1) * 127.5).to(torch.uint8).cpu().numpy()
        return {"forecast": np.repeat(gray[..., None], 3, axis=2)}


class Disturbed(ForecastObjective):
    """Gets a signal, or raises an error, while it computes a given micro-batch; never for 0.

    ``first_micro_batch`` and ``last_micro_batch`` of ``setup_run.py`` give that of a step.
    """

    def __init__(self, micro_batch: int = 0, by: signal.Signals | Exception = TERM) -> None:
        super().__init__()
        self._left, self._by = micro_batch, by

    def losses(self, output, batch, step):
        self._left -= 1
        if self._left == 0:
            if isinstance(self._by, Exception):
                raise self._by
            os.kill(os.getpid(), self._by)
        return super().losses(output, batch, step)
