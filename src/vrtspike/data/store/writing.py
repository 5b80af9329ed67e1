"""Build stores from ingest manifests, and verify them by the digest of their contents."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.manifests import (
    INGESTED,
    STORE,
    IngestManifest,
    StoreManifest,
    recorded_exposure,
)
from vrtspike.data.raw.layouts.files import SensorArea
from vrtspike.data.raw.packed import PackedSpikes
from vrtspike.data.raw.spikes import Sensor
from vrtspike.data.raw.versions import changed_files
from vrtspike.data.store.metadata import SCHEMA, StoreMetadata
from vrtspike.data.store.reading import Store
from vrtspike.data.voxels.bins import bin_edges
from vrtspike.data.voxels.gain import GainEstimator
from vrtspike.data.voxels.normalization import Histogram, add_to_histogram
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import atomic_path, folder_size, json_digest, write_json
from vrtspike.io.images import read_rgb
from vrtspike.io.manifests import read_manifest, sealed
from vrtspike.system.errors import DataError, list_faults
from vrtspike.system.progress_bar import ProgressCallback
from vrtspike.system.rounding import round_up

_BLOCK_BYTES = 16_384
"""Blosc decodes blocks of this size. The default is a whole chunk, and the memory needed for
decoding it would leave larger holes between the chunks that a cache keeps
(``benchmarks/results/chunks.csv``)."""


StoredFrame = dict[str, NDArray[np.uint8]]
"""The arrays of one frame by name, each shaped as one entry of the store's array."""


def build_store(
    root: str | Path,
    manifest_path: str | Path,
    options: StoreOptions,
    output: str | Path,
    *,
    recipe: str = "",
) -> StoreManifest:
    """Decode the frames of a sequence, count its spikes if any, and write store and manifest.

    The store is next to the manifest, ``<sequence>.zarr``, and is complete before the manifest
    appears. The frames of one of its files are held in memory at a time.

    Args:
        root: the data set's folder.
        manifest_path: the sequence's ingest manifest, without faults.
        options: options of the store; no more bins than the shortest exposure can fill.
        output: the store's manifest to write.
        recipe: recipe of the store, see :class:`vrtspike.data.stages.VoxelizeStage`.

    Returns:
        The store's manifest.

    Raises:
        DataError: if the ingest manifest lists faults, raw files changed since, K is too large for
            an exposure, or the sequence holds not a single spike.
    """
    manifest = read_manifest(manifest_path, INGESTED)
    name = f"{manifest['split']}/{manifest['sequence']}"
    if manifest["faults"]:
        raise DataError(list_faults(f"{name} has faults", manifest["faults"], "Fix them first."))
    _refuse_changed(root, manifest)
    metadata = _metadata(manifest, options)
    histogram: Histogram = {}
    output = Path(output)
    store = output.with_suffix(".zarr")
    # A former manifest must not be found beside the new store if this process is killed.
    output.unlink(missing_ok=True)
    digest, gain = write_store(store, metadata, _frames(Path(root), manifest, metadata, histogram))
    _refuse_changed(root, manifest)  # changes while the files were read
    files, nbytes = folder_size(store)
    contents: StoreManifest = {
        "schema": STORE.schema,
        "sequence": manifest["sequence"],
        "split": manifest["split"],
        "blur_dir": manifest["blur_dir"],
        "frames": metadata.frames,
        "spike_frames": metadata.spike_frames,
        "rgb_size": metadata.rgb_size,
        "spike_size": metadata.spike_size,
        "exposures": metadata.exposures,
        "files": files,
        "bytes": nbytes,
        "recipe": recipe,
        "digest": digest,
        "gain": gain,
        "histogram": {str(steps): voxels.tolist() for steps, voxels in histogram.items()},
    }
    contents = sealed(options.add_to(contents))
    write_json(output, contents)
    return contents


def _metadata(manifest: IngestManifest, options: StoreOptions) -> StoreMetadata:
    exposures = []
    totals = []
    for frame in manifest["frames"]:
        spikes = frame["spikes"]
        if spikes is not None:
            exposure = recorded_exposure(spikes)
            stored = exposure.widened(options.context, spikes["total"])
            exposures.append(exposure.moved(-stored.start))
            totals.append(stored.steps)
    rgb_size = manifest["rgb_size"]
    assert rgb_size is not None, "a sequence without faults has frames"
    spike_size = manifest["spike_size"]
    return StoreMetadata(
        frames=tuple(frame["name"] for frame in manifest["frames"]),
        spike_frames=tuple(totals),
        rgb_size=_pair(rgb_size),
        spike_size=None if spike_size is None else _pair(spike_size),
        bins=options.bins,
        exposures=tuple(exposures),
    )


