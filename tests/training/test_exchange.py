"""What two real processes send each other."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

from tests.concurrency import free_port
from tests.training.call_graphs import CallGraphs
from vrtspike.config.run_schema import TrainSettings
from vrtspike.training.cuda_graphs import GraphedMicroSteps
from vrtspike.training.distributed import Ranks, join
from vrtspike.training.micro_steps import LaunchedMicroSteps, Work
from vrtspike.training.optimizers import build_optimizer
from vrtspike.training.precision import Precision


class Normalised(nn.Module):
    """Parameters of odd sizes and layouts, and running statistics that the loss does not read."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first, self.second = nn.Linear(3, 5), nn.Conv2d(1, 3, 3, padding=1)
        self.second.to(memory_format=torch.channels_last)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(self.norm(x))
        return self.second(y[:, None, None]).square().mean()


def inputs(ranks: Ranks, number: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * ranks.rank + number)
    return torch.randn(4, 3, generator=generator)


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

    The processes begin with other parameters, and a batch of the second one's third step is too
    small for the graph of the others.
    """
    model = Normalised()
    with torch.no_grad():
        model.first.weight.mul_(1.0 + ranks.rank)
    train = TrainSettings(PRECISION="32")
    work = Work(Loss(), Precision(train, ranks.device), 2)
    optimizer = build_optimizer([{"params": list(model.parameters())}], train.OPTIM)
    given = (model, work, ranks, optimizer, torch.manual_seed)
    graphs = CallGraphs(model)
    if kind == "graphed":
        steps = GraphedMicroSteps(*given, graphs, lambda step: 0, insist=True)
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
    assert (graphs.replays > 2) == (kind == "graphed")
    return found


def measure(rank: int, port: int, folder: str) -> None:
    """In a process of its own: what each kind of micro-steps comes to."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}
    with join("cpu") as ranks:
        found = {kind: by_micro_steps(kind, ranks) for kind in ("launched", "graphed")}
        torch.save(found, f"{folder}/{rank}.pt")


def test_graphed_micro_steps_exchange_what_launched_ones_do(tmp_path):
    with free_port() as port:
        torch.multiprocessing.spawn(measure, (port, str(tmp_path)), nprocs=2)
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for kind in ("launched", "graphed"):
        one, other = (each[kind] for each in found)
        assert [step[:-3] for step in one] == [step[:-3] for step in other]
    # Statistics are those of each process until the next pass of the launched, and sent at once by
    # the graphed; those of the first process are the same.
    for launched, graphed in zip(found[0]["launched"], found[0]["graphed"], strict=True):
        assert launched == pytest.approx(graphed, rel=1e-5, abs=1e-7)
    assert found[0]["graphed"] == found[1]["graphed"]
