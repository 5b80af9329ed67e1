"""The gate after all checks, which refuses a data set with faults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrtspike.data.bins import bin_edges
from vrtspike.data.gate.copies import Thumbnails, TrainingFrames, read_thumbnails
from vrtspike.data.manifests import ACCEPTED, INGESTED, recorded_exposure
from vrtspike.io.manifests import read_manifest
from vrtspike.system.errors import DataError, list_faults, named_faults


@dataclass
class _Sequence:
    """An ingested sequence.

    Attributes:
        name: ``<split>/<sequence>``.
        pictures: digests of its sharp frames; empty text for a picture of one colour.
        unmet: requirements of the settings that it does not meet.
    """

    name: str
    has_spikes: bool
    pictures: list[str]
    thumbnails: Thumbnails
    faults: list[str]
    unmet: list[str]


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
        context: maximum steps of the closed shutter that bins take in, on each side.
        clip_length: frames of a clip; sequences with fewer are faults.
        crop_sizes: side of a crop in pixels by split; sequences with smaller frames are faults.
        splits: split of training and split of testing.
        test_on_training_frames: accept test sequences that hold frames of training sequences.
        exclude: leave out sequences with faults and record them, instead of refusing all.
        surveyed: faults that the survey found, by ``<split>/<name>`` or split.

    Returns:
        ``{"schema": 2, "sequences": ["train/GOPR...", ...], "excluded": {name: faults},
        "overlaps": {test sequence: training sequence that it holds frames of}}``: deliberately no
        more, so that a change in one sequence does not look like a change to all.

    Raises:
        DataError: with every fault of every sequence, those of the survey included; when
            excluding, only if a split has no sequence left, with the faults of its sequences.
    """
    sequences: dict[str, _Sequence] = {}
    for path in manifests:
        manifest = read_manifest(path, INGESTED)
        sequence = _read_sequence(manifest)
        side = (crop_sizes or {}).get(manifest["split"], 1)
        sequence.unmet = _unmet_requirements(manifest, bins, context, clip_length, side)
        sequences[sequence.name] = sequence
    if not sequences:
        raise DataError("no ingest manifests given: there is nothing to accept")
    overlaps = _compare(sequences, splits, test_on_training_frames=test_on_training_frames)
    faults = _collect_faults(sequences, surveyed or {})
    lines = named_faults(faults)
    for requirement, names in _names_by_requirement(sequences).items():
        # A requirement of the settings takes one line for all sequences.
        others = f" and {len(names) - 1} more of {len(sequences)}" if len(names) > 1 else ""
        lines.append(f"{names[0]}{others}: {requirement}")
        for name in names:
            faults.setdefault(name, []).append(requirement)
    accepted = sorted(set(sequences) - set(faults))
    if faults and not exclude:
        advice = (
            "Fix these files, remove their sequences or change the keys, and run again; "
            "DATA.ON_ERROR: exclude goes on without these sequences."
        )
        raise DataError(list_faults("the data set has faults, nothing was written", lines, advice))
    _require_all_splits(accepted, faults)
    return {
        "schema": ACCEPTED.schema,
        "sequences": accepted,
        "excluded": faults,
        "overlaps": {name: overlaps[name][0] for name in accepted if name in overlaps},
    }


def _read_sequence(manifest: Mapping[str, Any]) -> _Sequence:
    """Return the sequence of an ingest manifest, with the faults that the manifest alone shows."""
    frames = manifest["frames"]
    faults = list(manifest["faults"])
    counts = [frame["spikes"]["count"] for frame in frames if frame["spikes"]]
    if counts and not any(counts):
        # No gain can be estimated from such a sequence.
        faults.append(f"its {len(counts)} exposures hold not a single spike")
    return _Sequence(
        name=f"{manifest['split']}/{manifest['sequence']}",
        has_spikes=bool(manifest["spikes"]),
        pictures=[frame["picture"] for frame in frames],
        thumbnails=read_thumbnails(frame["thumbnail"] for frame in frames),
        faults=faults,
        unmet=[],
    )