def _pair(size: Sequence[int]) -> tuple[int, int]:
    rows, columns = size
    return rows, columns


def _refuse_changed(root: str | Path, manifest: IngestManifest) -> None:
    """Reject raw files that changed since ingestion."""
    changed = changed_files(root, manifest)
    if changed:
        title = f"files of {manifest['split']}/{manifest['sequence']} changed since ingestion"
        raise DataError(list_faults(title, changed, "Run ingest again."))


def _frames(
    root: Path, manifest: IngestManifest, metadata: StoreMetadata, histogram: Histogram
) -> Iterator[StoredFrame]:
    """Read the sequence frame by frame and add its counts to ``histogram``."""
    binned = metadata.binned
    for index, frame in enumerate(manifest["frames"]):
        blur = read_rgb(root / frame["blur"])
        sharp = read_rgb(root / frame["sharp"])
        file = manifest["spike_file"]
        spikes = frame["spikes"]
        if file is None or spikes is None:
            yield {"blur": blur, "sharp": sharp}
            continue
        sensor = Sensor(_pair(file["size"]), SensorArea(**file["area"]))
        exposure = binned[index]
        start = spikes["start"] - metadata.exposures[index].start
        recorded = sensor.read(root / spikes["path"], start, exposure.steps)
        edges = bin_edges(exposure, metadata.bins)
        counts = recorded.counts(edges)
        add_to_histogram(histogram, counts, np.diff(edges))
        yield {"blur": blur, "sharp": sharp, "voxels": counts, "bits": recorded.rows}


def write_store(
    path: str | os.PathLike[str], metadata: StoreMetadata, frames: Iterable[StoredFrame]
) -> tuple[str, float | None]:
    """Write a store atomically, holding the frames of one file in memory at a time.

    Args:
        path: the store's folder; an older store there is replaced once the new one is complete.
        metadata: metadata of the store.
        frames: the frames, in order; ``bits`` may hold fewer than T steps.

    Returns:
        The digest of contents and metadata, which does not depend on chunks, codec or versions of
        libraries; and the gain (:class:`vrtspike.data.voxels.gain.GainEstimator`), None
        without spikes.

    Raises:
        OSError: if there is no space left.
        DataError: if the spikes give no gain (there are none).
        ValueError: if a frame's shapes or the number of frames do not follow ``metadata``.
    """
    digest = ContentDigest(metadata)
    meter = GainEstimator()
    numbered = zip(range(len(metadata.frames)), frames, strict=True)
    with atomic_path(path) as temporary:
        group, arrays = _create_arrays(temporary, metadata)
        while part := list(itertools.islice(numbered, metadata.frames_per_file)):
            for number, frame in part:
                digest.add(number, frame)
                if metadata.spike_size is not None:
                    exposure = metadata.exposures[number]
                    # Voxels hold the context, too.
                    bits = frame["bits"][exposure.start : exposure.stop]
                    spikes = PackedSpikes(bits, metadata.spike_size[1])
                    meter.update(frame["blur"], spikes.count_image(), exposure.steps)
            _write_frames(arrays, part)
        gain = meter.gain(str(path)) if metadata.spike_size is not None else None
        group.update_attributes({"gain": gain})
    return digest.hexdigest(gain), gain


def _write_frames(arrays: Mapping[str, Any], frames: Sequence[tuple[int, StoredFrame]]) -> None:
    """Write consecutive frames, given with their numbers, into the arrays of a store."""
    first, _ = frames[0]
    for name, array in arrays.items():
        block = np.zeros((len(frames), *array.shape[1:]), np.uint8)
        for index, (_, frame) in enumerate(frames):
            block[index, : len(frame[name])] = frame[name]
        array[first : first + len(frames)] = block


