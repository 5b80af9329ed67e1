"""The parameters that a trainer takes, by the names that people know from other frameworks."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

from pydantic import model_validator

from vrtspike.config.checking import validate
from vrtspike.config.fields import (
    FractionBelowOne,
    NonNegative,
    NonNegativeFloat,
    Positive,
    PositiveFloat,
    Section,
    key,
    operational,
)
from vrtspike.config.reading import given_document
from vrtspike.errors import ConfigError

OTHER_NAMES = {
    "ims_per_gpu": "batch_size",
    "gradient_accumulation_steps": "accumulate_grad_batches",
}
"""What some programs call a parameter."""
_USE_FP16 = "use_fp16"


class TrainerParameters(Section):
    """How a model is trained; every parameter has a default."""

    epochs: Positive = key("Passes over the training samples", 100)
    max_steps: Positive | None = key("Stop after this many optimiser steps", None)
    batch_size: Positive = key("Samples per GPU and micro-step", 50)
    accumulate_grad_batches: Positive = key("Micro-steps per optimiser step", 1)
    precision: Literal["16-mixed", "bf16-mixed", "32", "mixed"] = key(
        "Arithmetic; 'mixed' takes the best half type of the device", "16-mixed"
    )
    gradient_clip_val: PositiveFloat | None = key("Clip the gradient to this norm", None)
    gradient_clip_algorithm: Literal["norm"] = key("Only the norm is clipped here", "norm")
    weight_decay: NonNegativeFloat = key("Decoupled weight decay", 1e-4)
    warmup_steps: NonNegative | None = key(
        "Steps of linear warm-up; None: one in twenty, at most 100", None
    )
    ema: FractionBelowOne = key("Decay of the weights' moving average; 0 is off", 0.0)
    early_stopping_patience: Positive | None = key(
        "Epochs without a better validation before training stops; None: no such end", None
    )
    seed: NonNegative = key("Seed of initialisation and order", 123)
    cudnn_deterministic: bool = key("Deterministic algorithms, somewhat slower", False)
    cudnn_benchmark: bool | None = key("Let cuDNN choose; the opposite of the former", None)
    compile_model: bool = key("Compile the model with torch.compile", False)
    compile_mode: Literal["default", "reduce-overhead", "max-autotune"] = key(
        "Mode of torch.compile", "default"
    )
    num_workers: NonNegative = operational("Processes that read data, per GPU", 8)
    pin_memory: bool = operational("Page-locked host memory for copies to the GPU", True)
    persistent_workers: bool = operational("Keep these processes between epochs", True)
    prefetch_factor: Positive = operational("Batches that each of them reads ahead", 2)

    @model_validator(mode="after")
    def _one_way_of_cudnn(self) -> TrainerParameters:
        if self.cudnn_benchmark is not None and self.cudnn_benchmark == self.cudnn_deterministic:
            raise ValueError(
                f"cudnn_benchmark and cudnn_deterministic are both {self.cudnn_benchmark}; one is "
                "the opposite of the other: leave cudnn_benchmark out"
            )
        return self


def read_trainer_parameters(given: Mapping[str, Any]) -> TrainerParameters:
    """Check parameters and fill in defaults; other names of some of them are understood.

    Raises:
        ConfigError: a name is unknown (the nearest known one is told), a value is none of those
            allowed, or two names of one parameter disagree.

    >>> read_trainer_parameters({"ims_per_gpu": 8, "use_fp16": False}).precision
    '32'
    """
    known = [*TrainerParameters.model_fields, *OTHER_NAMES, _USE_FP16]
    require_known(given, known, "trainer_params")
    values: dict[str, Any] = {}
    for name, value in given.items():
        own = OTHER_NAMES.get(name, name)
        if name == _USE_FP16:
            if not isinstance(value, bool):
                raise ConfigError(f"trainer_params: {name} is {value!r}, expected True or False")
            own, value = "precision", "16-mixed" if value else "32"
        if own == "precision":
            value = str(value)
        if values.setdefault(own, value) != value:
            others = [n for n in given if OTHER_NAMES.get(n, n) == own or n == _USE_FP16]
            raise ConfigError(
                f"trainer_params: {' and '.join(others)} say different things ({values[own]!r} and "
                f"{value!r}); give one of them"
            )
    document = given_document(values, "trainer_params")
    return validate(TrainerParameters, document, f"Known parameters: {', '.join(known)}")


def require_arguments(
    made: Callable[..., object], given: Mapping[str, Any], title: str, added: Collection[str] = ()
) -> None:
    """See that a class can be made with these parameters.

    Args:
        made: the class, or what makes an object.
        given: the parameters.
        title: where they stand, for messages.
        added: parameters that are given besides, not by the user.

    Raises:
        ConfigError: a name is unknown (the nearest known one is told), or one is missing.
    """
    parameters = inspect.signature(made).parameters.values()
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
        require_known(given, [name for name in names if name not in added], title)
    missing = [
        p.name
        for p in parameters
        if p.default is p.empty
        and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        and p.name not in {*given, *added}
    ]
    if missing:
        raise ConfigError(f"{title}: {', '.join(missing)} is missing; give a value")


def takes(made: Callable[..., object], name: str) -> bool:
    """Whether a class has a parameter of this name."""
    return name in inspect.signature(made).parameters


def require_known(given: Mapping[str, Any], known: Collection[str], title: str) -> None:
    """Refuse unknown names.

    Raises:
        ConfigError: naming the nearest known one.

    >>> require_known({"epoch": 8}, ["epochs", "batch_size"], "trainer_params")
    Traceback (most recent call last):
        ...
    vrtspike.errors.ConfigError: trainer_params: unknown parameter epoch; did you mean epochs?
    """
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name).lower(), known, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
            raise ConfigError(f"{title}: unknown parameter {name}; {hint}")
