"""Train a model on monthly temperatures by one call, and keep it in one file."""

from __future__ import annotations

import inspect
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vrtspike.cluster.signals import EXIT_RESUMABLE, process_number
from vrtspike.config.checking import validate
from vrtspike.config.documents import Document, KeyPath, nested
from vrtspike.config.run_schema import RunSettings
from vrtspike.io.files import atomic_path, file_digest
from vrtspike.io.weights import UNREADABLE, load_trained
from vrtspike.runs.names import BEST_WEIGHTS
from vrtspike.sst.dataset import SSTObjective
from vrtspike.sst.grid import Area
from vrtspike.sst.model import RecursiveAttentionTransformer as RecursiveAttentionTransformer
from vrtspike.sst.model import place_on_grid
from vrtspike.sst.store import PreparedStore
from vrtspike.system.errors import ConfigError, RunError
from vrtspike.system.suggestions import nearest
from vrtspike.training.fit import fit

MODEL_SAVE_PATH = "models"
"""A folder for saved models, for use in ``save_path``; never a default."""
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
OTHER_NAMES: Mapping[str, tuple[str, Mapping[Any, Any]]] = {
    "ims_per_gpu": ("batch_size", {}),
    "gradient_accumulation_steps": ("accumulate_grad_batches", {}),
    "use_fp16": ("precision", {False: "32", True: "16-mixed"}),
    "precision": ("precision", {32: "32"}),
    "cudnn_benchmark": ("cudnn_deterministic", {False: True, True: False}),
}
"""Other names of a parameter, and the meaning of their values."""
CLIPPING = "gradient_clip_algorithm"
"""A parameter with one allowed value, ``norm``."""

_OPTIONAL = ("TRAIN.SCHED.WARMUP_STEPS", "TRAIN.EARLY_STOPPING.PATIENCE")
"""Keys left out if None: the first is chosen by the number of steps, the second is off."""
_LEARNING_RATE = 1e-3
_MAX_WARMUP = 100


def read_model(
    path: str | Path, model_class: Callable[..., nn.Module]
) -> tuple[nn.Module, dict[str, Any]]:
    """Load a model that a :class:`BaseTrainer` saved, ready to forecast.

    Args:
        path: the file; no code in it is run.
        model_class: class of the model.

    Returns:
        The model; and its facts: title, region, parameters, steps.

    Raises:
        RunError: if the file is missing, damaged, no saved model or of another class.
    """
    try:
        contents = torch.load(path, map_location="cpu", weights_only=True)
        facts = contents.pop("facts")
        del contents["weights"]
        model = model_class(**facts["model_params"])
        place_on_grid(model, **{name: values.numpy() for name, values in contents.items()})
    except UNREADABLE as error:
        raise RunError(
            f"{path}: no model that a trainer saved, damaged, or of another class ({error}); give "
            "its class, or train it again"
        ) from error
    load_trained(model, path)
    return model.eval(), facts


