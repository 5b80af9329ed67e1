"""Parameters of a :class:`~vrtspike.sst.base_trainer.BaseTrainer` as keys of a preset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vrtspike.config.checking import validate_document
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.yaml_documents import Document, KeyPath
from vrtspike.system.errors import ConfigError, nearest_name

PARAMETERS: Mapping[str, tuple[str, Any]] = {
    "epochs": ("TRAIN.EPOCHS", 100),
    "max_steps": ("TRAIN.MAX_STEPS", None),
    "batch_size": ("TRAIN.BATCH_SIZE", 50),
    "accumulate_grad_batches": ("TRAIN.GRADIENT_ACCUMULATION_STEPS", 1),
    "precision": ("TRAIN.PRECISION", "16-mixed"),
    "gradient_clip_val": ("TRAIN.MAX_GRAD_NORM", None),
    "weight_decay": ("TRAIN.OPTIM.WEIGHT_DECAY", 1e-4),
    "warmup_steps": ("TRAIN.SCHED.WARMUP_STEPS", None),
    "ema": ("TRAIN.EMA", 0.0),
    "early_stopping_patience": ("TRAIN.EARLY_STOPPING.PATIENCE", None),
    "seed": ("SEED", 123),
    "cudnn_deterministic": ("DETERMINISTIC", False),
    "compile_model": ("TRAIN.COMPILE_MODEL", False),
    "compile_mode": ("TRAIN.COMPILE_MODE", "default"),
    "num_workers": ("DATALOADER.TRAIN_WORKERS", 8),
    "pin_memory": ("DATALOADER.PIN_MEMORY", True),
    "persistent_workers": ("DATALOADER.PERSISTENT_WORKERS", True),
    "prefetch_factor": ("DATALOADER.TRAIN_PREFETCH_FACTOR", 2),
}
"""Parameters of the trainer: the key of a preset, and the default."""
ALIASES: Mapping[str, tuple[str, Mapping[Any, Any]]] = {
    "ims_per_gpu": ("batch_size", {}),
    "gradient_accumulation_steps": ("accumulate_grad_batches", {}),
    "use_fp16": ("precision", {False: "32", True: "16-mixed"}),
    "precision": ("precision", {32: "32"}),
    "cudnn_benchmark": ("cudnn_deterministic", {False: True, True: False}),
}
"""Other names of a parameter, and the meaning of their values."""
CLIPPING = "gradient_clip_algorithm"
"""A parameter with one allowed value, ``norm``."""

_LEARNING_RATE = "TRAIN.OPTIM.LR"
_PATIENCE = "TRAIN.EARLY_STOPPING.PATIENCE"
_ALWAYS: Mapping[str, Any] = {"DATALOADER.DROP_LAST": False, "LOG.VAL_EVERY_STEPS": None}
"""Keys that no parameter changes: incomplete batches count, an epoch ends with a validation."""


def preset_values(parameters: Mapping[str, Any], learning_rate: object) -> dict[str, Any]:
    """Return values by the keys of a preset, as they are written: the same on every machine.

    Args:
        parameters: values by names of :data:`PARAMETERS` or :data:`ALIASES`.
        learning_rate: learning rate of the optimiser.

    Raises:
        ConfigError: if a name is unknown (the message suggests the nearest one), a value is not
            allowed, or two names of one parameter disagree.

    >>> preset_values({"ims_per_gpu": 8, "use_fp16": False}, 1e-3)["TRAIN.PRECISION"]
    '32'
    """
    if parameters.get(CLIPPING, "norm") != "norm":
        raise ConfigError(
            f"trainer_params: {CLIPPING} is {parameters[CLIPPING]!r}, expected 'norm'"
        )
    values = {**dict(PARAMETERS.values()), **_ALWAYS, _LEARNING_RATE: learning_rate}
    locations: dict[KeyPath, str] = {_path(_LEARNING_RATE): "model_params: learning_rate"}
    for name, parameter_value in parameters.items():
        if name == CLIPPING:
            continue
        location = f"trainer_params: {name}"
        parameter, value = _parameter(name, parameter_value, location)
        key = PARAMETERS[parameter][0]
        path = _path(key)
        if path in locations and values[key] != value:
            raise ConfigError(
                f"{location} says {parameter} {value!r}, another name {values[key]!r}; give one of "
                "them"
            )
        values[key] = value
        locations[path] = location
    if values[_PATIENCE] is None:
        del values[_PATIENCE]  # its section would switch early stopping on
    document = Document({_path(key): value for key, value in values.items()}, locations)
    validate_document(RunSettings, document, "docs/sst.md explains them.")
    return values | {"TRAIN.VAL_BATCH_SIZE": values["TRAIN.BATCH_SIZE"]}


def _parameter(name: str, value: object, location: str) -> tuple[str, object]:
    """Return the parameter that a name denotes, and its value.

    Raises:
        ConfigError: if there is no such parameter.
    """
    parameter, meanings = ALIASES.get(name, (name, {}))
    if parameter not in PARAMETERS:
        near = nearest_name(name, [*PARAMETERS, *ALIASES], cutoff=0)
        raise ConfigError(f"{location}: unknown; did you mean {near}? docs/sst.md has all of them")
    # Values are compared, not looked up, because a wrong value, such as a list, may have no hash.
    for old, new in meanings.items():
        if old == value:
            return parameter, new
    return parameter, value


def _path(key: str) -> KeyPath:
    return tuple(key.split("."))
