"""The processes of a run: their ranks, collective operations, gradient averaging."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from vrtspike.launching.torchrun import RENDEZVOUS_FILE_VARIABLE
from vrtspike.monitoring.timing import SectionSwitch
from vrtspike.system.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True)
class DistributedContext:
    """Rank of this process and number of processes, from ``torchrun``'s environment variables.

    Attributes:
        rank: number of this process in the run.
        local_rank: number of this process on this machine.
        world_size: number of processes of the run.
        local_world_size: number of processes on this machine.
        device: device of this process.
    """

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        """True if this process writes logs and checkpoints."""
        return self.rank == 0

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """Return the sum of a tensor over all processes; the argument is not modified."""
        totals = values.clone()
        if self.world_size > 1:
            dist.all_reduce(totals)
        return totals

    def gather(self, value: T) -> list[T]:
        """Return the values of all processes (any picklable object) by rank, on each process."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.world_size > 1:
            dist.barrier()


@contextmanager
def join_process_group(device: str | None = None) -> Iterator[DistributedContext]:
    """Join the process group that ``torchrun`` started; without ``torchrun``, a single process.

    Args:
        device: ``cpu`` or ``cuda``; None takes a CUDA device if there is one.

    Raises:
        ConfigError: if the device is another one.
    """
    if device not in (None, "cpu", "cuda"):
        raise ConfigError(
            f"device: found {device!r}, expected cpu, cuda or None (CUDA if there is one); "
            "CUDA_VISIBLE_DEVICES chooses among several GPUs"
        )
    rank = int(os.environ.get("RANK", "0"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    local_world_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    on_gpu = device == "cuda" or (device is None and torch.cuda.is_available())
    rank_device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(rank_device)
    if world_size > 1:
        dist.init_process_group(
            "nccl" if on_gpu else "gloo",
            init_method=rendezvous_url(),
            rank=rank,
            world_size=world_size,
            device_id=rank_device if on_gpu else None,
        )
    # NCCL waits for the other processes when a group is destroyed; after an error they wait for
    # this process's next collective operation, until the process ends.
    can_destroy_group = not on_gpu
    try:
        yield DistributedContext(rank, local_rank, world_size, local_world_size, rank_device)
        can_destroy_group = True
    finally:
        if world_size > 1 and can_destroy_group:
            dist.destroy_process_group()


def rendezvous_url() -> str:
    """Return the address where a run's processes meet: a file, or else ``torchrun``'s."""
    store = os.environ.get(RENDEZVOUS_FILE_VARIABLE)
    if store is None:
        return "env://"
    return f"file://{store}"


class _AllReduce:
    """Hook that averages a bucket of gradients over the processes and times the final wait.

    It holds no reference to the replica, because PyTorch would then keep the replica alive.

    Attributes:
        switch: switch of the running section ``backward``; None times nothing.
    """

    switch: SectionSwitch | None = None

    def __call__(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Start the all-reduce of a bucket."""
        # When the last bucket is ready, backward has nothing left to compute: the rest is waiting.
        if bucket.is_last() and self.switch is not None:
            self.switch("sync")
        assert dist.group.WORLD is not None
        return allreduce_hook(dist.group.WORLD, bucket)


class Replica:
    """A model whose gradients are averaged over the processes, if several.

    Args:
        model: model on its device, in its precision.
        ranks: processes of the run.

    Attributes:
        module: the model to call in training.
    """

    def __init__(self, model: nn.Module, ranks: DistributedContext) -> None:
        self._model = model
        self._ranks = ranks
        self._all_reduce = _AllReduce()
        self.module = self._wrapped()

    def renew(self) -> None:
        """Read again which parameters require a gradient; DistributedDataParallel does so once."""
        self.module = self._wrapped()

    def accumulate(self, *, sync: bool) -> AbstractContextManager[None]:
        """Return the context of a micro-step's passes; gradients are averaged if ``sync``."""
        if sync or not isinstance(self.module, DistributedDataParallel):
            return nullcontext()
        return self.module.no_sync()

    def time_wait(self, switch: SectionSwitch | None) -> None:
        """Time what is left of the all-reduce after the backward pass, as ``sync``.

        Args:
            switch: switch of the running section ``backward``; None times nothing.
        """
        self._all_reduce.switch = switch

    def _wrapped(self) -> nn.Module:
        """Return the model, wrapped if there are several processes."""
        ranks = self._ranks
        if ranks.world_size == 1:
            return self._model
        ids = [ranks.local_rank] if ranks.device.type == "cuda" else None
        module = DistributedDataParallel(self._model, device_ids=ids, gradient_as_bucket_view=True)
        # PyTorch inspects a hook's annotations and cannot read postponed ones.
        module.register_comm_hook(self._all_reduce, lambda hook, bucket: hook(bucket))
        return module


def reduce_step_statistics(
    ranks: DistributedContext,
    sums: Mapping[str, torch.Tensor],
    norm: torch.Tensor,
    counts: Sequence[int],
) -> tuple[dict[str, float], float, list[int]]:
    """Return the numbers of an optimiser step, equal on all processes.

    The step's only all-reduce besides the gradients' and its only synchronisation with the device:
    gradients must be known to be finite before they are applied.

    Args:
        ranks: processes of the run.
        sums: scalar loss terms of this process, by name.
        norm: norm of the averaged gradient, a scalar that is equal on all processes.
        counts: whole numbers of this process, at most 2^24.

    Returns:
        the mean of each loss term over the processes; the norm; the sum of each count over them.
    """
    on_host = torch.tensor(counts, dtype=torch.float32, pin_memory=norm.is_cuda)
    on_device = on_host.to(norm.device, non_blocking=True)
    terms = [term.float() for term in sums.values()]
    totals = ranks.sum(torch.cat([torch.stack(terms), on_device]))
    *values, norm_value = torch.cat([totals, norm.float()[None]]).tolist()
    loss_sums = values[: len(terms)]
    count_sums = values[len(terms) :]
    world = ranks.world_size
    means = {name: loss / world for name, loss in zip(sums, loss_sums, strict=True)}
    return means, norm_value, [round(count) for count in count_sums]
