"""Trained models as users name them: the bundled weights, runs, packs, models of the hub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from vrtspike.runs.file_names import (
    CARD,
    EVALUATION,
    RUN_RECORD,
    SETTINGS_FILE,
    STATISTICS,
    WEIGHTS,
    weights_file,
)
from vrtspike.system.errors import RunError, install_advice

GENERAL = "general"
BUNDLED_NAMES = (GENERAL,)
"""Names of the bundled weights; a folder of such a name is written ``./general``."""
_BUNDLED = Path(__file__).parents[1] / "weights"
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_PACKED = [WEIGHTS, SETTINGS_FILE, STATISTICS, RUN_RECORD, EVALUATION, CARD]
"""Files of a packed run."""
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


def find_trained_model(model: str | Path) -> Path:
    """Return the folder of a trained model, or its ONNX file; a model of the hub is downloaded.

    Args:
        model: a name of the bundled weights, a path, or ``owner/name`` on the Hugging Face hub if
            there is no such path. Downloads stay in the hub's cache; ``HF_ENDPOINT`` sets another
            hub.

    Raises:
        RunError: if there is no such model, or the hub cannot be reached.
    """
    if model in BUNDLED_NAMES:
        return bundled_model(str(model))
    path = Path(model)
    if path.exists() or path.suffix == ".onnx" or not _may_be_on_hub(str(model)):
        return path
    try:
        return _hub_model(str(model), allow_patterns=_PACKED)
    except RunError as error:
        raise RunError(
            f"{model}: no such folder, expected that of a finished run (results/train/<preset>) or "
            "a packed one; the Hugging Face hub has no such model, was not reached, or its package "
            f"is missing ({install_advice('hub')}): {error}"
        ) from error


def _may_be_on_hub(name: str) -> bool:
    """Return whether a text has the form of a model's name on the hub, ``owner/name``."""
    return _HUB_NAME.fullmatch(name) is not None


def _downloaded_model(name: str) -> Path | None:
    """Return the folder of a hub's model in the hub's cache; None if it is missing."""
    if not _may_be_on_hub(name):
        return None
    try:
        return _hub_model(name, local_files_only=True)
    except RunError:
        return None


def _hub_model(name: str, **options: Any) -> Path:  # noqa: ANN401 - options of the package
    """Return the folder of a hub's model.

    Args:
        name: name of the model.
        options: options of ``huggingface_hub.snapshot_download``.

    Raises:
        RunError: with one line, if the package is missing, the hub cannot be reached, or it has no
            such model.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise RunError(str(error)) from error
    try:
        return Path(snapshot_download(name, **options))
    except Exception as error:  # of many classes, and of the packages that the hub's package uses
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RunError(first) from error


def pretrained_file(model: str) -> Path:
    """Return the file of weights that MODEL.PRETRAINED names; it may be missing.

    Nothing is downloaded, because every plan calls this.

    Args:
        model: a name of the bundled weights, a result folder, a packed run, the file
            ``weights.safetensors`` in one, or a model of the hub that is in its cache.
    """
    path = Path(model)
    if model in BUNDLED_NAMES:
        path = bundled_folder(model)
    elif not path.exists():
        path = _downloaded_model(model) or path
    return weights_file(path)


def missing_pretrained_advice(model: str) -> str:
    """Return the advice if :func:`pretrained_file` is missing."""
    if model in BUNDLED_NAMES:
        return f"the weights {model!r} are not in this installation; name {_OTHERS}"
    if _may_be_on_hub(model) and not Path(model).exists():
        return f"a model of the Hugging Face hub is fetched first: hf download {model}"
    return f"name {_OTHERS}"
