"""Acceptance after all checks, which rejects a data set with faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vrtspike.data.checks.near_duplicates import Thumbnails, TrainingFrames, read_thumbnails
from vrtspike.data.checks.options import AcceptOptions
from vrtspike.data.manifests import (
    ACCEPTED,
    INGESTED,
    Acceptance,
    CheckedSequence,
    Faults,
    FrameEntry,
    IngestManifest,
    recorded_exposure,
)
from vrtspike.data.voxels.bins import bin_edges
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.manifests import read_manifest
from vrtspike.system.errors import DataError, first_few, list_faults, named_faults


@dataclass
class _Sequence:
    """An ingested sequence.

    Attributes:
        name: ``<split>/<sequence>``.
        pictures: digests of its sharp frames; empty text for a picture of one colour.
        thumbnails: small pictures of its sharp frames, by which copies are found.
        faults: faults that its ingestion found.
    """

    name: str
    pictures: list[str]
    thumbnails: Thumbnails
    faults: list[str]


def accept(
    manifests: Sequence[str | Path], options: AcceptOptions, survey_faults: Faults | None = None
) -> Acceptance:
    """Let a data set pass only if none of its sequences has a fault.

    Args:
        manifests: paths of all ingest manifests.
        options: requirements on the sequences, and whether those with faults are left out.
        survey_faults: faults that the survey found, by ``<split>/<name>`` or split.

    Returns:
        the acceptance, deliberately minimal, so that a change of one sequence does not look like a
        change of all.

    Raises:
        DataError: with every fault of every sequence, those of the survey included; when
            excluding, only if a split has no sequence left, with the faults of its sequences.
    """
    sequences: dict[str, _Sequence] = {}
    unmet: dict[str, list[str]] = {}
    for path in manifests:
        manifest = read_manifest(path, INGESTED)
        sequence = _read_sequence(manifest)
        sequences[sequence.name] = sequence
        for requirement in _unmet_requirements(manifest, options):
            unmet.setdefault(requirement, []).append(sequence.name)
    if not sequences:
        raise DataError("no ingest manifests given: there is nothing to accept")
    overlaps = _compare(sequences, options)
    faults = _collect_faults(sequences, survey_faults or {})
    lines = named_faults(faults)
    for requirement, names in unmet.items():
        # A requirement of the settings takes one line for all sequences.
        others = f" and {len(names) - 1} more of {len(sequences)}" if len(names) > 1 else ""
        lines.append(f"{names[0]}{others}: {requirement}")
        for name in names:
            faults.setdefault(name, []).append(requirement)
    accepted = sorted(set(sequences) - set(faults))
    if faults and options.on_error == "stop":
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
        "overlaps": {
            name: overlaps[name].most_common(1)[0][0] for name in accepted if name in overlaps
        },
    }


def _read_sequence(manifest: CheckedSequence) -> _Sequence:
    """Return the sequence of an ingest manifest, with the faults that the manifest alone shows."""
    frames = manifest["frames"]
    faults = list(manifest["faults"])
    counts = [frame["spikes"]["count"] for frame in frames if frame["spikes"]]
    if counts and not any(counts):
        # No gain can be estimated from such a sequence.
        faults.append(f"its {len(counts)} exposures hold not a single spike")
    return _Sequence(
        name=f"{manifest['split']}/{manifest['sequence']}",
        pictures=[frame["picture"] for frame in frames],
        thumbnails=read_thumbnails(frame["thumbnail"] for frame in frames),
        faults=faults,
    )


def find_faults(
    manifests: Iterable[CheckedSequence], splits: tuple[str, str], survey_faults: Faults
) -> Faults:
    """Return the faults of a data set, of each sequence and between sequences.

    Args:
        manifests: contents of the ingest manifests of all sequences.
        splits: split of training and split of testing.
        survey_faults: faults that the survey found, by ``<split>/<name>`` or split.

    Returns:
        faults by ``<split>/<name>`` or split; sequences without faults are absent.
    """
    sequences = {}
    for sequence in map(_read_sequence, manifests):
        sequences[sequence.name] = sequence
    _compare(sequences, AcceptOptions(splits=splits))
    return _collect_faults(sequences, survey_faults)


def _compare(sequences: Mapping[str, _Sequence], options: AcceptOptions) -> dict[str, Counter[str]]:
    """Report the faults between sequences.

    Returns:
        training frames in test sequences, as of :func:`_find_overlaps`.
    """
    _report_copies(sequences)
    overlaps = _find_overlaps(sequences, options.splits)
    if options.test_on_training_frames:
        return overlaps
    for name, counts in overlaps.items():
        origins = [origin for origin, _ in counts.most_common()]
        sequences[name].faults.append(
            f"{counts.total()} of its {len(sequences[name].pictures)} sharp frames are frames of "
            f"{first_few(origins)}, so its metrics would be of training frames; expected others: "
            "remove it, or set DATA.TEST_ON_TRAINING_FRAMES to true"
        )
    return overlaps


def _report_copies(sequences: Mapping[str, _Sequence]) -> None:
    """Report sequences whose sharp frames are those of another one in their split."""
    originals: dict[tuple[str, ...], str] = {}
    for name, sequence in sequences.items():
        original = originals.setdefault((_split(name), *sequence.pictures), name)
        if any(sequence.pictures) and original != name:
            sequence.faults.append(f"its sharp frames are those of {original}, frame by frame")


def _find_overlaps(
    sequences: Mapping[str, _Sequence], splits: tuple[str, str]
) -> dict[str, Counter[str]]:
    """Find test sequences that hold training frames: exact, encoded again or brightened.

    Returns:
        by test sequence, the number of its frames by the training sequence that has them.
    """
    training_split, test_split = splits
    training = [s for s in sequences.values() if _split(s.name) == training_split]
    tested = [s for s in sequences.values() if _split(s.name) == test_split]
    exact_origins: dict[str, str] = {}
    for sequence in training:
        for picture in sequence.pictures:
            exact_origins.setdefault(picture, sequence.name)
    exact_origins.pop("", None)  # a picture of one colour is not evidence
    index = TrainingFrames({sequence.name: sequence.thumbnails for sequence in training})
    overlaps = {}
    for sequence in tested:
        altered_origins = index.copied_sequences(sequence.thumbnails)
        counts: Counter[str] = Counter()
        for picture, altered_origin in zip(sequence.pictures, altered_origins, strict=True):
            origin = exact_origins.get(picture, altered_origin)
            if origin:
                counts[origin] += 1
        if counts:
            overlaps[sequence.name] = counts
    return overlaps


def _collect_faults(sequences: Mapping[str, _Sequence], survey_faults: Faults) -> Faults:
    """Return the faults of the survey and of sequences, by name; sound ones are absent."""
    faults = {**survey_faults, **{name: sequence.faults for name, sequence in sequences.items()}}
    return {name: list(lines) for name, lines in faults.items() if lines}


def _require_all_splits(accepted: Sequence[str], faults: Mapping[str, list[str]]) -> None:
    """Reject a data set if a split has no sequence left."""
    remaining = {_split(name) for name in accepted}
    empty = sorted({_split(name) for name in faults} - remaining)
    if not empty:
        return
    lines = named_faults({name: faults[name] for name in faults if _split(name) in empty})
    title = f"all sequences of split {', '.join(empty)} were left out, nothing was written"
    advice = (
        "Fix at least one sequence of each split, or name other splits (DATA.TRAIN_SPLIT, "
        "DATA.TEST_SPLIT)."
    )
    raise DataError(list_faults(title, lines, advice))


def _split(name: str) -> str:
    """Return the split of a sequence, which may be a path; a name without a slash is a split."""
    return name.rpartition("/")[0] or name


def _unmet_requirements(manifest: IngestManifest, options: AcceptOptions) -> list[str]:
    """Return requirements of the settings that a sequence does not meet.

    Args:
        manifest: result of the sequence's ingestion.
        options: requirements of the presets.
    """
    unmet = []
    if options.stores is not None:
        unmet += _exposure_faults(manifest["frames"], options.stores)
    length = options.clip_length
    side = options.crop_sizes.get(manifest["split"], 1)
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


def _exposure_faults(frames: Sequence[FrameEntry], stores: StoreOptions) -> list[str]:
    """Return the first exposure that is too short for the bins; empty if there is none."""
    for frame in frames:
        spikes = frame["spikes"]
        if not spikes:
            continue
        try:
            exposure = recorded_exposure(spikes).widened(stores.context, spikes["total"])
            bin_edges(exposure, stores.bins)
        except DataError as error:
            return [f"exposure of frame {frame['name']}: {error}"]
    return []
