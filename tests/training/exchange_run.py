"""Two processes that exchange gradients and buffers; started by test_exchange.py, prints JSON.

A program of its own: it imports everything once and forks the second process.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
from torch import nn

from tests.ports import free_port
from tests.training.recorders import CallRecorder
from vrtspike.config.train_schema import TrainSettings
from vrtspike.training.distributed import (
    Ranks,
    Replica,
    average_gradients,
    join,
    send_from_first,
)
from vrtspike.training.gradients import FlatGradients
from vrtspike.training.micro_steps import LaunchedMicroSteps, RecordedMicroSteps, Work
from vrtspike.training.optimizers import build_optimizer
from vrtspike.training.precision import Precision


class Small(nn.Module):
    """Parameters of odd sizes and layouts, and a constant."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first, self.second = nn.Linear(3, 5), nn.Conv2d(1, 3, 3, padding=1)
        self.second.to(memory_format=torch.channels_last)
        self.register_buffer("constant", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x * self.constant)
        return self.second(y[:, None, None]).square().mean()


class Normalised(Small):
    """The same with running statistics, which the loss does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(self.norm(x))


def inputs(ranks: Ranks, number: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * ranks.rank + number)
    return torch.randn(4, 3, generator=generator)


def by_ddp(model: nn.Module, ranks: Ranks) -> list[list[float]]:
    """Two steps of two micro-batches each; the gradients after each step."""
    replica, found = Replica(model, ranks), []
    for step in range(2):
        model.zero_grad()
        for micro in range(2):
            with replica.accumulate(micro == 1), replica.backward(None, micro == 1):
                replica.module(inputs(ranks, 2 * step + micro)).backward()
        found.append(gradients(model))
    return found


def by_hand(model: nn.Module, ranks: Ranks) -> list[list[float]]:
    """The same with flat gradients, the first micro-batch before there are any."""
    flat, found = None, []
    for step in range(2):
        if flat is not None:
            flat.zero()
        for micro in range(2):
            model(inputs(ranks, 2 * step + micro)).backward()
            flat = flat or FlatGradients(model.parameters())
        average_gradients(flat.buffers, ranks)
        found.append(gradients(model))
    return found


def gradients(model: nn.Module) -> list[float]:
    return torch.cat([p.grad.flatten() for p in model.parameters()]).tolist()


class Loss:
    """The model's own output as the loss."""

    def forward(self, model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return model(batch["x"])

    def losses(
        self, output: torch.Tensor, batch: dict[str, torch.Tensor], step: int
    ) -> dict[str, torch.Tensor]:
        return {"loss": output, "double": 2 * output}


def by_micro_steps(kind: str, ranks: Ranks) -> list[list[float]]:
    """Gradients and statistics after each of six steps of two micro-batches.

    The processes begin with other parameters, and the second one's third step is too small to be
    recorded with the others.
    """
    model = Normalised()
    with torch.no_grad():
        model.first.weight.mul_(1.0 + ranks.rank)
    train = TrainSettings(PRECISION="32")
    work = Work(Loss(), Precision(train, ranks.device), 2)
    optimizer = build_optimizer([{"params": list(model.parameters())}], train.OPTIM)
    given = (model, work, ranks, optimizer, torch.manual_seed)
    recorder = CallRecorder()
    if kind == "recorded":
        steps = RecordedMicroSteps(*given, recorder, lambda step: 0, "32", insist=True)
    else:
        steps = LaunchedMicroSteps(*given)
    found = []
    for step in range(6):
        steps.begin()
        for micro in range(2):
            x = inputs(ranks, 2 * step + micro)
            if (ranks.rank, step, micro) == (1, 2, 0):
                x = x[:2]
            steps({"x": x}, 2 * step + micro, step, micro == 1)
        optimizer.step()
        found.append([*gradients(model), *model.norm.running_mean.tolist()])
    assert (recorder.replays > 2) == (kind == "recorded")
    return found


def constants(ranks: Ranks) -> float:
    """A constant that differs from process to process, unseen by its version."""
    model = Small()
    replica = Replica(model, ranks)
    model.constant.data = torch.full((3,), 1.0 + ranks.rank)
    for step in range(3):
        with replica.accumulate(True), replica.backward(None, True):
            replica.module(inputs(ranks, step)).backward()
    return float(model.constant[0])


def statistics(ranks: Ranks) -> list[float]:
    """Running means after two passes and the sending before a third."""
    model = Normalised()
    replica = Replica(model, ranks)
    for step in range(2):
        with replica.accumulate(True), replica.backward(None, True):
            replica.module(inputs(ranks, step)).backward()
    model.norm.momentum = 0.0
    replica.module(inputs(ranks, 2))
    return model.norm.running_mean.tolist()


def sent(ranks: Ranks) -> list[float]:
    model = Normalised()
    with torch.no_grad():
        model.norm.running_mean.fill_(ranks.rank + 3.0)
        model.norm.weight.fill_(ranks.rank + 4.0)
    send_from_first([*model.parameters(), *model.buffers()], ranks)
    return [*model.norm.running_mean.tolist(), *model.norm.weight.tolist()]


def measure() -> dict[str, Any]:
    with join("cpu") as ranks:
        found = {
            "ddp": by_ddp(Small(), ranks),
            "hand": by_hand(Small(), ranks),
            "launched": by_micro_steps("launched", ranks),
            "recorded": by_micro_steps("recorded", ranks),
            "constant": constants(ranks),
            "statistics": statistics(ranks),
            "sent": sent(ranks),
        }
        return {name: ranks.gather(value) for name, value in found.items()}


if __name__ == "__main__":
    with free_port() as port:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
        other = os.fork()
        os.environ["RANK"] = "0" if other else "1"
        try:
            result = measure()
        except BaseException:
            if not other:
                os._exit(1)
            raise
        if not other:
            os._exit(0)
        print(json.dumps(result))
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]))