class ContentDigest:
    """SHA-256 of a store's decoded contents, frame by frame."""

    def __init__(self, metadata: StoreMetadata) -> None:
        self._digest = hashlib.sha256(json_digest(asdict(metadata)).encode())
        self._metadata = metadata

    def add(self, index: int, frame: StoredFrame) -> None:
        """Add the next frame.

        Args:
            index: number of the frame; the first one is 0.
            frame: arrays of the frame.

        Raises:
            ValueError: if its shapes do not follow the metadata.
        """
        for name, (_, *expected) in self._metadata.shapes.items():
            if name == "bits":
                expected[0] = self._metadata.spike_frames[index]
            values = frame[name]
            if values.shape != tuple(expected) or values.dtype != np.uint8:
                raise ValueError(f"{name} of frame {index + 1}: {values.shape} is not {expected}")
            self._digest.update(np.ascontiguousarray(values).data)

    def hexdigest(self, gain: float | None) -> str:
        """Return the digest of all frames, and of the gain where there are spikes."""
        if gain is not None:
            self._digest.update(gain.hex().encode())
        return self._digest.hexdigest()


def _create_arrays(path: Path, metadata: StoreMetadata) -> tuple[Any, dict[str, Any]]:
    """Return a group with empty arrays, and these by name."""
    # zarr is imported here because planning and reading with other readers do without it.
    import zarr
    from zarr.codecs import BloscCodec, Crc32cCodec

    group = zarr.create_group(
        path, zarr_format=3, attributes={"schema": SCHEMA, **asdict(metadata)}
    )
    arrays = {}
    for name, shape in metadata.shapes.items():
        chunk = metadata.chunks[name]
        # A file has as many whole chunks as cover its frames.
        file_shape = [metadata.frames_per_file]
        for size, piece in zip(shape[1:], chunk[1:], strict=True):
            file_shape.append(round_up(size, piece))
        codecs: list[Any] = [Crc32cCodec()]
        if name == "voxels":
            blosc = BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle", blocksize=_BLOCK_BYTES)
            codecs.insert(0, blosc)
        arrays[name] = group.create_array(
            name,
            shape=shape,
            chunks=chunk,
            shards=tuple(file_shape),
            dtype="uint8",
            compressors=codecs,
            fill_value=0,
            # Chunks of zeros are written, too: a missing chunk is damage.
            config={"write_empty_chunks": True},
        )
    return group, arrays


def find_damage(
    manifest_path: str | Path, progress: ProgressCallback = lambda done, total: None
) -> list[str]:
    """Read a whole store and list its damage.

    Args:
        manifest_path: the store's manifest.
        progress: called after each frame, with the frames done and their total.

    Returns:
        A line for each damaged or missing chunk, or one on whole contents that differ from the
        manifest; empty for a sound store.

    Raises:
        DataError: if the manifest or the store's metadata cannot be read.
    """
    path = Path(manifest_path)
    manifest = read_manifest(path, STORE)
    store = Store(path.with_suffix(".zarr"))
    digest = ContentDigest(store.metadata)
    metadata = store.metadata
    faults: list[str] = []
    for index in range(len(metadata.frames)):
        frame: StoredFrame = {}
        for name in metadata.shapes:
            try:
                whole = store.frame(name, index)
            except DataError:
                faults += _damaged_chunks(store, name, index)
            else:
                frame[name] = whole[: metadata.spike_frames[index]] if name == "bits" else whole
        if not faults:
            digest.add(index, frame)
        progress(index + 1, len(metadata.frames))
    if not faults and digest.hexdigest(store.gain) != manifest["digest"]:
        faults.append(
            f"{store.path}: every chunk is whole, but the contents are not those that "
            f"{path.name} was written for; delete the store and run snakemake again"
        )
    return faults


def _damaged_chunks(store: Store, name: str, index: int) -> Iterator[str]:
    """Read the chunks of one frame one by one and name those that fail."""
    metadata = store.metadata
    shape = metadata.shapes[name]
    chunk = metadata.chunks[name]
    rows, columns = (2, 3) if name in ("voxels", "bits") else (1, 2)
    file = f"{name}/c/{index // metadata.frames_per_file}" + "/0" * (len(shape) - 1)
    for top, left in itertools.product(
        range(0, shape[rows], chunk[rows]), range(0, shape[columns], chunk[columns])
    ):
        bottom = min(top + chunk[rows], shape[rows])
        right = min(left + chunk[columns], shape[columns])
        try:
            store.read(name, slice(index, index + 1), slice(top, bottom), slice(left, right))
        except DataError:
            yield (
                f"{store.path}: {name} of frame {metadata.frames[index]}, rows {top} to "
                f"{bottom - 1}, columns {left} to {right - 1} ({file})"
            )
