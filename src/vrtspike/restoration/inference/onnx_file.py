"""ONNX files of models: their metadata, their digest and their computation without PyTorch.

A file takes frames and spike counts as they are recorded: conversion, gain and standardisation are
part of it. The metadata of the file (:data:`METADATA`) hold the settings of the training.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.clips.samples import BinnedSpikes
from vrtspike.restoration.inference.tiling import TileModel
from vrtspike.restoration.inputs.clip_source import ClipWindow
from vrtspike.system.cpus import available_cpus
from vrtspike.system.errors import RunError

METADATA = "vrtspike"
"""Metadata entry of an ONNX file: JSON with the settings of the run and facts for restoring."""

SCHEMA = 2
_UNSEALED_SCHEMA = 1
"""Schema of files without :data:`SEAL_ENTRY`."""

SEAL_ENTRY = "vrtspike_digest"
"""Metadata entry with the SHA-256 of the file, computed with zeros in its place."""

_PREFIX = b"vrtspike-sha256:"
_ZEROS = b"0" * 64
EMPTY_SEAL = (_PREFIX + _ZEROS).decode()
"""Value of the entry :data:`SEAL_ENTRY` before :func:`seal`."""
_SEALED = re.compile(_PREFIX + rb"([0-9a-f]{64})")


def read_onnx(path: Path) -> tuple[dict[str, Any], TileModel]:
    """Read a model that ``vrtspike export`` has written.

    Returns:
        its metadata: ``settings`` of the run, SHA-256 of the run's file of ``weights``, ``ratio``
        (pixels of a frame for each spike pixel along each side) and ``limits`` of the recordings
        that it was trained on, null if these were not stored; and the function that restores a
        batch of tiles on the CPU, in float32.

    Raises:
        RunError: if the file is missing, was written by another program, or was changed.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = available_cpus()
    is_sealed = _require_intact(path)
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the classes of ONNX Runtime are not public
        raise _unreadable(path, error) from error
    try:
        metadata: dict[str, Any] = json.loads(session.get_modelmeta().custom_metadata_map[METADATA])
        if metadata["schema"] not in (SCHEMA, _UNSEALED_SCHEMA):
            raise ValueError(f"found schema {metadata['schema']}, expected {SCHEMA}")
        if metadata["schema"] == SCHEMA and not is_sealed:
            raise ValueError(f"{SEAL_ENTRY} is missing in its metadata: the file was changed")
    except (LookupError, TypeError, ValueError) as error:
        raise _unreadable(path, error) from error

    def restore_batch(batch: ClipWindow) -> NDArray[np.float32]:
        """Restore one tile after the other: the file has no axis for a batch and takes uint8."""
        restored = []
        for index, frames in enumerate(np.rint(batch.blur.numpy()).astype(np.uint8)):
            inputs = {"blur": frames}
            first = 0
            if batch.spikes is not None:
                spikes = BinnedSpikes(*(values[index] for values in batch.spikes))
                inputs, first = _with_frames_of_neighbors(frames, spikes)
            restored.append(session.run(None, inputs)[0][first : first + len(frames)])
        return np.stack(restored)

    return metadata, restore_batch


def _with_frames_of_neighbors(
    frames: NDArray[np.uint8], spikes: BinnedSpikes
) -> tuple[dict[str, NDArray[Any]], int]:
    """Return the inputs of a file, which takes the spikes of as many frames as there are.

    Spikes of the frames before and after the window come with its first and last frame again.

    Args:
        frames: uint8 (T, H, W, 3).
        spikes: spikes of these frames, or of T + 2.

    Returns:
        the inputs, and the position of the first frame among them.
    """
    counts = spikes.counts.numpy()
    bin_steps = spikes.bin_steps.numpy()
    before = 0
    if len(counts) != len(frames):
        before, after = map(int, spikes.has_neighbors)
        present = slice(1 - before, len(counts) - 1 + after)
        counts = counts[present]
        bin_steps = bin_steps[present]
        frames = np.pad(frames, ((before, after), (0, 0), (0, 0), (0, 0)), mode="edge")
    gain = spikes.gain.numpy()
    return {"blur": frames, "counts": counts, "bin_steps": bin_steps, "gain": gain}, before


def _unreadable(path: Path, error: Exception) -> RunError:
    """Return the error of a file that is not one of ``vrtspike export``."""
    return RunError(
        f"{path}: cannot be read as an ONNX file of vrtspike ({error!r}); vrtspike export RUN "
        f"-o {path} writes one"
    )


def _require_intact(path: Path) -> bool:
    """Verify the digest in a file, and return True if it has one.

    Raises:
        RunError: if the digest is not that of the contents.
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


def seal(path: Path) -> None:
    """Replace the zeros in a file's digest entry by the digest."""
    contents = path.read_bytes()
    sealed = _PREFIX + _digest_with_zeros(contents)
    path.write_bytes(contents.replace(_PREFIX + _ZEROS, sealed))


def _digest_with_zeros(contents: bytes) -> bytes:
    """Return SHA-256 in hexadecimal digits of a file whose digest entry is zero."""
    empty = _SEALED.sub(_PREFIX + _ZEROS, contents)
    return hashlib.sha256(empty).hexdigest().encode()
