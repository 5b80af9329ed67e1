"""Optimisers, parameter groups with learning rates of their own, and the schedule."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import nn

from vrtspike.config.run_schema import OptimSettings, RunSettings, ScheduleSettings, TrainSettings

DEFAULT_GROUP = "others"
"""Group of all parameters that ``lr_groups()`` does not name."""

_WARMUP_SHARE = 20
"""Without WARMUP_STEPS, one in this many steps belongs to the warm-up."""
_MAX_WARMUP = 100
"""Largest number of warm-up steps without WARMUP_STEPS."""


def scaled_learning_rate(train: TrainSettings, micro_batches: int) -> float:
    """Return ``OPTIM.LR`` for the global batch of this run, scaled by the rule ``SCALE_LR``.

    The ratio of the global batch to ``BASE_BATCH_SIZE`` scales the rate linearly (Goyal et al.,
    2017) or by its square root.

    Args:
        train: the rate and the rule.
        micro_batches: micro-batches of ``BATCH_SIZE`` in an optimiser step, of all processes.

    >>> scaled_learning_rate(TrainSettings(BATCH_SIZE=4, SCALE_LR="sqrt"), micro_batches=6)
    0.0004
    """
    ratio = train.BATCH_SIZE * micro_batches / train.BASE_BATCH_SIZE
    factor = {"none": 1.0, "sqrt": math.sqrt(ratio), "linear": ratio}[train.SCALE_LR]
    return train.OPTIM.LR * factor


@runtime_checkable
class GroupedModel(Protocol):
    """A model with groups of parameters that may learn at rates of their own."""

    def lr_groups(self) -> Mapping[str, Collection[str]]:
        """Return names of parameters by group."""


def trainable_groups(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """Return the trainable parameters of each group, :data:`DEFAULT_GROUP` first.

    Parameters that a :class:`GroupedModel` does not name are in the group :data:`DEFAULT_GROUP`.

    Raises:
        KeyError: if ``lr_groups()`` names an unknown parameter. PyTorch's optimisers reject one
            that is in two groups.
    """
    named = dict(model.named_parameters())
    named_groups: Mapping[str, Collection[str]] = {}
    if isinstance(model, GroupedModel):
        named_groups = model.lr_groups()
    grouped = set(chain.from_iterable(named_groups.values()))
    groups = {DEFAULT_GROUP: [name for name in named if name not in grouped], **named_groups}
    return {
        group: [named[name] for name in names if named[name].requires_grad]
        for group, names in groups.items()
    }


def parameter_groups(
    groups: Mapping[str, list[nn.Parameter]], learning_rate: float, factors: Mapping[str, float]
) -> list[dict[str, object]]:
    """Return groups for an optimiser, each with its name and its rate at the end of the warm-up.

    Args:
        groups: groups from :func:`trainable_groups`; those without parameters are left out.
        learning_rate: rate of groups with factor 1.
        factors: factors on the base rate, by group; 1 for other groups.

    Raises:
        ValueError: if there is no group of that name.
    """
    unknown = sorted(set(factors) - set(groups))
    if unknown:
        raise ValueError(f"unknown parameter group {unknown[0]!r}; known: {', '.join(groups)}")
    rates = {name: learning_rate * factors.get(name, 1.0) for name in groups}
    return [
        {"name": name, "params": parameters, "lr": rates[name], "base_lr": rates[name]}
        for name, parameters in groups.items()
        if parameters
    ]


def build_optimizer(
    groups: list[dict[str, object]], settings: OptimSettings
) -> torch.optim.Optimizer:
    """Build the optimiser that ``OPTIM.TYPE`` names.

    ``adamw8bit`` (Dettmers et al., 2022) is that of bitsandbytes, which computes on CUDA devices
    and on the CPU. On CUDA, AdamW is fused: one kernel for many parameters, without synchronisation
    with the host.

    Raises:
        ModuleNotFoundError: if bitsandbytes is needed and not installed;
            :func:`~vrtspike.config.loading.require_trainable` rejects such settings before.
    """
    options: dict[str, Any] = {"betas": settings.BETAS, "weight_decay": settings.WEIGHT_DECAY}
    if settings.TYPE == "adamw8bit":
        # Imported here, because the import takes seconds.
        from bitsandbytes.optim import AdamW8bit

        return AdamW8bit(groups, **options, is_paged=settings.PAGED)
    parameters = [p for group in groups for p in cast("list[nn.Parameter]", group["params"])]
    on_cuda = bool(parameters) and all(p.is_cuda for p in parameters)
    return torch.optim.AdamW(groups, **options, fused=True if on_cuda else None)


def frozen_parameters(
    groups: Mapping[str, list[nn.Parameter]], steps: Mapping[str, int]
) -> list[tuple[nn.Parameter, int]]:
    """Return the parameters of frozen groups for :func:`set_frozen`, each with its frozen steps.

    Args:
        groups: groups from :func:`trainable_groups`.
        steps: number of first optimiser steps in which a group is frozen.
    """
    return [(parameter, number) for name, number in steps.items() for parameter in groups[name]]


def set_frozen(parameters: Iterable[tuple[nn.Parameter, int]], step: int) -> bool:
    """Set ``requires_grad`` of parameters that are frozen at first, for the step after ``step``.

    The frozen parameters depend on the step alone, so that a resumed run needs no state for them.

    Args:
        parameters: parameters, each with the number of first optimiser steps in which it is frozen.
        step: finished optimiser steps.

    Returns:
        true if ``requires_grad`` changed for any parameter.
    """
    changed = [p for p, steps in parameters if p.requires_grad != (step >= steps)]
    for parameter in changed:
        parameter.requires_grad_(not parameter.requires_grad)
    return bool(changed)


def count_steps(settings: RunSettings, per_epoch: int, micro_batches: int) -> int:
    """Count the optimiser steps of a run; accumulation continues across the end of an epoch.

    Args:
        settings: settings with epochs and ``MAX_STEPS``, which may be 0. None means no limit; at
            least one of the two is a number.
        per_epoch: micro-batches of an epoch.
        micro_batches: micro-batches of a step, over all processes.

    >>> count_steps(RunSettings(), per_epoch=60, micro_batches=6)  # 40 epochs
    400
    """
    train = settings.TRAIN
    limits = []
    if train.epochs is not None:
        limits.append(max(1, train.epochs * per_epoch // micro_batches))
    if train.MAX_STEPS is not None:
        limits.append(train.MAX_STEPS)
    return min(limits)


def warmup_steps(settings: ScheduleSettings, total_steps: int) -> int:
    """Return the steps of the warm-up, ``WARMUP_STEPS`` or a share of all.

    Args:
        settings: section SCHED.
        total_steps: optimiser steps of the run.

    >>> warmup_steps(ScheduleSettings(WARMUP_STEPS=None), total_steps=130)
    6
    """
    if settings.WARMUP_STEPS is None:
        return min(_MAX_WARMUP, total_steps // _WARMUP_SHARE)
    return settings.WARMUP_STEPS


def cosine_factor(step: int, total_steps: int, warmup: int, floor: float) -> float:
    """Return the factor on the learning rate for the step after ``step`` finished ones.

    Linear from ``1/warmup`` to 1 over the first ``warmup`` steps, then half a cosine from 1 down to
    ``floor`` (Loshchilov and Hutter, 2017, without restarts). The last step reaches ``floor`` if
    two or more follow the warm-up; a single one has 1.

    Args:
        step: finished optimiser steps, from 0.
        total_steps: optimiser steps of the run.
        warmup: steps of warm-up; at most ``total_steps`` count.
        floor: the last factor, ``MIN_LR / LR``.

    >>> [round(cosine_factor(step, total_steps=6, warmup=2, floor=0.1), 3) for step in range(6)]
    [0.5, 1.0, 1.0, 0.775, 0.325, 0.1]
    >>> cosine_factor(2, total_steps=3, warmup=2, floor=0.1)
    1.0
    """
    warmup = min(warmup, total_steps)
    if step < warmup:
        return (step + 1) / warmup
    remaining = max(1, total_steps - 1 - warmup)
    progress = min(1.0, (step - warmup) / remaining)
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * progress))


def set_learning_rates(
    optimizer: torch.optim.Optimizer,
    settings: ScheduleSettings,
    learning_rate: float,
    step: int,
    total_steps: int,
) -> float:
    """Set each group's rate for the step after ``step`` finished ones: base rate times a factor.

    The factor depends on the step alone, so that a resumed run needs no state for it.

    Args:
        optimizer: optimiser with the groups of :func:`parameter_groups`.
        settings: warm-up and last rate.
        learning_rate: the rate to which ``MIN_LR`` refers; a group with a fraction of it ends at
            that fraction of ``MIN_LR``.
        step: finished optimiser steps.
        total_steps: optimiser steps of the run.

    Returns:
        ``learning_rate`` times the factor of this step.
    """
    floor = min(1.0, settings.MIN_LR / learning_rate)
    factor = cosine_factor(step, total_steps, warmup_steps(settings, total_steps), floor)
    for group in optimizer.param_groups:
        group["lr"] = factor * group["base_lr"]
    return factor * learning_rate