def find_faults(
    manifests: Iterable[Mapping[str, Any]],
    splits: tuple[str, str] = ("train", "test"),
    surveyed: Mapping[str, list[str]] | None = None,
) -> dict[str, list[str]]:
    """Return the faults of a data set, of each sequence and of sequences beside each other.

    Args:
        manifests: contents of the ingest manifests of all sequences.
        splits: split of training and split of testing.
        surveyed: faults that the survey found, by ``<split>/<name>`` or split.

    Returns:
        faults by ``<split>/<name>`` or split; sequences without faults are absent.
    """
    sequences = {}
    for manifest in manifests:
        sequence = _read_sequence(manifest)
        sequences[sequence.name] = sequence
    _compare(sequences, splits, test_on_training_frames=False)
    return _collect_faults(sequences, surveyed or {})


def _compare(
    sequences: Mapping[str, _Sequence], splits: tuple[str, str], *, test_on_training_frames: bool
) -> dict[str, list[str]]:
    """Report the faults that sequences beside each other show.

    Returns:
        by test sequence the training sequence of each training frame that it holds.
    """
    _report_missing_spikes(sequences)
    _report_copies(sequences)
    overlaps = _find_overlaps(sequences, splits)
    if not test_on_training_frames:
        _report_overlaps(sequences, overlaps)
    return overlaps


def _report_missing_spikes(sequences: Mapping[str, _Sequence]) -> None:
    """Report sequences without spikes if others have them."""
    if not any(sequence.has_spikes for sequence in sequences.values()):
        return
    for sequence in sequences.values():
        if not sequence.has_spikes:
            sequence.faults.append("no spikes, but other sequences of the data set have them")


def _report_copies(sequences: Mapping[str, _Sequence]) -> None:
    """Report sequences whose sharp frames are those of another one in their split."""
    originals: dict[tuple[str, ...], str] = {}
    for name, sequence in sequences.items():
        original = originals.setdefault((_split(name), *sequence.pictures), name)
        if any(sequence.pictures) and original != name:
            sequence.faults.append(f"its sharp frames are those of {original}, frame by frame")


def _find_overlaps(
    sequences: Mapping[str, _Sequence], splits: tuple[str, str]
) -> dict[str, list[str]]:
    """Find test sequences that hold training frames, exact or altered.

    Returns:
        by test sequence the training sequence of each training frame that it holds.
    """
    training_split, test_split = splits
    training = [s for s in sequences.values() if _split(s.name) == training_split]
    tested = [s for s in sequences.values() if _split(s.name) == test_split]
    exact = _exact_copies(training, tested)
    altered = _altered_copies(training, tested)
    return {**altered, **exact}


def _exact_copies(
    training: Sequence[_Sequence], tested: Sequence[_Sequence]
) -> dict[str, list[str]]:
    """Test sequences with training frames, as :func:`_find_overlaps` returns them."""
    origins: dict[str, str] = {}
    for sequence in training:
        for picture in sequence.pictures:
            origins.setdefault(picture, sequence.name)
    origins.pop("", None)  # a picture of one colour is no evidence
    copies = {}
    for sequence in tested:
        names = [origins[picture] for picture in sequence.pictures if picture in origins]
        if names:
            copies[sequence.name] = names
    return copies


def _altered_copies(
    training: Sequence[_Sequence], tested: Sequence[_Sequence]
) -> dict[str, list[str]]:
    """Test sequences with encoded or brightened training frames, as :func:`_find_overlaps`."""
    index = TrainingFrames({sequence.name: sequence.thumbnails for sequence in training})
    copies = {}
    for sequence in tested:
        original = index.copied_sequence(sequence.thumbnails)
        if original is not None:
            name, count = original
            copies[sequence.name] = [name] * count
    return copies


