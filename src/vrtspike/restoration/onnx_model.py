"""A model in an ONNX file: written from a trained one, and ready to restore without PyTorch.

The file takes frames and spike counts as they are recorded: conversion, gain and standardisation
are part of it, and so are the settings that it was trained with (:data:`METADATA`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vrtspike.data.bins import bin_table
from vrtspike.data.clips.batches import prepare_batch
from vrtspike.data.clips.limits import Limits
from vrtspike.data.exposure import Exposure
from vrtspike.data.store.voxels import Statistics
from vrtspike.io.files import atomic_path
from vrtspike.models.restorer import Restorer
from vrtspike.restoration.restore import Batch
from vrtspike.restoration.trained import TrainedModel
from vrtspike.runs.identity import RunIdentity
from vrtspike.system.cpus import available_cpus
from vrtspike.system.errors import ConfigError, RunError

METADATA = "vrtspike"
"""Entry of an ONNX file's metadata: JSON with the settings of the run, and what restoring asks."""

SCHEMA = 2
_UNSEALED = 1
"""Schema of files without :data:`SEAL`."""

SEAL = "vrtspike_digest"
"""Entry of the metadata with the SHA-256 of the file, computed with zeros in its place."""

_PREFIX = b"vrtspike-sha256:"
_ZEROS = b"0" * 64
_SEALED = re.compile(_PREFIX + rb"([0-9a-f]{64})")


def load_onnx(
    path: Path, device: str | torch.device | None = None, precision: str = "auto"
) -> TrainedModel:
    """Load a model that ``vrtspike export`` has written; it computes on the CPU in float32.

    Args:
        path: of the file.
        device: None, or the CPU.
        precision: ``auto`` or ``float32``.

    Raises:
        ConfigError: if it shall compute elsewhere, or otherwise.
        RunError: if there is no such file, it is of another program, or was changed after it was
            written.
    """
    if device not in (None, "cpu", torch.device("cpu")) or precision not in ("auto", "float32"):
        raise ConfigError(
            f"{path}: is computed on the CPU in float32, found device {device} and precision "
            f"{precision}; leave them out, or take the run itself"
        )
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = available_cpus()
    is_sealed = _check_seal(path)
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        known = json.loads(session.get_modelmeta().custom_metadata_map[METADATA])
        if known["schema"] not in (SCHEMA, _UNSEALED):
            raise ValueError(f"found schema {known['schema']}, expected {SCHEMA}")
        if known["schema"] == SCHEMA and not is_sealed:
            raise ValueError(f"{SEAL} is missing in its metadata: the file was changed")
        limits = known.get("limits")
    except Exception as error:  # the classes of ONNX Runtime are not public
        raise RunError(
            f"{path}: cannot be read as an ONNX file of vrtspike ({error!r}); vrtspike export RUN "
            f"-o {path} writes one"
        ) from error

    def compute(batch: Batch) -> NDArray[np.float32]:
        """One tile after the other, for the file knows no batches; it takes 8-bit frames."""
        batch = {**batch, "blur": np.rint(batch["blur"]).astype(np.uint8)}
        tiles = range(len(batch["blur"]))
        parts = [{name: np.asarray(values[n]) for name, values in batch.items()} for n in tiles]
        return np.stack([session.run(None, part)[0] for part in parts])

    return TrainedModel(
        RunIdentity.parse(known["settings"], path),
        known["weights"],
        torch.device("cpu"),
        "float32",
        compute,
        ratio=known["ratio"],
        limits=None if limits is None else Limits.parse(limits),
    )


def _check_seal(path: Path) -> bool:
    """Verify the digest in a file; returns whether there is one.

    Raises:
        RunError: if it is another digest than that of the contents.
    """
    if not path.is_file():
        return False
    contents = path.read_bytes()
    digests = _SEALED.findall(contents)
    if not digests:
        return False
    digest = _digest_with_zeros(contents)
    if digests != [digest]:
        raise RunError(
            f"{path}: was changed after it was written: found the SHA-256 {digest.decode()[:12]}, "
            f"expected {digests[0].decode()[:12]}. Copy it again from its origin, or write it "
            f"again: vrtspike export RUN -o {path}"
        )
    return True


def _seal(path: Path) -> None:
    """Replace the zeros in a file's digest entry by the digest."""
    contents = path.read_bytes()
    sealed = _PREFIX + _digest_with_zeros(contents)
    path.write_bytes(contents.replace(_PREFIX + _ZEROS, sealed))


