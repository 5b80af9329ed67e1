"""Build the store of one sequence from its ingest manifest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from vrtspike.deblurring.data.bins import bin_edges
from vrtspike.deblurring.data.exposure import Exposure
from vrtspike.deblurring.data.manifests import INGESTED, STORE, recorded_exposure
from vrtspike.deblurring.data.raw.layouts.files import Area
from vrtspike.deblurring.data.raw.spikes import count_packed, read_packed
from vrtspike.deblurring.data.raw.versions import changed_files
from vrtspike.deblurring.data.store.layout import StoreLayout
from vrtspike.deblurring.data.store.voxels import Histogram, add_to_histogram
from vrtspike.deblurring.data.store.writing import StoredFrame, write_store
from vrtspike.errors import DataError, list_faults
from vrtspike.io.files import folder_size, write_json
from vrtspike.io.images import read_rgb
from vrtspike.io.manifests import read_manifest


def build_store(
    root: str | Path,
    manifest_path: str | Path,
    bins: int,
    output: str | Path,
    *,
    context: int = 0,
    recipe: str = "",
) -> dict[str, Any]:
    """Decode the frames of a sequence, count its spikes if any, and write store and manifest.

    The store stands beside the manifest, ``<sequence>.zarr``, and is complete before the manifest
    appears. One frame is held in memory at a time.

    Args:
        root: the data set's folder.
        manifest_path: the sequence's ingest manifest, without faults.
        bins: K, at most what the shortest exposure can fill.
        output: the store's manifest to write.
        context: most steps of the closed shutter that bins take in, on each side.
        recipe: what the store is made with, see :func:`vrtspike.deblurring.data.shard_jobs.recipe`.

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
    changed = changed_files(root, manifest)
    if changed:
        raise DataError(
            list_faults(f"files of {name} changed since ingestion", changed, "Run ingest again.")
        )
    exposures, totals = list[Exposure](), list[int]()
    for spikes in (frame["spikes"] for frame in manifest["frames"] if manifest["spikes"]):
        exposure = recorded_exposure(spikes)
        read = exposure.widened(context, spikes["total"])
        exposures.append(exposure.moved(-read.start))
        totals.append(read.steps)
    output = Path(output)
    layout = StoreLayout(
        frames=tuple(frame["name"] for frame in manifest["frames"]),
        spike_frames=tuple(totals),
        rgb_size=(manifest["rgb_size"][0], manifest["rgb_size"][1]),
        spike_size=tuple(manifest["spike_size"]) if manifest["spikes"] else None,
        bins=bins,
        exposures=tuple(exposures),
    )
    store = output.with_suffix(".zarr")
    histogram: Histogram = {}
    digest, gain = write_store(store, layout, _frames(Path(root), manifest, layout, histogram))
    files, nbytes = folder_size(store)
    contents = {
        "schema": STORE.schema,
        "sequence": manifest["sequence"],
        "split": manifest["split"],
        "blur_dir": manifest["blur_dir"],
        "context": context,
        **{k: v for k, v in layout.attributes().items() if k != "schema"},
        "files": files,
        "bytes": nbytes,
        "recipe": recipe,
        "digest": digest,
        "gain": gain,
        "histogram": {str(steps): found.tolist() for steps, found in histogram.items()},
    }
    write_json(output, contents)
    return contents


def _frames(
    root: Path, manifest: dict[str, Any], layout: StoreLayout, histogram: Histogram
) -> Iterator[StoredFrame]:
    """Read the sequence frame by frame and add its counts to ``histogram``."""
    binned = layout.binned
    for number, frame in enumerate(manifest["frames"]):
        blur, sharp = read_rgb(root / frame["blur"]), read_rgb(root / frame["sharp"])
        if layout.spike_size is None:
            yield {"blur": blur, "sharp": sharp}
            continue
        exposure, sensor, spikes = binned[number], manifest["spike_file"], frame["spikes"]
        bits = read_packed(
            root / spikes["path"],
            *sensor["size"],
            start=spikes["start"] - layout.exposures[number].start,
            count=exposure.steps,
            area=Area(**sensor["area"]),
        ).rows
        edges = bin_edges(exposure, layout.bins)
        counts = count_packed(bits, edges)[..., : layout.spike_size[1]]
        add_to_histogram(histogram, counts, np.diff(edges))
        yield {"blur": blur, "sharp": sharp, "voxels": counts, "bits": bits}
