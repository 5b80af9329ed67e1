"""Packed runs on the Hugging Face hub."""

from __future__ import annotations

import re
from pathlib import Path

from vrtspike.runs.file_names import CARD, EVALUATION, RUN_RECORD, SETTINGS, STATISTICS, WEIGHTS
from vrtspike.system.errors import RunError, install_advice

_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def find_model(model: str | Path) -> Path:
    """Find a model: a run, a packed folder or an ONNX file; a hub's model is downloaded.

    Args:
        model: a path, or ``owner/name`` on the Hugging Face hub if there is no such path.
            Downloads stay in the hub's cache; ``HF_ENDPOINT`` sets another hub.

    Raises:
        RunError: if there is no such model, or the hub cannot be reached.
    """
    path = Path(model)
    if path.exists() or path.suffix == ".onnx" or not may_be_on_hub(str(model)):
        return path
    patterns = [WEIGHTS, SETTINGS, STATISTICS, RUN_RECORD, EVALUATION, CARD]
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(str(model), allow_patterns=patterns))
    except Exception as error:  # of many classes
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RunError(
            f"{model}: no such folder, expected that of a finished run (results/train/<preset>) or "
            "a packed one; the Hugging Face hub has no such model, was not reached, or its package "
            f"is missing ({install_advice('hub')}): {first}"
        ) from error


def may_be_on_hub(name: str) -> bool:
    """Return whether a text has the form of a model's name on the hub, ``owner/name``."""
    return _NAME.fullmatch(name) is not None


def downloaded_model(name: str) -> Path | None:
    """Return the folder of a hub's model in the hub's cache; None if it is missing."""
    if not may_be_on_hub(name):
        return None
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, local_files_only=True))
    except Exception:  # errors of many classes: missing model, or missing package
        return None
