"""Optimisers by name, their parameter groups, and the learning rate for a batch size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from typing import Any, cast

import torch
from torch import nn

from vrtspike.config.train_schema import OptimSettings, RateFactors, TrainSettings

BACKBONE, FLOW, NEW = "backbone", "flow", "new"
"""Groups of parameters with a learning rate of their own; a model names the first two."""


def scaled_learning_rate(train: TrainSettings, micro_batches: int) -> float:
    """``OPTIM.LR`` for the global batch of this run, as ``SCALE_LR`` says.

    The ratio of the global batch to ``BASE_BATCH_SIZE`` scales the rate linearly (Goyal et al.,
    2017) or by its square root.

    Args:
        train: the rate and how it is scaled.
        micro_batches: micro-batches of ``BATCH_SIZE`` in an optimiser step, of all processes.

    >>> scaled_learning_rate(TrainSettings(BATCH_SIZE=4, SCALE_LR="sqrt"), micro_batches=6)
    0.0004
    """
    ratio = train.BATCH_SIZE * micro_batches / train.BASE_BATCH_SIZE
    factor = {"none": 1.0, "sqrt": math.sqrt(ratio), "linear": ratio}[train.SCALE_LR]
    return train.OPTIM.LR * factor


def trainable_groups(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """The trainable parameters of each group: ``new``, ``backbone`` and ``flow``.

    A model may have a method ``rate_groups()``, which returns the names of the parameters of
    ``backbone`` and ``flow``. All others are ``new``.

    Raises:
        ValueError: if the model names another group, no parameter of its own, or one twice.
    """
    named = dict(model.named_parameters())
    ask = getattr(model, "rate_groups", None)
    given: Mapping[str, Collection[str]] = ask() if ask is not None else {}
    group_of = dict.fromkeys(named, NEW)
    for group, names in given.items():
        if group not in (BACKBONE, FLOW):
            raise ValueError(f"rate_groups() names {group!r}; there are {BACKBONE!r} and {FLOW!r}")
        for name in names:
            if group_of.get(name) != NEW:
                fault = "no parameter of the model" if name not in named else "in two groups"
                raise ValueError(f"rate_groups(): {name!r} is {fault}")
            group_of[name] = group
    return {
        group: [p for name, p in named.items() if group_of[name] == group and p.requires_grad]
        for group in (NEW, BACKBONE, FLOW)
    }


def parameter_groups(
    groups: Mapping[str, list[nn.Parameter]], learning_rate: float, factors: RateFactors
) -> list[dict[str, object]]:
    """Groups for an optimiser, each with its name and its rate at the end of the warm-up.

    Args:
        groups: from :func:`trainable_groups`; those without parameters are left out.
        learning_rate: what the factors of ``new`` and ``backbone`` multiply.
        factors: that of ``flow`` multiplies the rate of the backbone, as in VRT's training.
    """
    backbone = learning_rate * factors.BACKBONE
    rates = {NEW: learning_rate * factors.NEW, BACKBONE: backbone, FLOW: backbone * factors.FLOW}
    return [
        {"name": name, "params": parameters, "lr": rates[name]}
        for name, parameters in groups.items()
        if parameters
    ]


def build_optimizer(
    groups: list[dict[str, object]], settings: OptimSettings
) -> torch.optim.Optimizer:
    """The optimiser that ``OPTIM.TYPE`` names.

    ``adamw8bit`` (Dettmers et al., 2022) needs bitsandbytes; without it AdamW is taken and one
    warning says so. On CUDA, AdamW is one kernel for many parameters (``fused``), and neither
    counts its steps nor scales gradients on the host; elsewhere it stays PyTorch's default, whose
    results the fused one differs from by rounding.
    """
    kind = settings.TYPE
    if kind == "adamw8bit" and find_spec("bitsandbytes") is None:
        warnings.warn(
            "TRAIN.OPTIM.TYPE is adamw8bit, but the package bitsandbytes is not installed: "
            "training with adamw instead (its moments take four times the memory). "
            "Install bitsandbytes, or set TRAIN.OPTIM.TYPE to adamw.",
            stacklevel=2,
        )
        kind = "adamw"
    if kind == "adamw8bit":
        # Imported here: it takes seconds and most runs do not need it.
        from bitsandbytes.optim import AdamW8bit

        optimizer: torch.optim.Optimizer = AdamW8bit(
            groups,
            betas=settings.BETAS,
            weight_decay=settings.WEIGHT_DECAY,
            is_paged=settings.PAGED,
        )
        return optimizer
    adamw = torch.optim.AdamW(
        groups,
        betas=settings.BETAS,
        weight_decay=settings.WEIGHT_DECAY,
        fused=True if _are_on_cuda(groups) else None,
    )
    adamw.register_load_state_dict_pre_hook(_keep_implementation)
    return adamw


_IMPLEMENTATION = ("fused", "foreach", "capturable")
"""Options of a parameter group that say how an optimiser computes, not what."""


def _are_on_cuda(groups: list[dict[str, object]]) -> bool:
    parameters = [p for group in groups for p in cast("list[nn.Parameter]", group["params"])]
    return bool(parameters) and all(p.is_cuda for p in parameters)


def _keep_implementation(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    """Leave how the optimiser computes as it is, whatever machine or version wrote the state."""
    saved = state["param_groups"]
    if len(saved) != len(optimizer.param_groups):
        return state  # which PyTorch refuses
    groups = [
        {**theirs, **{name: own[name] for name in _IMPLEMENTATION}}
        for own, theirs in zip(optimizer.param_groups, saved, strict=True)
    ]
    return {**state, "param_groups": groups}
