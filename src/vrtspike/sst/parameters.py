"""The parameters that a trainer takes, by the names that people know from other frameworks."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from vrtspike.config.aliases import KeyPath
from vrtspike.config.checking import validate
from vrtspike.config.documents import Document, nested
from vrtspike.config.run_schema import RunSettings
from vrtspike.errors import ConfigError

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
"""The key of a preset that each of them is, and its default."""
OTHER_NAMES: Mapping[str, tuple[str, Mapping[Any, Any]]] = {
    "ims_per_gpu": ("batch_size", {}),
    "gradient_accumulation_steps": ("accumulate_grad_batches", {}),
    "use_fp16": ("precision", {False: "32", True: "16-mixed"}),
    "cudnn_benchmark": ("cudnn_deterministic", {False: True, True: False}),
}
"""What some programs call a parameter, and what their values mean."""
_CLIPPING = "gradient_clip_algorithm"


def read_trainer_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their defaults; other names of some of them are understood.

    Raises:
        ConfigError: a name is unknown (the nearest known one is told), or two names of one
            parameter disagree.

    >>> read_trainer_parameters({"ims_per_gpu": 8, "use_fp16": False})["precision"]
    '32'
    """
    _require_known(given, [*PARAMETERS, *OTHER_NAMES, _CLIPPING], "trainer_params")
    if given.get(_CLIPPING, "norm") != "norm":
        raise ConfigError(f"trainer_params: {_CLIPPING} is {given[_CLIPPING]!r}, expected 'norm'")
    found: dict[str, Any] = {}
    for name, value in given.items():
        own, meanings = OTHER_NAMES.get(name, (name, {}))
        if meanings:
            if not isinstance(value, bool):
                raise ConfigError(f"trainer_params: {name} is {value!r}, expected True or False")
            value = meanings[value]
        value = str(value) if own == "precision" else value
        if found.setdefault(own, value) != value:
            raise ConfigError(
                f"trainer_params: {name} says {own} {value!r}, another name {found[own]!r}; give "
                "one of them"
            )
    return {name: found.get(name, default) for name, (_, default) in PARAMETERS.items()}


def preset_values(parameters: Mapping[str, Any], learning_rate: object) -> dict[str, Any]:
    """Values by the dotted keys of a preset.

    Raises:
        ConfigError: a value is none of those allowed.
    """
    values = {place: parameters[name] for name, (place, _) in PARAMETERS.items()}
    values |= {"TRAIN.OPTIM.LR": learning_rate, "DATALOADER.DROP_LAST": False}
    values = {place: value for place, value in values.items() if value is not None}
    names = {place: f"trainer_params: {name}" for name, (place, _) in PARAMETERS.items()}
    names["TRAIN.OPTIM.LR"] = "model_params: learning_rate"
    places: dict[KeyPath, str] = {(*place.split("."),): name for place, name in names.items()}
    validate(RunSettings, Document(nested(values), places), "docs/sst.md explains them.")
    return {"TRAIN.MAX_GRAD_NORM": None, **values}


def plain_parameters(
    made: Callable[..., object], given: Mapping[str, Any], title: str, **added: object
) -> dict[str, Any]:
    """Parameters of a class as JSON values, paths as text.

    Args:
        made: the class.
        given: its parameters.
        title: where they stand, for messages.
        added: what it is made with besides.

    Raises:
        ConfigError: it takes no such parameter, one is missing, or one is no JSON value.
    """
    parameters = inspect.signature(made).parameters
    if not any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        _require_known(given, [name for name in parameters if name not in added], title)
    plain = {name: str(v) if isinstance(v, Path) else v for name, v in given.items()}
    try:
        inspect.signature(made).bind(**added, **plain)
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{title}: {error}; expected JSON values, such as numbers") from error
    return plain


def _require_known(given: Mapping[str, Any], known: Collection[str], title: str) -> None:
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name).lower(), known, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
            raise ConfigError(f"{title}: unknown parameter {name}; {hint}")
