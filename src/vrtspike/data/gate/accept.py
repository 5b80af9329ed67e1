"""The gate after all checks, which refuses a data set with faults; the table of its exposures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vrtspike.data.bins import bin_edges
from vrtspike.data.gate.copies import Thumbnails, TrainingFrames, read_thumbnails
from vrtspike.data.manifests import ACCEPTED, INGESTED, recorded_exposure
from vrtspike.io.manifests import read_manifest
from vrtspike.system.errors import DataError, list_faults, named_faults

OF_EXPOSURE = {
    "t0": "t0",
    "t1": "t1",
    "spike_count": "count",
    "expected_center": "sharp",
    "center": "center",
    "correlation": "correlation",
}
"""What the table and ingest manifests call the same of an exposure."""
COLUMNS = ("split", "sequence", "frame", *OF_EXPOSURE)
"""``t0`` and ``t1`` are spike steps from the beginning of the sequence, ``t1`` excluded; centres
are steps of the exposure. ``center`` and ``correlation`` are empty where nothing can be said."""


def alignment_rows(manifests: Iterable[str | Path]) -> list[dict[str, Any]]:
    """Where every exposure lies in time and how well its spikes show it, sorted.

    Args:
        manifests: paths of all ingest manifests.

    Returns:
        rows of :data:`COLUMNS`; none of a data set without spikes.
    """
    rows = [
        {
            "split": manifest["split"],
            "sequence": manifest["sequence"],
            "frame": frame["name"],
            **{column: exposure[key] for column, key in OF_EXPOSURE.items()},
        }
        for manifest in (read_manifest(path, INGESTED) for path in manifests)
        for frame in manifest["frames"]
        if (exposure := frame["spikes"]) is not None
    ]
    return sorted(rows, key=lambda row: (row["split"], row["sequence"], row["t0"]))


def accept(
    manifests: Sequence[str | Path],
    bins: int | None = None,
    *,
    context: int = 0,
    clip_length: int = 1,
    crop_sizes: Mapping[str, int] | None = None,
    splits: tuple[str, str] = ("train", "test"),
    test_on_training_frames: bool = False,
    exclude: bool = False,
    surveyed: Mapping[str, list[str]] | None = None,
) -> dict[str, Any]:
    """Let a data set pass only if none of its sequences has a fault.

    Args:
        manifests: paths of all ingest manifests.
        bins: voxel bins; exposures too short for them are faults.
        context: most steps of the closed shutter that bins take in, on each side.
        clip_length: frames of a clip; sequences with fewer are faults.
        crop_sizes: side of a crop in pixels by split; sequences with smaller frames are faults.
        splits: that of training and that of testing.
        test_on_training_frames: accept test sequences that hold frames of training sequences.
        exclude: leave out sequences with faults and record them, instead of refusing all.
        surveyed: what the survey set aside already, by ``<split>/<name>`` or split, with its
            faults.

    Returns:
        ``{"schema": 2, "sequences": ["train/GOPR...", ...], "excluded": {name: faults},
        "overlaps": {test sequence: training sequence that it holds frames of}}``: deliberately no
        more, so that a change in one sequence does not look like a change to all.

    Raises:
        DataError: with every fault of every sequence, those of the survey included; when
            excluding, only if a split has no sequence left, with the faults of its sequences.
    """
    found: dict[str, list[str]] = {}
    unmet: dict[str, list[str]] = {}
    pictures: dict[str, list[str]] = {}
    thumbnails: dict[str, Thumbnails] = {}
    spiked: set[str] = set()
    for path in manifests:
        manifest = read_manifest(path, INGESTED)
        name = f"{manifest['split']}/{manifest['sequence']}"
        found[name] = list(manifest["faults"])
        pictures[name] = [frame["picture"] for frame in manifest["frames"]]
        thumbnails[name] = read_thumbnails(frame["thumbnail"] for frame in manifest["frames"])
        counts = [frame["spikes"]["count"] for frame in manifest["frames"] if frame["spikes"]]
        spiked |= {name} if manifest["spikes"] else set()
        if counts and not any(counts):
            # No gain can be estimated from it.
            found[name].append(f"its {len(counts)} exposures hold not a single spike")
        side = (crop_sizes or {}).get(manifest["split"], 1)
        for fault in _unmet(manifest, bins, context, clip_length, side):
            unmet.setdefault(fault, []).append(name)
    if not found:
        raise DataError("no ingest manifests given: there is nothing to accept")
    for name in found.keys() - spiked if spiked else ():
        found[name].append("no spikes, but other sequences of the data set have them")
    for name, twin in _twins(pictures).items():
        found[name].append(f"its sharp frames are those of {twin}, frame by frame")
    overlaps = _overlaps(pictures, splits)
    for name, training in _altered_copies(thumbnails, splits).items():
        overlaps.setdefault(name, training)
    for name, training in overlaps.items() if not test_on_training_frames else ():
        found[name].append(
            f"{len(training)} of its {len(pictures[name])} sharp frames are frames of "
            f"{training[0]}, so its figures would be of training frames; expected others: remove "
            "it, or set DATA.TEST_ON_TRAINING_FRAMES to true"
        )
    faulty = {
        name: list(faults) for name, faults in {**(surveyed or {}), **found}.items() if faults
    }
    lines = named_faults(faulty)
    for fault, names in unmet.items():
        # A requirement of the settings, said once.
        more = f" and {len(names) - 1} more of {len(found)}" if len(names) > 1 else ""
        lines.append(f"{names[0]}{more}: {fault}")
        for name in names:
            faulty.setdefault(name, []).append(fault)
    sequences = sorted(set(found) - set(faulty))
    empty = sorted({_split(name) for name in faulty} - {_split(name) for name in sequences})
    if faulty and not exclude:
        title, advice = (
            "the data set has faults, nothing was written",
            "Fix these files, remove their sequences or change the keys, and run again; "
            "DATA.ON_ERROR: exclude goes on without these sequences.",
        )
        raise DataError(list_faults(title, lines, advice))
    if empty:
        lines = named_faults({name: faulty[name] for name in faulty if _split(name) in empty})
        title = f"all sequences of split {', '.join(empty)} were left out, nothing was written"
        advice = (
            "Fix at least one sequence of each split, or name other splits (DATA.TRAIN_SPLIT, "
            "DATA.VAL_SPLIT)."
        )
        raise DataError(list_faults(title, lines, advice))
    return {
        "schema": ACCEPTED.schema,
        "sequences": sequences,
        "excluded": faulty,
        "overlaps": {name: overlaps[name][0] for name in sequences if name in overlaps},
    }


def _twins(pictures: Mapping[str, list[str]]) -> dict[str, str]:
    """The original of each sequence that is a copy of another in its split."""
    first: dict[tuple[str, ...], str] = {}
    twins = {}
    for name, found in pictures.items():
        original = first.setdefault((_split(name), *found), name)
        if any(found) and original != name:
            twins[name] = original
    return twins


def _overlaps(pictures: Mapping[str, list[str]], splits: tuple[str, str]) -> dict[str, list[str]]:
    """Test sequences with training frames: for each of these the training sequence it is of."""
    training: dict[str, str] = {}
    for name, found in pictures.items():
        for picture in found if _split(name) == splits[0] else ():
            training.setdefault(picture, name)
    training.pop("", None)  # a picture of one colour is no evidence
    overlaps = {
        name: [training[picture] for picture in found if picture in training]
        for name, found in pictures.items()
        if _split(name) == splits[1]
    }
    return {name: known for name, known in overlaps.items() if known}


def _altered_copies(
    thumbnails: Mapping[str, Thumbnails], splits: tuple[str, str]
) -> dict[str, list[str]]:
    """Test sequences with training frames that were encoded or brightened; as _overlaps."""
    training = {name: frames for name, frames in thumbnails.items() if _split(name) == splits[0]}
    index = TrainingFrames(training)
    copies: dict[str, list[str]] = {}
    for name, frames in thumbnails.items():
        original = index.copied_sequence(frames) if _split(name) == splits[1] else None
        if original is not None:
            sequence, count = original
            copies[name] = [sequence] * count
    return copies


def _split(name: str) -> str:
    """The split of a sequence, which may be a path, or one named alone."""
    return name.rpartition("/")[0] or name


def _unmet(
    manifest: dict[str, Any], bins: int | None, context: int, length: int, side: int
) -> Iterator[str]:
    """What the settings ask of a sequence that it does not meet; arguments as of :func:`accept`."""
    for frame in manifest["frames"]:
        if (spikes := frame["spikes"]) and bins is not None:
            try:
                bin_edges(recorded_exposure(spikes).widened(context, spikes["total"]), bins)
            except DataError as error:
                yield f"exposure of frame {frame['name']}: {error}"
                break
    # Faulty frames are not in the manifest; a sequence is not called short because of them.
    if not manifest["faults"] and len(manifest["frames"]) < length:
        yield (
            f"{len(manifest['frames'])} frames, but clips of training and validation take "
            f"DATA.CLIP_LEN = {length}; lower that"
        )
    if manifest["rgb_size"] and min(manifest["rgb_size"]) < side:
        height, width = manifest["rgb_size"]
        yield (
            f"frames of {height} x {width}, but crops of training and validation take {side} x "
            f"{side} (DATA.CROP_SIZE, or the largest of TRAIN.PROGRESSIVE); lower that"
        )
