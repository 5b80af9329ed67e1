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

from vrtspike.cluster.signals import EXIT_INTERRUPTED, process_number
from vrtspike.config.checking import validate
from vrtspike.config.documents import Document, KeyPath, nested
from vrtspike.config.run_schema import RunSettings
from vrtspike.io.files import atomic_path, file_digest
from vrtspike.io.weights import UNREADABLE, load_trained
from vrtspike.runs.names import BEST_WEIGHTS
from vrtspike.sst.dataset import SSTTask
from vrtspike.sst.grid import Area
from vrtspike.sst.model import RecursiveAttentionTransformer as RecursiveAttentionTransformer
from vrtspike.sst.model import place_on_grid
from vrtspike.system.errors import ConfigError, RunError
from vrtspike.system.suggestions import nearest
from vrtspike.training.fit import fit

MODEL_SAVE_PATH = "models"
"""A folder for saved models, for ``save_path``; nothing falls back on it."""
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
    "precision": ("precision", {32: "32"}),
    "cudnn_benchmark": ("cudnn_deterministic", {False: True, True: False}),
}
"""Other names of a parameter, and the meaning of their values."""
CLIPPING = "gradient_clip_algorithm"
"""Taken with the only value there is, ``norm``."""

_CHOSEN = ("TRAIN.SCHED.WARMUP_STEPS", "TRAIN.EARLY_STOPPING.PATIENCE")
"""Keys of which None is no value: the first is chosen by the steps, the second is off."""
_LEARNING_RATE = 1e-3
_MOST_WARMUP = 100