def _report_overlaps(
    sequences: Mapping[str, _Sequence], overlaps: Mapping[str, Sequence[str]]
) -> None:
    """Report test sequences that hold training frames."""
    for name, training in overlaps.items():
        sequence = sequences[name]
        sequence.faults.append(
            f"{len(training)} of its {len(sequence.pictures)} sharp frames are frames of "
            f"{training[0]}, so its figures would be of training frames; expected others: remove "
            "it, or set DATA.TEST_ON_TRAINING_FRAMES to true"
        )


def _collect_faults(
    sequences: Mapping[str, _Sequence], surveyed: Mapping[str, list[str]]
) -> dict[str, list[str]]:
    """Return faults of the survey and of the sequences by name; sequences without faults are
    absent."""
    faults = dict(surveyed)
    for name, sequence in sequences.items():
        faults[name] = sequence.faults
    return {name: list(lines) for name, lines in faults.items() if lines}


def _names_by_requirement(sequences: Mapping[str, _Sequence]) -> dict[str, list[str]]:
    """Return sequences by the requirement of the settings that they do not meet."""
    names_of: dict[str, list[str]] = {}
    for name, sequence in sequences.items():
        for requirement in sequence.unmet:
            names_of.setdefault(requirement, []).append(name)
    return names_of


def _require_all_splits(accepted: Sequence[str], faults: Mapping[str, list[str]]) -> None:
    """Refuse a data set if a split has no sequence left.

    Raises:
        DataError: with the faults of its sequences.
    """
    remaining = {_split(name) for name in accepted}
    empty = sorted({_split(name) for name in faults} - remaining)
    if not empty:
        return
    lines = named_faults({name: faults[name] for name in faults if _split(name) in empty})
    title = f"all sequences of split {', '.join(empty)} were left out, nothing was written"
    advice = (
        "Fix at least one sequence of each split, or name other splits (DATA.TRAIN_SPLIT, "
        "DATA.VAL_SPLIT)."
    )
    raise DataError(list_faults(title, lines, advice))


def _split(name: str) -> str:
    """Return the split of a sequence, which may be a path; a name without a slash is a split."""
    return name.rpartition("/")[0] or name


def _unmet_requirements(
    manifest: Mapping[str, Any], bins: int | None, context: int, length: int, side: int
) -> list[str]:
    """Return requirements of the settings that a sequence does not meet.

    Args:
        manifest: the ingest manifest.
        bins: voxel bins; None takes any exposure.
        context: maximum steps of the closed shutter that bins take in, on each side.
        length: frames of a clip.
        side: side of a crop in pixels.
    """
    unmet = []
    if bins is not None:
        unmet += _exposure_faults(manifest["frames"], bins, context)
    # Faulty frames are not in the manifest; a sequence is not called short because of them.
    if not manifest["faults"] and len(manifest["frames"]) < length:
        unmet.append(
            f"{len(manifest['frames'])} frames, but clips of training and validation take "
            f"DATA.CLIP_LEN = {length}; lower that"
        )
    if manifest["rgb_size"] and min(manifest["rgb_size"]) < side:
        height, width = manifest["rgb_size"]
        unmet.append(
            f"frames of {height} x {width}, but crops of training and validation take {side} x "
            f"{side} (DATA.CROP_SIZE, or the largest of TRAIN.PROGRESSIVE); lower that"
        )
    return unmet


def _exposure_faults(frames: Sequence[Mapping[str, Any]], bins: int, context: int) -> list[str]:
    """Return the first exposure that is too short for the bins; empty if there is none."""
    for frame in frames:
        spikes = frame["spikes"]
        if not spikes:
            continue
        try:
            bin_edges(recorded_exposure(spikes).widened(context, spikes["total"]), bins)
        except DataError as error:
            return [f"exposure of frame {frame['name']}: {error}"]
    return []
