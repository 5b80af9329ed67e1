"""Three steps of a model by two processes, and by one with the same batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn

from tests.helpers.concurrency import free_port
from vrtspike.training.distributed import DistributedContext, Replica, join_process_group

PROCESSES = 2
STEPS = 3

Case: TypeAlias = tuple[Callable[[], nn.Module], tuple[Tensor, ...]]
"""Builds a model, always with the same weights; its inputs, a batch of two samples each."""


def train(case: Case, ranks: DistributedContext) -> dict[str, Tensor]:
    """Train on this process's share of the batch; returns the weights."""
    build, inputs = case
    share = slice(ranks.rank, None, ranks.world_size)
    model = build()
    replica = Replica(model, ranks)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(STEPS):
        with replica.accumulate(sync=True):
            output = replica.module(*(tensor[share] for tensor in inputs))
            (output - 0.3).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.state_dict()


def train_and_save(ranks: DistributedContext, cases: Mapping[str, Case], folder: Path) -> None:
    """Train every case as one process of a group, and save the weights."""
    for name, case in cases.items():
        torch.save(train(case, ranks), folder / f"{name}_{ranks.rank}.pt")


def be_one_of_two(rank: int, port: int, call: Callable[..., None], *arguments: object) -> None:
    """Join a group as one of two processes, and call a function with it and the arguments."""
    ranks = {"RANK": rank, "LOCAL_RANK": rank}
    sizes = {"WORLD_SIZE": PROCESSES, "LOCAL_WORLD_SIZE": PROCESSES}
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in (ranks | sizes | address).items()})
    torch.set_num_threads(1)
    with join_process_group("cpu") as group:
        call(group, *arguments)


def call_by_two(call: Callable[..., None], *arguments: object) -> None:
    """Call a function in two processes of a group; an error of theirs is raised here."""
    with free_port() as port:
        spawn(be_one_of_two, (port, call, *arguments), nprocs=PROCESSES)


def train_by_two(cases: Mapping[str, Case], folder: Path) -> None:
    """Train every case by two processes."""
    call_by_two(train_and_save, dict(cases), folder)


def assert_equal_to_one_process(name: str, case: Case, folder: Path) -> None:
    """Both processes have learned what one learns from the whole batch, and it has moved."""
    first, second = (torch.load(folder / f"{name}_{rank}.pt") for rank in range(PROCESSES))
    alone = train(case, DistributedContext(0, 0, 1, 1, torch.device("cpu")))
    begin = case[0]().state_dict()
    for key, expected in alone.items():
        assert torch.equal(first[key], second[key]), key
        torch.testing.assert_close(first[key], expected, rtol=1e-4, atol=1e-6, msg=key)
    assert any(not torch.equal(begin[key], alone[key]) for key in alone)
