"""Export a trained model as an ONNX file that runs without PyTorch."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vrtspike.data.clips.batches import unit_frames
from vrtspike.data.clips.samples import BinnedSpikes
from vrtspike.data.exposure import Exposure
from vrtspike.data.voxels.bins import bin_table
from vrtspike.data.voxels.normalization import VoxelStatistics, normalize_counts
from vrtspike.io.files import atomic_path
from vrtspike.models.restorer import Restorer
from vrtspike.restoration.inference.onnx_file import EMPTY_SEAL, METADATA, SCHEMA, SEAL_ENTRY, seal
from vrtspike.restoration.inputs.clip_source import ClipWindow
from vrtspike.restoration.loading import load
from vrtspike.restoration.trained_model import TrainedModel
from vrtspike.system.errors import ConfigError, RunError

TOLERANCE = 1e-4
"""Largest difference of an exported model from PyTorch, for frames from 0 to 1."""

_TRACED_SIZE = (3, 13, 17)
"""Frames, and rows and columns of the sensor, of the clip that is traced: odd, so that padding is
traced, too."""

_COMPARED_SIZES = ((1, 13, 17), (2, 19, 24), (4, 32, 21))
"""Sizes of the clips on which the exported model is compared with PyTorch, in the same order."""


class RecordedInputs(nn.Module):
    """A network that takes recorded frames and spikes, without an axis for a batch.

    Args:
        network: network in float32 on the CPU.
        statistics: mean and deviation that its spikes are standardised with; None for a model
            without spikes.
    """

    def __init__(self, network: nn.Module, statistics: VoxelStatistics | None) -> None:
        super().__init__()
        self.network = network
        self._statistics = statistics

    def forward(
        self,
        blur: Tensor,
        counts: Tensor | None = None,
        bin_steps: Tensor | None = None,
        gain: Tensor | None = None,
    ) -> Tensor:
        """Restore a clip.

        Args:
            blur: uint8 (T, H, W, 3) RGB.
            counts: uint8 (T, K, h, w), spikes per bin; None for a model without spikes.
            bin_steps: uint8 (T, K), spike steps of each bin; None as for ``counts``.
            gain: float32, brightness of a spike rate of 1; None as for ``counts``.

        Returns:
            float32 (T, 3, H, W), nominally from 0 to 1.
        """
        voxels = None
        if (
            self._statistics is not None
            and counts is not None
            and bin_steps is not None
            and gain is not None
        ):
            mean = self._statistics.mean
            std = self._statistics.std
            voxels = normalize_counts(counts[None], bin_steps[None], gain[None], mean, std)
        restored: Tensor = self.network(unit_frames(blur[None]), voxels)
        return restored[0]


def export_model(model: TrainedModel, output: Path, ratio: int = 2) -> float:
    """Write a model as ONNX and compare it with PyTorch on clips of odd sizes.

    Args:
        model: model in float32 on the CPU.
        output: the file, ``.onnx``.
        ratio: pixels of a frame for each spike pixel along each side.

    Returns:
        the largest difference.

    Raises:
        ConfigError: if the model cannot be exported.
        RunError: if the file gives other results than PyTorch.
    """
    if model.network is None:
        raise ConfigError(f"{model.run.name}: is an ONNX file already")
    reason = model.network.not_exportable_reason if isinstance(model.network, Restorer) else None
    if reason:
        raise ConfigError(f"{model.run.name}: {reason}; restore with the run itself")
    with atomic_path(output) as temporary:
        try:
            _export(model, model.network, temporary, ratio)
        except torch.onnx.errors.OnnxExporterError as error:
            raise ConfigError(f"{model.run.name}: PyTorch cannot export it: {error}") from error
        difference = _largest_difference(model, temporary, ratio)
        # NaN, too, is rejected.
        if not difference <= TOLERANCE:
            raise RunError(
                f"{output}: differs from PyTorch by {difference:.2g}, expected at most "
                f"{TOLERANCE:g}; nothing was written. Try other versions of PyTorch and onnxscript"
            )
    return difference


def _largest_difference(model: TrainedModel, path: Path, ratio: int) -> float:
    """Return the largest difference of a file's model from PyTorch; NaN if any is NaN."""
    exported = load(path)
    differences = []
    for index, size in enumerate(_COMPARED_SIZES):
        inputs = _example(model, size, ratio, seed=index)
        batch = _batch_of(inputs)
        difference = np.abs(exported.tile_model(batch) - model.tile_model(batch))
        differences.append(difference.max())
    return float(np.max(differences))


def _batch_of(inputs: Mapping[str, NDArray[Any]]) -> ClipWindow:
    """Return the inputs of a file as a batch of one clip, which a model takes."""
    tensors = {name: torch.from_numpy(np.asarray(value))[None] for name, value in inputs.items()}
    blur = tensors.pop("blur")
    if not tensors:
        return ClipWindow(blur)
    return ClipWindow(blur, BinnedSpikes(**tensors, has_neighbors=torch.tensor([[False, False]])))


def _export(model: TrainedModel, network: nn.Module, path: Path, ratio: int) -> None:
    """Trace a network and write it with its metadata and digest."""
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass

    inputs = _example(model, _TRACED_SIZE, ratio, seed=0)
    arguments = {name: torch.from_numpy(np.asarray(value)) for name, value in inputs.items()}
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            RecordedInputs(network, model.statistics).eval(),
            (),
            kwargs=arguments,
            # Frames, rows and columns may be of any number.
            dynamic_shapes={
                name: dict.fromkeys(range(value.ndim), torch.export.Dim.AUTO)
                for name, value in arguments.items()
            },
            output_names=["restored"],
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    metadata = {
        "schema": SCHEMA,
        "settings": model.run.public_contents(),
        "weights": model.weights,
        "ratio": ratio,
        "limits": None if model.limits is None else model.limits.contents(),
    }
    # Nodes name the source files of this machine.
    ClearMetadataAndDocStringPass()(program.model)
    program.model.metadata_props[METADATA] = json.dumps(metadata)
    program.model.metadata_props[SEAL_ENTRY] = EMPTY_SEAL
    program.save(str(path), external_data=False)
    seal(path)


def _example(
    model: TrainedModel, size: tuple[int, int, int], ratio: int, seed: int
) -> dict[str, NDArray[Any]]:
    """Return a clip of noise.

    Args:
        model: decides the inputs.
        size: frames, and rows and columns of the sensor.
        ratio: pixels of a frame for each spike pixel along each side.
        seed: seed of the noise.
    """
    random = np.random.default_rng(seed)
    frames, rows, columns = size
    shape = (frames, ratio * rows, ratio * columns, 3)
    inputs: dict[str, Any] = {"blur": random.integers(0, 256, shape, np.uint8)}
    if model.settings.MODEL.USE_SPIKE:
        bins = model.settings.DATA.NUM_VOXEL_BINS
        length = max(56, bins + 1)
        steps = bin_table([Exposure(0, length, length / 2)] * frames, bins)
        limits = steps[..., None, None].astype(int) + 1
        counts = random.integers(0, limits, (frames, bins, rows, columns))
        inputs["counts"] = counts.astype(np.uint8)
        inputs["bin_steps"] = steps
        inputs["gain"] = np.asarray(1.5, np.float32)
    return inputs