def read_model(
    path: str | Path, model_class: Callable[..., nn.Module]
) -> tuple[nn.Module, dict[str, Any]]:
    """A model that a :class:`BaseTrainer` saved, ready to forecast.

    Args:
        path: the file; no code in it is run.
        model_class: the class that it was made of.

    Returns:
        The model; and what is known of it: title, region, parameters, steps.

    Raises:
        RunError: if the file is missing, damaged or something else, or of another class.
    """
    try:
        contents = torch.load(path, map_location="cpu", weights_only=True)
        facts, _ = contents.pop("facts"), contents.pop("weights")
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
    """Trains a model on the temperatures of a region, and saves it.

    :func:`vrtspike.training.fit.fit` does the work: a run that was stopped goes on where it stopped
    if the same call, with the same ``uid``, is made again.

    Attributes:
        title: for people.
        area: the region.
        uid: names the run; another one is another run.
        model_class: made with ``model_params``; called with the anomalies of the months read,
            (B, seq_len, H, W), and the month of the year of the last, (B,). If it has a method
            ``on_grid(sea, latitudes, longitudes)``, that tells it where its cells lie.
        dataset_class: made with ``dataset_params``, ``area`` and ``split``; has the attributes
            ``store``, ``offset``, ``seq_len`` and ``lead`` of
            :class:`~vrtspike.sst.dataset.ERA5SSTMonthlyDataset`.
        save_path: file for the model with the best validation.
        pre_model: a file to start from; True is the one at ``save_path``, False none.
        dataset_params: JSON values.
        trainer_params: see :data:`PARAMETERS`.
        model_params: JSON values; ``learning_rate`` is that of the optimiser.
        folder: of the run: checkpoints, logs, weights.

    Raises:
        ConfigError: ``uid`` cannot name a folder; or one of ``trainer_params`` is unknown, of a
            wrong value, or contradicts another.
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
        path, uid = Path(self.save_path), str(self.uid)
        if uid in ("", "..") or Path(uid).name != uid:
            raise ConfigError(f"uid: found {uid!r}, expected a word that can name a folder")
        self.folder = path.with_name(f"{path.stem}_runs") / uid
        # Paths become text: all of it is kept with the model, and names the run.
        self.dataset_params, self.trainer_params, self.model_params = (
            json.loads(json.dumps(given or {}, default=os.fspath))
            for given in (self.dataset_params, self.trainer_params, self.model_params)
        )
        self.learning_rate = self.model_params.get("learning_rate", _LEARNING_RATE)
        self.settings = preset_values(self.trainer_params, self.learning_rate)

    def train(self) -> nn.Module:
        """Train, save, and return the model with the weights of the best validation.

        Raises:
            UserError: if data, settings or ``pre_model`` cannot be used.
            SystemExit: with the status of a stopped program, when someone asked to stop; what was
                reached is kept.
        """
        area, save_path = asdict(self.area), Path(self.save_path)
        dataset = self.dataset_class(**self.dataset_params, area=area, split="train")
        given, store = {**self.dataset_params, "area": area}, dataset.store
        taken = inspect.signature(self.model_class).parameters
        held = {name: getattr(dataset, name) for name in {"seq_len", "lead"} & {*taken}}
        parameters = {**held, **self.model_params}
        if parameters | held != parameters:
            raise ConfigError(f"model_params: found {parameters}, expected {held} as in the data")
        if "learning_rate" not in taken:
            parameters.pop("learning_rate", None)
        first_weights = save_path if self.pre_model is True else self.pre_model
        identity = {"data": store.digest}

        @wraps(self.model_class)
        def build(**parameters: Any) -> nn.Module:  # noqa: ANN401
            model = self.model_class(**parameters)
            place_on_grid(model, **store.placement)
            if first_weights:
                load_trained(model, first_weights)
            return model

        # Made once before anything starts, so that what does not fit is told at once.
        build(**parameters)
        if first_weights:
            identity["pre_model"] = file_digest(first_weights)
        outcome = fit(
            self.folder,
            SSTTask(store.weights, store.fields["deviation"], dataset.offset),
            model_class=build,
            model_parameters=parameters,
            dataset_class=self.dataset_class,
            dataset_parameters={**given, "split": "train"},
            validation_parameters={**given, "split": "val"},
            identity=identity,
            settings=self._settings(len(dataset)),
        )
        if outcome.status == "interrupted":
            _show(f"{self.title}: stopped after step {outcome.step}; uid={self.uid!r} goes on")
            raise SystemExit(EXIT_INTERRUPTED)
        model, best = outcome.model, self.folder / BEST_WEIGHTS
        if best.is_file():
            load_trained(model, best)
        facts = {"title": self.title, "uid": str(self.uid), "area": area, "steps": outcome.step}
        facts |= {"model_params": parameters, "dataset_params": self.dataset_params}
        grid = {name: torch.as_tensor(values) for name, values in store.placement.items()}
        contents = {"facts": facts, "weights": model.state_dict(), **grid}
        if process_number() == 0:
            with atomic_path(save_path) as temporary:
                torch.save(contents, temporary)
        _show(f"{self.title}: finished after {outcome.step} steps; model: {save_path}")
        return model.eval()

    def _settings(self, samples: int) -> dict[str, Any]:
        """Sections of a preset for :func:`fit`; what was chosen is printed."""
        asked, size = self.settings, self.settings["TRAIN.BATCH_SIZE"]
        batches, processes = math.ceil(samples / size), int(os.environ.get("WORLD_SIZE", "1"))
        per_step = asked["TRAIN.GRADIENT_ACCUMULATION_STEPS"] * processes
        steps = max(1, asked["TRAIN.EPOCHS"] * batches // per_step)
        steps = min(steps, asked["TRAIN.MAX_STEPS"] or steps)
        chosen = {"TRAIN.SCHED.WARMUP_STEPS": min(_MOST_WARMUP, steps // 20)} | asked
        if asked["TRAIN.PRECISION"] == "16-mixed" and not torch.cuda.is_available():
            chosen["TRAIN.PRECISION"] = "32"  # a CPU computes float16 slowly
        _show(f"========== {self.title}, {self.area.name} ==========")
        _show(f"samples: {samples}, steps: {steps}, learning_rate: {self.learning_rate}")
        for name, (key, _) in PARAMETERS.items():
            value, before = chosen.get(key), asked.get(key)
            _show(f"{name}: {value}" + f" instead of {before}" * (value != before))
        every = {"TRAIN.VAL_BATCH_SIZE": size, "LOG.VAL_EVERY_STEPS": max(1, batches // per_step)}
        return nested(chosen | every)


def preset_values(given: Mapping[str, Any], learning_rate: object) -> dict[str, Any]:
    """Values by the keys of a preset; other names of some parameters are understood.

    Raises:
        ConfigError: a name is unknown (the nearest known one is told), a value is none of those
            allowed, or two names of one parameter disagree.

    >>> preset_values({"ims_per_gpu": 8, "use_fp16": False}, 1e-3)["TRAIN.PRECISION"]
    '32'
    """
    values = dict(PARAMETERS.values())
    values |= {"TRAIN.OPTIM.LR": learning_rate, "DATALOADER.DROP_LAST": False}
    places: dict[KeyPath, str] = {("TRAIN", "OPTIM", "LR"): "model_params: learning_rate"}
    if given.get(CLIPPING, "norm") != "norm":
        raise ConfigError(f"trainer_params: {CLIPPING} is {given[CLIPPING]!r}, expected 'norm'")
    for name in (name for name in given if name != CLIPPING):
        place = f"trainer_params: {name}"
        own, meanings = OTHER_NAMES.get(name, (name, {}))
        if own not in PARAMETERS:
            near = nearest(name, [*PARAMETERS, *OTHER_NAMES], cutoff=0)
            raise ConfigError(f"{place}: unknown; did you mean {near}? docs/sst.md has all of them")
        key = PARAMETERS[own][0]
        path: KeyPath = tuple(key.split("."))
        # Not looked up: a value that is refused below, such as a list, may have no hash.
        value = next((new for old, new in meanings.items() if old == given[name]), given[name])
        if path in places and values[key] != value:
            raise ConfigError(
                f"{place} says {own} {value!r}, another name {values[key]!r}; give one of them"
            )
        values[key], places[path] = value, place
    values = {key: v for key, v in values.items() if v is not None or key not in _CHOSEN}
    document = Document({tuple(key.split(".")): value for key, value in values.items()}, places)
    validate(RunSettings, document, "docs/sst.md explains them.")
    return values


def _show(line: str) -> None:
    """Print on the first process of a run."""
    if process_number() == 0:
        print(line, flush=True)
