"""A trained model in one file: its weights, what it was made with, and the region they are for."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.errors import RunError, list_faults
from vrtspike.files import atomic_path

SCHEMA = 1
"""Version of the file's format."""
_LISTED = 4


@dataclass(frozen=True)
class SavedModel:
    """What a file holds.

    Attributes:
        path: the file.
        facts: JSON values: title, region, parameters, figures.
        weights: by name.
        sea: (H, W) cells that are sea.
        latitudes: (H,) degrees.
        longitudes: (W,) degrees.
    """

    path: Path
    facts: dict[str, Any]
    weights: dict[str, torch.Tensor]
    sea: NDArray[np.bool_]
    latitudes: NDArray[np.float64]
    longitudes: NDArray[np.float64]

    def build(self, model_class: Callable[..., nn.Module]) -> nn.Module:
        """The model, ready to forecast.

        Args:
            model_class: the class that it was made of.

        Raises:
            RunError: if the weights are those of another class.
        """
        model = model_class(**self.facts["model_params"])
        place_on_grid(model, self.sea, self.latitudes, self.longitudes)
        self.load_into(model)
        return model.eval()

    def load_into(self, model: nn.Module) -> None:
        """Give a model these weights, every one or none.

        Raises:
            RunError: if they are of another model, with what does not fit.
        """
        own = model.state_dict()
        faults = [f"{name}: missing" for name in own if name not in self.weights]
        for name, values in self.weights.items():
            if name not in own:
                faults.append(f"{name}: not in this model")
            elif own[name].shape != values.shape:
                faults.append(f"{name}: {tuple(values.shape)}, not {tuple(own[name].shape)}")
        if faults:
            advice = "Give model_params as when it was trained, or start without it."
            raise RunError(
                list_faults(f"{self.path}: weights of another model", faults, advice, limit=_LISTED)
            )
        model.load_state_dict(self.weights)


def place_on_grid(model: nn.Module, *grid: Any) -> None:  # noqa: ANN401 - arrays
    """Tell a model that asks (by a method ``on_grid``) where its cells lie."""
    on_grid = getattr(model, "on_grid", None)
    if on_grid is not None:
        on_grid(*grid)


def save_model(path: str | Path, model: nn.Module, saved: Mapping[str, Any]) -> None:
    """Write a model to a file, atomically.

    Args:
        path: the file.
        model: whose weights.
        saved: ``facts``, ``sea``, ``latitudes`` and ``longitudes`` of a :class:`SavedModel`.
    """
    weights = {name: values.detach().cpu() for name, values in model.state_dict().items()}
    grid = {name: torch.as_tensor(saved[name]) for name in ("sea", "latitudes", "longitudes")}
    contents = {"schema": SCHEMA, "facts": saved["facts"], "weights": weights, **grid}
    with atomic_path(path) as temporary:
        torch.save(contents, temporary)


def read_model(path: str | Path) -> SavedModel:
    """Read a file that :func:`save_model` wrote; no code in it is run.

    Raises:
        RunError: if it is missing, damaged or something else.
    """
    path = Path(path)
    try:
        contents = torch.load(path, map_location="cpu", weights_only=True)
        if contents["schema"] != SCHEMA:
            raise ValueError(f"schema {contents['schema']}, expected {SCHEMA}")
        grid = {name: contents[name].numpy() for name in ("sea", "latitudes", "longitudes")}
        return SavedModel(path, contents["facts"], contents["weights"], **grid)
    except FileNotFoundError:
        raise RunError(f"{path}: no such file; expected a model that a trainer saved") from None
    except (OSError, ValueError, LookupError, TypeError, RuntimeError, pickle.PickleError) as error:
        raise RunError(
            f"{path}: no model that a trainer saved, or damaged ({error}); train it again"
        ) from error
