"""Trained models as users name them: the bundled weights, runs, packs, models of the hub."""

from __future__ import annotations

from pathlib import Path

from vrtspike.runs.file_names import WEIGHTS, weights_file
from vrtspike.runs.hub import downloaded_model, find_model, may_be_on_hub
from vrtspike.system.errors import RunError

GENERAL = "general"
BUNDLED_NAMES = (GENERAL,)
"""Names of the bundled weights; a folder of such a name is written ``./general``."""
_BUNDLED = Path(__file__).parents[1] / "weights"
_OTHERS = (
    "a result folder (results/train/<preset>), a packed run, or owner/name of the Hugging Face hub"
)


def bundled_folder(name: str) -> Path:
    """Return the folder of bundled weights of this name; it may be missing."""
    return _BUNDLED / name


def bundled_model(name: str) -> Path:
    """Return the folder of bundled weights, packed as ``vrtspike pack`` does.

    Raises:
        RunError: if this installation lacks them.
    """
    folder = bundled_folder(name)
    if not (folder / WEIGHTS).is_file():
        raise RunError(f"the weights {name!r} are not in this installation; name {_OTHERS}")
    return folder


def find_trained(model: str | Path) -> Path:
    """Return the folder of a trained model, or its ONNX file; a model of the hub is downloaded.

    Args:
        model: a name of the bundled weights, or as for
            :func:`~vrtspike.runs.hub.find_model`.

    Raises:
        RunError: if there is no such model, or the hub cannot be reached.
    """
    if model in BUNDLED_NAMES:
        return bundled_model(str(model))
    return find_model(model)


def pretrained_file(model: str) -> Path:
    """Return the file of weights that MODEL.PRETRAINED names; it may be missing.

    Nothing is downloaded, because every plan calls this.

    Args:
        model: a name of the bundled weights, a result folder, a packed run, the file
            ``weights.safetensors`` in one, or a model of the hub that is in its cache.
    """
    place = Path(model)
    if model in BUNDLED_NAMES:
        place = bundled_folder(model)
    elif not place.exists():
        place = downloaded_model(model) or place
    return weights_file(place)


def missing_pretrained_advice(model: str) -> str:
    """Return the advice if :func:`pretrained_file` is missing."""
    if model in BUNDLED_NAMES:
        return f"the weights {model!r} are not in this installation; name {_OTHERS}"
    if may_be_on_hub(model) and not Path(model).exists():
        return f"a model of the Hugging Face hub is fetched first: hf download {model}"
    return f"name {_OTHERS}"