@dataclass
class BaseTrainer:
    """Trainer of a model on the temperatures of a region.

    Training uses :func:`vrtspike.training.fit.fit`: the same call, with the same ``uid``, continues
    a run that was stopped.

    Attributes:
        title: heading of the printed lines.
        area: the region.
        uid: name of the run; another name starts another run.
        model_class: class of the model, made with ``model_params``; called with the anomalies of
            the months read, (B, seq_len, H, W), and the month of the year of the last, (B,). If the
            model has a method ``on_grid(sea, latitudes, longitudes)``, this is called with the
            grid.
        dataset_class: class of the data set, made with ``dataset_params``, ``area`` and ``split``;
            with the attributes ``store``, ``offset``, ``seq_len`` and ``lead`` of
            :class:`~vrtspike.sst.dataset.ERA5SSTMonthlyDataset`.
        save_path: file for the model with the best validation.
        pre_model: a file to start from; True is the one at ``save_path``, False none.
        dataset_params: JSON values.
        trainer_params: parameters of the trainer, see :data:`PARAMETERS`.
        model_params: JSON values; ``learning_rate`` is that of the optimiser.
        folder: folder of the run: checkpoints, logs, weights.

    Raises:
        ConfigError: if ``uid`` cannot name a folder, or if one of ``trainer_params`` is unknown, of
            a wrong value, or contradicts another.
    """

    title: str
    area: Area
    uid: str
    model_class: Callable[..., nn.Module]
    dataset_class: Callable[..., Any]
    save_path: str | Path
    pre_model: bool | str | Path = False
    dataset_params: Mapping[str, Any] = field(default_factory=dict)
    trainer_params: Mapping[str, Any] = field(default_factory=dict)
    model_params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the parameters of the trainer."""
        path = Path(self.save_path)
        uid = str(self.uid)
        if uid in ("", "..") or Path(uid).name != uid:
            raise ConfigError(f"uid: found {uid!r}, expected a word that can name a folder")
        self.folder = path.with_name(f"{path.stem}_runs") / uid
        self.dataset_params = _json_values(self.dataset_params)
        self.trainer_params = _json_values(self.trainer_params)
        self.model_params = _json_values(self.model_params)
        self.learning_rate = self.model_params.get("learning_rate", _LEARNING_RATE)
        self.settings = preset_values(self.trainer_params, self.learning_rate)

    def train(self) -> nn.Module:
        """Train, save, and return the model with the weights of the best validation.

        Raises:
            UserError: if data, settings or ``pre_model`` cannot be used.
            SystemExit: with the status of a stopped program, when the run was asked to stop; its
                checkpoint is kept.
        """
        data = {**self.dataset_params, "area": asdict(self.area)}
        dataset = self.dataset_class(**data, split="train")
        store = dataset.store
        parameters = self._model_parameters(dataset)
        first_weights = self.save_path if self.pre_model is True else self.pre_model

        @wraps(self.model_class)
        def build(**parameters: Any) -> nn.Module:  # noqa: ANN401
            model = self.model_class(**parameters)
            place_on_grid(model, **store.placement)
            if first_weights:
                load_trained(model, first_weights)
            return model

        # The model is built once in advance, so that errors of parameters or weights come before
        # the run is created.
        build(**parameters)
        identity = {"data": store.digest}
        if first_weights:
            identity["pre_model"] = file_digest(first_weights)
        outcome = fit(
            self.folder,
            SSTObjective(store.weights, store.fields["deviation"], dataset.offset),
            model_class=build,
            model_parameters=parameters,
            dataset_class=self.dataset_class,
            dataset_parameters={**data, "split": "train"},
            validation_parameters={**data, "split": "val"},
            identity=identity,
            settings=self._settings(len(dataset)),
        )
        if outcome.status == "interrupted":
            _show(f"{self.title}: stopped after step {outcome.step}; uid={self.uid!r} goes on")
            raise SystemExit(EXIT_RESUMABLE)
        model = outcome.model
        best = self.folder / BEST_WEIGHTS
        if best.is_file():
            load_trained(model, best)
        if process_number() == 0:
            self._save(model, store, parameters, outcome.step)
        _show(f"{self.title}: finished after {outcome.step} steps; model: {Path(self.save_path)}")
        return model.eval()

    def _model_parameters(self, dataset: Any) -> dict[str, Any]:  # noqa: ANN401 - any data set
        """Return the parameters of the model; ``seq_len`` and ``lead`` are those of the data.

        Raises:
            ConfigError: if ``model_params`` contradicts the data.
        """
        accepted = inspect.signature(self.model_class).parameters
        of_data = {name: getattr(dataset, name) for name in ("seq_len", "lead") if name in accepted}
        parameters = of_data | dict(self.model_params)
        if any(parameters[name] != value for name, value in of_data.items()):
            raise ConfigError(
                f"model_params: found {parameters}, expected {of_data} as in the data"
            )
        if "learning_rate" not in accepted:
            parameters.pop("learning_rate", None)
        return parameters

    def _save(
        self, model: nn.Module, store: PreparedStore, parameters: dict[str, Any], steps: int
    ) -> None:
        """Write the file that :func:`read_model` reads."""
        facts = {
            "title": self.title,
            "uid": str(self.uid),
            "area": asdict(self.area),
            "steps": steps,
            "model_params": parameters,
            "dataset_params": self.dataset_params,
        }
        grid = {name: torch.as_tensor(values) for name, values in store.placement.items()}
        contents = {"facts": facts, "weights": model.state_dict(), **grid}
        with atomic_path(Path(self.save_path)) as temporary:
            torch.save(contents, temporary)

    def _settings(self, samples: int) -> dict[str, Any]:
        """Return the sections of a preset for :func:`fit`; every value is printed.

        Args:
            samples: size of the training split.
        """
        size = self.settings["TRAIN.BATCH_SIZE"]
        batches = math.ceil(samples / size)
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        per_step = self.settings["TRAIN.GRADIENT_ACCUMULATION_STEPS"] * processes
        limits = []
        epochs = self.settings["TRAIN.EPOCHS"]
        if epochs is not None:
            limits.append(max(1, epochs * batches // per_step))
        max_steps = self.settings["TRAIN.MAX_STEPS"]
        if max_steps:
            limits.append(max_steps)
        steps = min(limits)
        chosen = {"TRAIN.SCHED.WARMUP_STEPS": min(_MAX_WARMUP, steps // 20)} | self.settings
        if chosen["TRAIN.PRECISION"] == "16-mixed" and not torch.cuda.is_available():
            chosen["TRAIN.PRECISION"] = "32"  # a CPU computes float16 slowly
        _show(f"========== {self.title}, {self.area.name} ==========")
        _show(f"samples: {samples}, steps: {steps}, learning_rate: {self.learning_rate}")
        for name, (key, _) in PARAMETERS.items():
            value = chosen.get(key)
            requested_value = self.settings.get(key)
            if value == requested_value:
                _show(f"{name}: {value}")
            else:
                _show(f"{name}: {value} instead of {requested_value}")
        chosen["TRAIN.VAL_BATCH_SIZE"] = size
        chosen["LOG.VAL_EVERY_STEPS"] = max(1, batches // per_step)
        return nested(chosen)


def preset_values(parameters: Mapping[str, Any], learning_rate: object) -> dict[str, Any]:
    """Return values by the keys of a preset; :data:`OTHER_NAMES` of parameters are accepted.

    Raises:
        ConfigError: if a name is unknown (the message suggests the nearest one), a value is not
            allowed, or two names of one parameter disagree.

    >>> preset_values({"ims_per_gpu": 8, "use_fp16": False}, 1e-3)["TRAIN.PRECISION"]
    '32'
    """
    values = dict(PARAMETERS.values())
    values |= {"TRAIN.OPTIM.LR": learning_rate, "DATALOADER.DROP_LAST": False}
    places: dict[KeyPath, str] = {("TRAIN", "OPTIM", "LR"): "model_params: learning_rate"}
    if parameters.get(CLIPPING, "norm") != "norm":
        raise ConfigError(
            f"trainer_params: {CLIPPING} is {parameters[CLIPPING]!r}, expected 'norm'"
        )
    for name, parameter_value in parameters.items():
        if name == CLIPPING:
            continue
        place = f"trainer_params: {name}"
        parameter, value = _parameter(name, parameter_value, place)
        key = PARAMETERS[parameter][0]
        path = _path(key)
        if path in places and values[key] != value:
            raise ConfigError(
                f"{place} says {parameter} {value!r}, another name {values[key]!r}; give one of "
                "them"
            )
        values[key] = value
        places[path] = place
    for key in _OPTIONAL:
        if values[key] is None:
            del values[key]
    document = Document({_path(key): value for key, value in values.items()}, places)
    validate(RunSettings, document, "docs/sst.md explains them.")
    return values


def _parameter(name: str, value: object, place: str) -> tuple[str, object]:
    """Return the parameter that a name denotes, and its value.

    Raises:
        ConfigError: if there is no such parameter.
    """
    parameter, meanings = OTHER_NAMES.get(name, (name, {}))
    if parameter not in PARAMETERS:
        near = nearest(name, [*PARAMETERS, *OTHER_NAMES], cutoff=0)
        raise ConfigError(f"{place}: unknown; did you mean {near}? docs/sst.md has all of them")
    # Values are compared, not looked up, because a wrong value, such as a list, may have no hash.
    for old, new in meanings.items():
        if old == value:
            return parameter, new
    return parameter, value


def _path(key: str) -> KeyPath:
    return tuple(key.split("."))


def _json_values(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return parameters as JSON values, paths as text: they are saved and identify the run."""
    return json.loads(json.dumps(values or {}, default=os.fspath))


def _show(line: str) -> None:
    """Print on the first process of a run."""
    if process_number() == 0:
        print(line, flush=True)
