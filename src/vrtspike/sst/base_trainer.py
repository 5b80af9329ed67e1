"""Train a model on monthly temperatures by one call, and keep it in one file."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vrtspike.config.yaml_documents import unflatten
from vrtspike.io.files import atomic_path
from vrtspike.io.weights import UNREADABLE, load_trained_weights
from vrtspike.launching.signals import EXIT_RESUMABLE, process_rank
from vrtspike.runs.file_names import BEST_WEIGHTS
from vrtspike.runs.folder import is_finished
from vrtspike.runs.identity import weight_digests
from vrtspike.sst.grid import Area
from vrtspike.sst.model import place_on_grid
from vrtspike.sst.objective import SSTObjective
from vrtspike.sst.store import PreparedStore
from vrtspike.sst.trainer_parameters import PARAMETERS, preset_values
from vrtspike.system.errors import ConfigError, RunError
from vrtspike.training.fit import fit

MODEL_SAVE_PATH = "models"
"""A folder for saved models, for use in ``save_path``; never a default."""

_LEARNING_RATE = 1e-3
_PRE_MODEL = "pre_model"
"""Key of the first weights' digest in the identity of a run and in the facts of its result."""


def read_model(
    path: str | Path, model_class: Callable[..., nn.Module]
) -> tuple[nn.Module, dict[str, Any]]:
    """Load a model that a :class:`BaseTrainer` saved, ready to forecast.

    Args:
        path: the file; no code in it is run.
        model_class: expected class of the model.

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
    load_trained_weights(model, path)
    return model.eval(), facts


@dataclass
class BaseTrainer:
    """Trainer of a model on the temperatures of a region.

    Training uses :func:`vrtspike.training.fit.fit`: the same call, with the same ``uid``, continues
    a run that was stopped, and returns the model of one that is finished.

    Attributes:
        title: heading of the printed lines.
        area: region whose temperatures are forecast.
        uid: name of the run; another name starts another run.
        model_class: class of the model, made with ``model_params``; called with the anomalies of
            the months read, (B, seq_len, H, W), and the month of the year of the last, (B,). If the
            model has a method ``on_grid(sea, latitudes, longitudes)``, this is called with the
            grid.
        dataset_class: class of the data set, made with ``dataset_params``, ``area`` and ``split``;
            with the attributes ``store``, ``offset``, ``seq_len`` and ``lead`` of
            :class:`~vrtspike.sst.dataset.ERA5SSTMonthlyDataset`.
        save_path: file for the model with the best validation.
        pre_model: a file to start from; True is the one at ``save_path``, False none. To train the
            result further, give another ``uid``.
        dataset_params: JSON values.
        trainer_params: parameters of the trainer, by the names that
            :mod:`vrtspike.sst.trainer_parameters` lists.
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
        parameters = self._model_parameters(dataset)
        first_weights = self._first_weights_digest()
        self._show_parameters(len(dataset))
        outcome = fit(
            self.folder,
            SSTObjective.from_dataset(dataset),
            model_class=self._model_builder(dataset.store),
            model_parameters=parameters,
            dataset_class=self.dataset_class,
            dataset_parameters={**data, "split": "train"},
            validation_parameters={**data, "split": "val"},
            identity={"data": dataset.store.digest, **first_weights},
            settings=unflatten(self.settings),
        )
        if outcome.status == "interrupted":
            _show(f"{self.title}: stopped after step {outcome.step}; uid={self.uid!r} goes on")
            raise SystemExit(EXIT_RESUMABLE)
        model = outcome.model
        best = self.folder / BEST_WEIGHTS
        if best.is_file():
            load_trained_weights(model, best)
        if process_rank() == 0:
            facts = {"model_params": parameters, "steps": outcome.step}
            if self._replaces_first_weights:
                facts |= first_weights
            self._save(model, dataset.store, facts)
        _show(f"{self.title}: finished after {outcome.step} steps; model: {Path(self.save_path)}")
        return model.eval()

    @property
    def _first_weights(self) -> Path | None:
        """The file that the training starts from; None without one."""
        if self.pre_model is True:
            return Path(self.save_path)
        return Path(self.pre_model) if self.pre_model else None

    @property
    def _replaces_first_weights(self) -> bool:
        """True if the result replaces the file that the training starts from."""
        first = self._first_weights
        return first is not None and first.resolve() == Path(self.save_path).resolve()

    def _first_weights_digest(self) -> dict[str, str]:
        """Return the digest of the weights that the run starts from, as an entry of its identity.

        The result of a run replaces the file at ``save_path``. If the run started from that file,
        the result names the digest of the weights that were there before.
        """
        path = self._first_weights
        if path is None:
            return {}
        digests = weight_digests({_PRE_MODEL: path})
        if self._replaces_first_weights and is_finished(self.folder):
            facts = _saved_facts(path)
            if facts.get("uid") == str(self.uid) and _PRE_MODEL in facts:
                return {_PRE_MODEL: facts[_PRE_MODEL]}
        return digests

    def _model_builder(self, store: PreparedStore) -> Callable[..., nn.Module]:
        """Return a function that makes the model on the grid of a store, with the first weights."""
        path = self._first_weights

        @wraps(self.model_class)
        def build(**parameters: Any) -> nn.Module:  # noqa: ANN401
            model = self.model_class(**parameters)
            place_on_grid(model, **store.placement)
            if path is not None:
                load_trained_weights(model, path)
            return model

        return build

    def _show_parameters(self, samples: int) -> None:
        _show(f"========== {self.title}, {self.area.name} ==========")
        _show(f"samples: {samples}, learning_rate: {self.learning_rate}")
        for name, (key, _) in PARAMETERS.items():
            _show(f"{name}: {self.settings.get(key)}")

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

    def _save(self, model: nn.Module, store: PreparedStore, facts: Mapping[str, Any]) -> None:
        """Write the file that :func:`read_model` reads.

        Args:
            model: model with the weights to keep.
            store: data that it was trained on.
            facts: parameters of the model, number of steps, digest of the first weights.
        """
        all_facts = {
            "title": self.title,
            "uid": str(self.uid),
            "area": asdict(self.area),
            "dataset_params": self.dataset_params,
            **facts,
        }
        grid = {name: torch.as_tensor(values) for name, values in store.placement.items()}
        contents = {"facts": all_facts, "weights": model.state_dict(), **grid}
        with atomic_path(Path(self.save_path)) as temporary:
            torch.save(contents, temporary)


def _saved_facts(path: Path) -> Mapping[str, Any]:
    """Return the facts of a saved model; none of another file."""
    try:
        contents = torch.load(path, map_location="cpu", weights_only=True)
    except UNREADABLE:
        return {}
    return contents.get("facts", {}) if isinstance(contents, Mapping) else {}


def _json_values(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return parameters as JSON values, paths as text: they are saved and identify the run."""
    return json.loads(json.dumps(values or {}, default=os.fspath))


def _show(line: str) -> None:
    """Print on the first process of a run."""
    if process_rank() == 0:
        print(line, flush=True)
