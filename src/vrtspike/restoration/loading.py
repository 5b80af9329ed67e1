"""Loading of trained models: results of trainings, packed runs, the bundled weights, ONNX files."""

from __future__ import annotations

from pathlib import Path

import torch

from vrtspike.data.clips.recording_limits import RecordingLimits
from vrtspike.data.clips.run_statistics import read_run_statistics
from vrtspike.deblurring_settings import require_deblurring_settings
from vrtspike.io.files import file_digest
from vrtspike.restoration.inference.onnx_file import read_onnx
from vrtspike.restoration.inference.precision import choose_device, choose_precision
from vrtspike.restoration.tiled_inference import load_model, torch_tile_model
from vrtspike.restoration.trained_model import TrainedModel
from vrtspike.runs.file_names import WEIGHTS
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.named_models import GENERAL, find_trained_model
from vrtspike.runs.published import read_finished
from vrtspike.system.errors import ConfigError


def load(
    run: str | Path = GENERAL,
    *,
    device: str | torch.device | None = None,
    precision: str = "auto",
) -> TrainedModel:
    """Load a trained model.

    Args:
        run: the result folder of a finished run, such as ``results/train/demo``, which holds
            weights, settings and the statistics of spikes; the result of ``vrtspike pack`` or
            ``vrtspike export``; ``owner/name`` of the Hugging Face hub; or ``general``, the
            bundled weights.
        device: ``cpu``, ``cuda`` or, of several GPUs, ``cuda:1``; None takes a GPU if there is
            one, and the CPU for an ONNX file.
        precision: ``float32``, ``bfloat16`` or ``float16``; ``auto`` is float32 on a CPU and the
            fastest half type on a GPU.

    Raises:
        ConfigError: if the device is not one of this machine, the precision is unknown, or either
            is not that of ONNX files, the CPU and float32.
        RunError: if the folder is not that of a finished run, a file in it is damaged, or this
            installation lacks the weights.
    """
    folder = find_trained_model(run)
    if folder.suffix == ".onnx":
        return _load_onnx(folder, device, precision)
    chosen_device = choose_device(device)
    chosen_precision = choose_precision(precision, chosen_device)
    published = read_finished(folder)
    settings = require_deblurring_settings(published.settings, published.name)
    network = load_model(folder / WEIGHTS, settings, chosen_device)
    statistics = None
    limits = None
    if settings.MODEL.USE_SPIKE:
        recorded = read_run_statistics(folder)
        statistics = recorded.voxels
        limits = recorded.limits
    return TrainedModel(
        published,
        file_digest(folder / WEIGHTS),
        chosen_device,
        chosen_precision,
        torch_tile_model(network, statistics, chosen_device, getattr(torch, chosen_precision)),
        network,
        statistics,
        limits=limits,
    )


def _load_onnx(path: Path, device: str | torch.device | None, precision: str) -> TrainedModel:
    """Load a model that ``vrtspike export`` has written; it computes on the CPU in float32.

    Args:
        path: path of the file.
        device: None, or the CPU.
        precision: ``auto`` or ``float32``.

    Raises:
        ConfigError: if another device or precision is given.
        RunError: if the file is missing, was written by another program, or was changed.
    """
    if device not in (None, "cpu", torch.device("cpu")) or precision not in ("auto", "float32"):
        raise ConfigError(
            f"{path}: is computed on the CPU in float32, found device {device} and precision "
            f"{precision}; leave them out, or take the run itself"
        )
    metadata, compute = read_onnx(path)
    limits = metadata.get("limits")
    return TrainedModel(
        RunIdentity.parse(metadata["settings"], path),
        metadata["weights"],
        torch.device("cpu"),
        "float32",
        compute,
        ratio=metadata["ratio"],
        limits=None if limits is None else RecordingLimits.parse(limits),
    )
