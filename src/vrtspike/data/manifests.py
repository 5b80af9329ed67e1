"""The manifests that the stages of deblurring's data hand to each other.

Like :mod:`vrtspike.data.raw.layouts` it stays within the standard library, because the
workflow reads manifests while it plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

from vrtspike.data.exposure import Exposure
from vrtspike.io.files import folder_size, json_digest
from vrtspike.io.manifests import FileEntry, ManifestKind, size_and_date

Faults = dict[str, list[str]]
"""Faults by ``<split>/<name>`` of the sequence, or by split."""


class SurveyedSequence(TypedDict):
    """A sequence of a survey; ``frames`` is the number of its blurry frames."""

    split: str
    name: str
    frames: int


class Survey(TypedDict):
    """The sequences of a data set, as far as names show, sorted.

    ``layout`` is the layouts in use, joined by a plus sign; ``spikes`` is false if no sequence has
    spike files; ``excluded`` has the sequences and splits that cannot be used. Where archives and
    file systems have put folders of their own among the sequences (``__MACOSX``, ``lost+found``),
    ``passed_over`` lists these.
    """

    schema: int
    root: str
    layout: str
    spikes: bool
    sequences: list[SurveyedSequence]
    excluded: Faults
    passed_over: NotRequired[list[str]]


class SpikesEntry(TypedDict):
    """The spikes of a checked frame.

    ``start`` and ``total`` are steps of the file, ``sharp`` and ``center`` steps of the exposure,
    ``t0`` and ``t1`` steps of the sequence. ``center`` and ``correlation`` are null if nothing can
    be said.
    """

    path: str
    total: int
    start: int
    steps: int
    sharp: float
    t0: int
    t1: int
    count: int
    center: float | None
    correlation: float | None


class FrameEntry(TypedDict):
    """A checked frame: paths below the root; digest and thumbnail of the sharp picture."""

    name: str
    blur: str
    sharp: str
    spikes: SpikesEntry | None
    picture: str
    thumbnail: str


class SpikeFileEntry(TypedDict):
    """The sensor of spike files: rows and columns of a file, and the picture's area in them."""

    size: list[int]
    area: dict[str, int]


class CheckedSequence(TypedDict):
    """Result of the check of a sequence; ``frames`` are the readable ones."""

    schema: int
    sequence: str
    split: str
    layout: str
    spikes: bool
    blur_dir: str
    files: list[FileEntry]
    rgb_size: list[int] | None
    spike_size: list[int] | None
    spike_file: SpikeFileEntry | None
    frames: list[FrameEntry]
    faults: list[str]


class IngestManifest(CheckedSequence):
    """A checked sequence with the versions of its raw files and of the check."""

    recipe: str
    source_version: str


class Acceptance(TypedDict):
    """The accepted sequences.

    ``overlaps`` has the training sequence of each test sequence that holds frames of it.
    """

    schema: int
    sequences: list[str]
    excluded: Faults
    overlaps: dict[str, str]


class StoreManifest(TypedDict):
    """A store: its metadata (:class:`vrtspike.data.store.metadata.StoreMetadata`) and contents.

    ``files`` and ``bytes`` are the number and size of its files; ``histogram`` has the number of
    voxels by steps of the bin and count; ``gain`` is null without spikes. The options of the store
    are further entries (:class:`vrtspike.deblurring_settings.stores.StoreOptions`).
    """

    schema: int
    sequence: str
    split: str
    blur_dir: str
    frames: Sequence[str]
    spike_frames: Sequence[int]
    rgb_size: Sequence[int]
    spike_size: Sequence[int] | None
    exposures: Sequence[tuple[int, int, float]]
    files: int
    bytes: int
    recipe: str
    digest: str
    gain: float | None
    histogram: dict[str, list[int]]


class ShardEntry(TypedDict):
    """The result of a sequence: bytes of its manifest; digest of a check, or digest of a store.

    ``store`` is the number and bytes of the files of a store.
    """

    bytes: int
    contents: NotRequired[str]
    digest: NotRequired[str]
    store: NotRequired[list[int]]


class ShardManifest(TypedDict):
    """The results of the sequences of a shard, by ``<split>/<name>``."""

    schema: int
    sequences: dict[str, ShardEntry]


class StatisticsEntry(TypedDict):
    """Mean and standard deviation of the voxels of a training split, and their number."""

    mean: float
    std: float
    count: int


class StoredSequenceEntry(TypedDict):
    """A sequence of a data set; ``limits`` are null without spikes, absent in older manifests."""

    sequence: str
    frames: int
    gain: float | None
    limits: NotRequired[dict[str, list[float]] | None]


class DatasetContents(TypedDict):
    """A data set: its stores by split, their digest, and the statistics; null without spikes.

    The options of its stores are further entries
    (:class:`vrtspike.deblurring_settings.stores.StoreOptions`).
    """

    schema: int
    dataset: str
    blur_dir: str
    statistics: StatisticsEntry | None
    excluded: Faults
    overlaps: dict[str, str]
    splits: dict[str, list[StoredSequenceEntry]]
    held_out: list[str]
    digest: str


SURVEY = ManifestKind[Survey]("survey", 1, "survey")
INGESTED = ManifestKind[IngestManifest]("ingest manifest", 6, "ingest")
ACCEPTED = ManifestKind[Acceptance]("acceptance", 2, "accept")
STORE = ManifestKind[StoreManifest]("store manifest", 4, "voxelize")
INGEST_SHARD = ManifestKind[ShardManifest]("shard of checked sequences", 1, "ingest")
STORE_SHARD = ManifestKind[ShardManifest]("shard of stores", 1, "voxelize")
DATASET = ManifestKind[DatasetContents]("data set manifest", 4, "statistics")


def recorded_exposure(spikes: SpikesEntry) -> Exposure:
    """Return the exposure of a frame in its spike file, as an ingest manifest has it."""
    start = spikes["start"]
    return Exposure(start, start + spikes["steps"], start + spikes["sharp"])


def ingest_digest(ingested: IngestManifest) -> str:
    """Return the digest of the contents of an ingest manifest.

    The dates of its files and the code of the check do not count.
    """
    contents = {k: v for k, v in ingested.items() if k not in ("recipe", "source_version")}
    files = [[entry["path"], entry["size"], entry["digest"]] for entry in ingested["files"]]
    return json_digest({**contents, "files": files})


def is_damaged(folder: Path, sequence: str, entry: ShardEntry) -> bool:
    """Return whether the result of a sequence has another size than in the file of its shard.

    Args:
        folder: folder of the results of ``ingest`` or ``voxelize``.
        sequence: its name, ``<split>/<name>``.
        entry: ``bytes`` of its manifest; ``store``, number and bytes of the files of its store.
    """
    size, _ = size_and_date(folder, f"{sequence}.json")
    if size != entry["bytes"]:
        return True
    store = entry.get("store")
    return store is not None and list(folder_size(folder / f"{sequence}.zarr")) != store


def manifest_paths(folder: str | Path, sequences: Iterable[str]) -> list[Path]:
    """Return paths of the manifests of sequences (``<split>/<name>``) below a folder.

    Programs make these paths themselves: thousands would not fit on a command line.
    """
    return [Path(folder) / f"{sequence}.json" for sequence in sequences]


def surveyed_sequences(survey: Survey) -> list[str]:
    """Return the sequences of a survey, each as ``<split>/<name>``."""
    return [f"{entry['split']}/{entry['name']}" for entry in survey["sequences"]]
