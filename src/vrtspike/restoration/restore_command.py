"""The path of ``vrtspike restore``: check the inputs, load the model, restore, write the page.

Large packages are imported within functions: faults of the arguments are reported before.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vrtspike.launching.gpus import GPU_TIMEOUT_S, DeviceName, acquire_device
from vrtspike.restoration.folder.record import COMPARED
from vrtspike.restoration.folder.request import RestoreRequest
from vrtspike.runs.named_models import BUNDLED_NAMES, find_trained_model
from vrtspike.system.progress_bar import progress_bar

if TYPE_CHECKING:
    import torch

    from vrtspike.restoration.folder.restored_folder import RestoredFolder
    from vrtspike.restoration.trained_model import TrainedModel
    from vrtspike.runs.identity import RunIdentity


@dataclass(frozen=True)
class ModelSource:
    """A trained model whose weights are not loaded yet.

    Attributes:
        path: its folder or ONNX file.
        run: the run that trained it.
        exported: the model of an ONNX file, which is loaded at once, as the file alone names the
            run.
    """

    path: Path
    run: RunIdentity
    exported: TrainedModel | None = None

    def load(self, device: torch.device, precision: str) -> TrainedModel:
        """Load the model, if it is not loaded yet."""
        from vrtspike.restoration.loading import load

        return self.exported or load(self.path, device=device, precision=precision)


def run_restore_command(
    model_name: str,
    request: RestoreRequest,
    *,
    compare: str | None,
    device_name: DeviceName,
    precision: str,
) -> RestoredFolder:
    """Restore a clip into a folder, and write its page.

    Args:
        model_name: the model, as for :func:`vrtspike.load`.
        request: inputs and options.
        compare: a second model, which restores into ``compared`` in the output folder, or a folder
            of restored frames: shown beside the first on the page.
        device_name: the device that computes.
        precision: type of matrix products, as for :func:`vrtspike.load`.

    Raises:
        UserError: if an argument or an input cannot be used, or the memory is too small.
    """
    model = find_model(model_name, device_name, precision)
    from vrtspike.restoration.folder.opened_request import open_request
    from vrtspike.restoration.page.compared_frames import is_restored_folder, read_compared

    opened = open_request(model.run, request)
    steps = [(model, opened)]
    other_folder = None
    if compare is not None and compare not in BUNDLED_NAMES and is_restored_folder(Path(compare)):
        other_folder = Path(compare)
        # Frames that are missing there are named before anything is computed.
        read_compared(other_folder, opened.source.names, opened.source.size)
    elif compare is not None:
        second = find_model(compare, device_name, precision)
        other_folder = request.output / COMPARED
        second_request = _second_request(request, other_folder, second.run)
        steps.append((second, open_request(second.run, second_request)))
    with open_device([source for source, _ in steps], device_name) as device:
        results = [
            source.load(device, precision).restore_opened(inputs, open_progress=progress_bar)
            for source, inputs in steps
        ]
    from vrtspike.restoration.page.writing import add_page

    return add_page(opened, results[0], other_folder, open_progress=progress_bar)


def find_model(name: str, device_name: DeviceName, precision: str) -> ModelSource:
    """Find a trained model by its name or path; neither PyTorch nor weights of a run are loaded.

    Args:
        name: the model, as for :func:`vrtspike.load`.
        device_name: the device that an ONNX file would compute on.
        precision: type of its matrix products.

    Raises:
        UserError: if there is no such model, or an ONNX file does not compute in this way.
    """
    path = find_trained_model(name)
    if path.suffix == ".onnx":
        from vrtspike.restoration.loading import load

        device = None if device_name == "auto" else device_name
        exported = load(path, device=device, precision=precision)
        return ModelSource(path, exported.run, exported)
    from vrtspike.runs.published import read_finished

    return ModelSource(path, read_finished(path))


def open_device(
    models: Sequence[ModelSource], name: DeviceName
) -> AbstractContextManager[torch.device]:
    """Take the device that PyTorch restores with; models of ONNX files choose their own.

    Args:
        models: all models of this process.
        name: ``--device``.
    """
    needs_gpu = any(model.exported is None for model in models)
    return acquire_device(name if needs_gpu else "cpu", timeout_s=GPU_TIMEOUT_S)


def _second_request(request: RestoreRequest, output: Path, run: RunIdentity) -> RestoreRequest:
    """Return the request for a second model, with spikes only if it takes them."""
    from vrtspike.deblurring_settings import require_deblurring_settings

    second = replace(
        request,
        output=output,
        video=False,
        side_by_side=False,
        page=False,
        no_reference=(),
    )
    if require_deblurring_settings(run.settings, run.name).MODEL.USE_SPIKE:
        return second
    return replace(second, spikes=None, simulate_spikes=False, sensor=None, layout=None)