def _digest_with_zeros(contents: bytes) -> bytes:
    empty = _SEALED.sub(_PREFIX + _ZEROS, contents)
    return hashlib.sha256(empty).hexdigest().encode()


TOLERANCE = 1e-4
"""By how much an exported model may differ, frames being from 0 to 1."""

_TRACED = (3, 13, 17)
"""Frames, and rows and columns of the sensor, of the clip that is traced: odd, so that padding is
traced, too."""

_TRIED = ((1, 13, 17), (2, 19, 24), (4, 32, 21))
"""The same of what both are compared on."""


class RecordedInputs(nn.Module):
    """A network that takes what cameras give, without an axis for a batch.

    Args:
        network: in float32 on the CPU.
        statistics: what its spikes are standardised with; None for a model without.
    """

    def __init__(self, network: nn.Module, statistics: Statistics | None) -> None:
        super().__init__()
        self.network, self._statistics = network, statistics

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
            counts: uint8 (T, K, h, w), spikes per bin; None, as the next, for a model without.
            bin_steps: uint8 (T, K), spike steps of each bin.
            gain: float32, brightness of a spike rate of 1.

        Returns:
            float32 (T, 3, H, W), nominally from 0 to 1.
        """
        batch = {"blur": blur[None]}
        if counts is not None and bin_steps is not None and gain is not None:
            batch |= {"counts": counts[None], "bin_steps": bin_steps[None], "gain": gain[None]}
        clip = prepare_batch(batch, self._statistics, "cpu")
        restored: Tensor = self.network(clip.blur, clip.voxels)
        return restored[0]


def export_model(model: TrainedModel, output: Path, ratio: int = 2) -> float:
    """Write a model as ONNX and compare it with PyTorch on clips of odd sizes.

    Args:
        model: in float32 on the CPU.
        output: the file, ``.onnx``.
        ratio: pixels of a frame for each spike pixel along each side.

    Returns:
        the largest difference that was found.

    Raises:
        ConfigError: if the model cannot be exported.
        RunError: if the file computes something else.
    """
    if model.network is None:
        raise ConfigError(f"{model.run.name}: is an ONNX file already")
    if isinstance(model.network, Restorer) and (reason := model.network.not_exported):
        raise ConfigError(f"{model.run.name}: {reason}; restore with the run itself")
    with atomic_path(output) as temporary:
        try:
            _export(model, model.network, temporary, ratio)
        except torch.onnx.errors.OnnxExporterError as error:
            raise ConfigError(f"{model.run.name}: PyTorch cannot export it: {error}") from error
        exported, differences = load_onnx(temporary), []
        for number, size in enumerate(_TRIED):
            inputs = _example(model, size, ratio, seed=number)
            batch = {name: value[None] for name, value in inputs.items()}
            difference = np.abs(exported.compute(batch) - model.compute(batch))
            differences.append(difference.max())
        worst = float(np.max(differences))  # NaN where one is
        if not worst <= TOLERANCE:
            raise RunError(
                f"{output}: differs from PyTorch by {worst:.2g}, expected at most {TOLERANCE:g}; "
                "nothing was written. Try other versions of PyTorch and onnxscript"
            )
    return worst


def _export(model: TrainedModel, network: nn.Module, path: Path, ratio: int) -> None:
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass

    inputs = _example(model, _TRACED, ratio, seed=0)
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
    program.model.metadata_props[SEAL] = (_PREFIX + _ZEROS).decode()
    program.save(str(path), external_data=False)
    _seal(path)


def _example(
    model: TrainedModel, size: tuple[int, int, int], ratio: int, seed: int
) -> dict[str, NDArray[Any]]:
    """A clip of noise of some frames, rows and columns of the sensor."""
    random = np.random.default_rng(seed)
    frames, rows, columns = size
    shape = (frames, ratio * rows, ratio * columns, 3)
    inputs: dict[str, Any] = {"blur": random.integers(0, 256, shape, np.uint8)}
    if model.settings.MODEL.USE_SPIKE:
        bins = model.settings.DATA.NUM_VOXEL_BINS
        length = max(56, bins + 1)
        steps = bin_table([Exposure(0, length, length / 2)] * frames, bins)
        high = steps[..., None, None].astype(int) + 1
        inputs["counts"] = random.integers(0, high, (frames, bins, rows, columns)).astype(np.uint8)
        inputs["bin_steps"] = steps
        inputs["gain"] = np.asarray(1.5, np.float32)
    return inputs
