"""The model that ``vrtspike restore`` restores with, and a second one to compare with."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrtspike.launching.gpus import DeviceName, take_device
from vrtspike.restoration.folder.result_record import COMPARED
from vrtspike.runs.named_models import BUNDLED_NAMES, find_trained
from vrtspike.system.progress_bar import progress_bar

if TYPE_CHECKING:
    import torch

    from vrtspike.restoration.folder.request import Request
    from vrtspike.restoration.inputs.clip_frames import Pictures
    from vrtspike.restoration.inputs.given_clip import GivenClip
    from vrtspike.restoration.trained import TrainedModel
    from vrtspike.runs.identity import RunIdentity

_GPU_TIMEOUT_S = 30.0
"""For a GPU that may be about to be free; a person who waits can choose the CPU."""


@dataclass(frozen=True)
class ModelSource:
    """A trained model that is not loaded yet.

    Attributes:
        path: its folder or ONNX file.
        run: the run that trained it.
        exported: the model of an ONNX file.
    """

    path: Path
    run: RunIdentity
    exported: TrainedModel | None


@dataclass(frozen=True)
class SecondModel:
    """A model that restores the same clip, for comparison with the first."""

    model: ModelSource
    request: Request
    source: GivenClip


def find_model_source(name: str, arguments: argparse.Namespace) -> ModelSource:
    """Find a trained model by its name or path."""
    path = find_trained(name)
    if path.suffix == ".onnx":
        from vrtspike.restoration.trained import load_onnx

        device = None if arguments.device == "auto" else arguments.device
        exported = load_onnx(path, device, arguments.precision)
        return ModelSource(path, exported.run, exported)
    from vrtspike.runs.published import read_finished

    return ModelSource(path, read_finished(path), None)


def open_device(
    models: Sequence[ModelSource], name: DeviceName
) -> AbstractContextManager[torch.device]:
    """Take the device that PyTorch restores with; models of ONNX files choose their own.

    Args:
        models: all models of this process.
        name: ``--device``.
    """
    needs_gpu = any(model.exported is None for model in models)
    return take_device(name if needs_gpu else "cpu", timeout_s=_GPU_TIMEOUT_S)


def restore_with(
    model: ModelSource,
    request: Request,
    source: GivenClip,
    sharp: Pictures | None,
    device: torch.device,
    precision: str,
) -> dict[str, Any]:
    """Restore a clip with a model, and return the record."""
    from vrtspike.restoration.folder.writing import restore_into
    from vrtspike.restoration.trained import load

    loaded = model.exported or load(model.path, device=device, precision=precision)
    return restore_into(loaded, request, source, sharp, progress=progress_bar)


def open_compared(
    request: Request, source: GivenClip, arguments: argparse.Namespace
) -> SecondModel | Path | None:
    """Check --compare before anything is computed.

    Returns:
        a second model, or a folder of restored frames; None without.

    Raises:
        UserError: if it cannot be used.
    """
    name = arguments.compare
    if name is None:
        return None
    from vrtspike.restoration.folder.request import open_request
    from vrtspike.restoration.page.compared import is_restored_folder, read_compared

    if name not in BUNDLED_NAMES and is_restored_folder(Path(name)):
        read_compared(Path(name), source.names, source.size)
        return Path(name)
    model = find_model_source(name, arguments)
    second = _second_request(request, model.run)
    return SecondModel(model, second, open_request(model.run, second)[0])


def _second_request(request: Request, run: RunIdentity) -> Request:
    """Return the request for a second model, with spikes only if it takes them."""
    from vrtspike.settings import deblurring_settings

    second = replace(
        request,
        output=request.output / COMPARED,
        video=False,
        side_by_side=False,
        page=False,
        no_reference=(),
    )
    if deblurring_settings(run.settings).MODEL.USE_SPIKE:
        return second
    return replace(second, spikes=None, simulate_spikes=False, sensor=None, layout=None)
