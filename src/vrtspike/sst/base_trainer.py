"""Train a model on monthly temperatures by one call, with the names of parameters people know."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vrtspike.cpus import available_cpus
from vrtspike.errors import ConfigError
from vrtspike.files import file_digest
from vrtspike.launching.signals import EXIT_INTERRUPTED
from vrtspike.runs.names import BEST_WEIGHTS
from vrtspike.sst.area import Area
from vrtspike.sst.parameters import (
    TrainerParameters,
    read_trainer_parameters,
    require_arguments,
    takes,
)
from vrtspike.sst.saved import place_on_grid, read_model, save_model
from vrtspike.sst.scripts import workers_without_script
from vrtspike.sst.task import SSTTask
from vrtspike.training.fit import fit
from vrtspike.training.one_process import Outcome
from vrtspike.weights import load_trained

MODEL_SAVE_PATH = "models"
"""Folder of saved models, where nobody says another."""
_LEARNING_RATE = 1e-3
_GIVEN = ("area", "split")
"""What a data set is made with besides ``dataset_params``."""
_SHARED = ("seq_len", "lead")
"""Parameters that data set and model have in common."""
_MOST_WARMUP = 100


class BaseTrainer:
    """Trains a model on the temperatures of a region, and saves it.

    It is a face of :func:`vrtspike.training.fit.fit`, which does the work: a run that was stopped
    goes on where it stopped if the same call, with the same ``uid``, is made again.

    Args:
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
        trainer_params: see :class:`~vrtspike.sst.parameters.TrainerParameters`.
        model_params: JSON values; ``learning_rate`` is that of the optimiser.

    Raises:
        ConfigError: a parameter is unknown, missing, of a wrong value, or contradicts another one.
    """

    def __init__(
        self,
        title: str,
        area: Area,
        uid: str,
        model_class: Callable[..., nn.Module],
        dataset_class: Callable[..., Any],
        save_path: str | Path,
        pre_model: bool | str | Path = False,
        dataset_params: Mapping[str, Any] | None = None,
        trainer_params: Mapping[str, Any] | None = None,
        model_params: Mapping[str, Any] | None = None,
    ) -> None:
        self.title, self.area, self.uid = title, area, str(uid)
        if not self.uid or Path(self.uid).name != self.uid:
            raise ConfigError(f"uid: found {uid!r}, expected a word that can name a folder")
        self.model_class, self.dataset_class = model_class, dataset_class
        self.save_path = Path(save_path)
        self.pre_model = self.save_path if pre_model is True else pre_model
        self.dataset_params = _plain(dataset_params or {}, "dataset_params")
        self.model_params = _plain(model_params or {}, "model_params")
        self.parameters = read_trainer_parameters(trainer_params or {})
        self.asked = frozenset(trainer_params or {}) | set(self.model_params)
        rate = self.model_params.get("learning_rate", _LEARNING_RATE)
        if not takes(model_class, "learning_rate"):
            self.model_params.pop("learning_rate", None)
        if type(rate) not in (int, float) or not rate > 0:
            raise ConfigError(f"model_params: learning_rate is {rate!r}, expected a number above 0")
        self.learning_rate = float(rate)
        require_arguments(dataset_class, self.dataset_params, "dataset_params", _GIVEN)
        require_arguments(model_class, self.model_params, "model_params")

    @property
    def folder(self) -> Path:
        """Folder of the run: checkpoints, logs, weights."""
        return self.save_path.with_name(f"{self.save_path.stem}_runs") / self.uid

    def train(self) -> nn.Module:
        """Train, save, and return the model with the weights of the best validation.

        Raises:
            UserError: if data, settings or ``pre_model`` cannot be used.
            SystemExit: with the status of a stopped program, when someone asked to stop; what was
                reached is kept.
        """
        before = read_model(self.pre_model) if self.pre_model else None
        dataset = self._dataset("train")
        self._agree_on_shared(dataset)
        # Made once before anything starts, so that what does not fit is told at once.
        grid = (dataset.store.sea, dataset.store.grid.latitudes, dataset.store.grid.longitudes)
        entering = {"data": dataset.store.digest}
        if before is not None:
            entering["pre_model"] = file_digest(before.path)

        @wraps(self.model_class)
        def build(entering: Mapping[str, str], **parameters: Any) -> nn.Module:  # noqa: ANN401
            # ``entering`` tells this run from one of other data or first weights.
            model = self.model_class(**parameters)
            place_on_grid(model, *grid)
            if before is not None:
                before.load_into(model)
            return model

        build({}, **self.model_params)
        settings = self._settings(len(dataset))
        parameters = {**self.dataset_params, "area": self.area.as_json()}
        with workers_without_script(self.dataset_class):
            outcome = fit(
                self.folder,
                SSTTask.of_store(dataset.store, dataset.offset),
                model_class=build,
                model_parameters={**self.model_params, "entering": entering},
                dataset_class=self.dataset_class,
                dataset_parameters={**parameters, "split": "train"},
                validation_parameters={**parameters, "split": "val"},
                settings=settings,
            )
        if outcome.status == "interrupted":
            self._tell(f"{self.title}: stopped after step {outcome.step}; uid={self.uid!r} goes on")
            raise SystemExit(EXIT_INTERRUPTED)
        return self._finish(outcome, grid)

    def _dataset(self, split: str) -> Any:  # noqa: ANN401 - the user's class
        return self.dataset_class(**self.dataset_params, area=self.area.as_json(), split=split)

    def _agree_on_shared(self, dataset: Any) -> None:  # noqa: ANN401 - the user's class
        """Let the model read and forecast as many months as the samples hold."""
        for name in _SHARED:
            held = getattr(dataset, name)
            if takes(self.model_class, name) and self.model_params.setdefault(name, held) != held:
                raise ConfigError(
                    f"model_params: {name} is {self.model_params[name]}, but the data set's is "
                    f"{held}; give both the same"
                )

    def _settings(self, samples: int) -> dict[str, Any]:
        """Sections of a preset for :func:`fit`, told to the user."""
        given = self.parameters
        world = int(os.environ.get("WORLD_SIZE", "1"))
        batches = math.ceil(samples / given.batch_size)
        steps = max(1, batches // (given.accumulate_grad_batches * world))
        total = given.epochs * batches // (given.accumulate_grad_batches * world)
        total = min(max(1, total), given.max_steps or total or 1)
        warmup = given.warmup_steps
        if warmup is None:
            warmup = min(_MOST_WARMUP, total // 20)
        precision, workers = self._precision(), min(given.num_workers, self._most_workers())
        self._show(samples, total, warmup, precision, workers)
        patience = given.early_stopping_patience
        return {
            "SEED": given.seed,
            "DETERMINISTIC": given.cudnn_deterministic,
            "DATALOADER": {
                "TRAIN_WORKERS": workers,
                "TRAIN_PREFETCH_FACTOR": given.prefetch_factor,
                "VAL_PREFETCH_FACTOR": given.prefetch_factor,
                "PIN_MEMORY": given.pin_memory,
                "PERSISTENT_WORKERS": given.persistent_workers,
                "DROP_LAST": False,
            },
            "TRAIN": {
                "EPOCHS": given.epochs,
                "MAX_STEPS": given.max_steps,
                "BATCH_SIZE": given.batch_size,
                "VAL_BATCH_SIZE": given.batch_size,
                "GRADIENT_ACCUMULATION_STEPS": given.accumulate_grad_batches,
                "MAX_GRAD_NORM": given.gradient_clip_val,
                "COMPILE_MODEL": given.compile_model,
                "COMPILE_MODE": given.compile_mode,
                "PRECISION": precision,
                "OPTIM": {"LR": self.learning_rate, "WEIGHT_DECAY": given.weight_decay},
                "SCHED": {"WARMUP_STEPS": warmup, "MIN_LR": min(1e-7, self.learning_rate)},
                "EMA": given.ema,
                "EARLY_STOPPING": None if patience is None else {"PATIENCE": patience},
            },
            "LOG": {"VAL_EVERY_STEPS": steps},
        }

    def _precision(self) -> str:
        """What was asked for, or what the device can do of it."""
        half = self.parameters.precision == "16-mixed"
        return "32" if half and not torch.cuda.is_available() else self.parameters.precision

    def _most_workers(self) -> int:
        cpus = available_cpus()
        return cpus // int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if cpus > 1 else 0

    def _show(self, samples: int, total: int, warmup: int, precision: str, workers: int) -> None:
        """Print what was chosen, and why where it is not what was asked for."""
        given = self.parameters
        chosen: dict[str, object] = {
            "device": "cuda" if torch.cuda.is_available() else "cpu",
            "samples": samples,
            **given.model_dump(),
            "learning_rate": self.learning_rate,
            "warmup_steps": f"{warmup} of {total} steps",
            "cudnn_benchmark": not given.cudnn_deterministic,
        }
        if given.precision != precision:
            chosen["precision"] = (
                f"{precision} instead of {given.precision}: this machine has no GPU, and a CPU "
                "computes float16 slowly"
            )
        if given.num_workers != workers:
            chosen["num_workers"] = (
                f"{workers} instead of {given.num_workers}: this process may use "
                f"{available_cpus()} CPU(s)"
            )
        self._tell(f"========== {self.title}, {self.area.name} ==========")
        for name, value in chosen.items():
            self._tell(f"{name}: {value}{'' if self._is_asked(name) else ' (default)'}")
        self._tell(f"run: {self.folder}")

    def _is_asked(self, name: str) -> bool:
        others = {"batch_size": "ims_per_gpu", "precision": "use_fp16"}
        others["accumulate_grad_batches"] = "gradient_accumulation_steps"
        known = {*TrainerParameters.model_fields, "learning_rate"}
        return name not in known or bool({name, others.get(name)} & self.asked)

    def _finish(self, outcome: Outcome, grid: tuple[Any, ...]) -> nn.Module:
        """Save and return the model with the best weights."""
        model = outcome.model
        best = self.folder / BEST_WEIGHTS
        if best.is_file():
            load_trained(model, best)
        if os.environ.get("RANK", "0") == "0":
            facts = {
                "title": self.title,
                "uid": self.uid,
                "area": self.area.as_json(),
                "model_params": self.model_params,
                "dataset_params": self.dataset_params,
                "steps": outcome.step,
            }
            names = ("sea", "latitudes", "longitudes")
            saved = {"facts": facts, **dict(zip(names, grid, strict=True))}
            save_model(self.save_path, model, saved)
            self._tell(
                f"{self.title}: finished after {outcome.step} steps; model: {self.save_path}"
            )
        return model.eval()

    def _tell(self, line: str) -> None:
        if os.environ.get("RANK", "0") == "0":
            print(line, flush=True)


def _plain(values: Mapping[str, Any], title: str) -> dict[str, Any]:
    """Parameters as JSON values, paths as text."""
    plain = {name: str(v) if isinstance(v, Path) else v for name, v in values.items()}
    try:
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{title}: {error}; expected numbers, text, lists and the like"
        ) from error
    return plain
