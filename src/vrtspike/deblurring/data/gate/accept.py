"""The gate between checking and computing: nothing faulty comes through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vrtspike.deblurring.data.exposure import most_bins
from vrtspike.deblurring.data.manifests import ACCEPTED, INGESTED
from vrtspike.errors import DataError, list_faults, named_faults
from vrtspike.manifests import read_manifest


def accept(
    manifests: Sequence[str | Path],
    bins: Sequence[int] = (),
    *,
    clip_length: int = 1,
    crop_sizes: Mapping[str, int] | None = None,
    exclude: bool = False,
    surveyed: Mapping[str, list[str]] | None = None,
) -> dict[str, Any]:
    """Let a data set pass only if none of its sequences has a fault.

    Args:
        manifests: paths of all ingest manifests.
        bins: voxel bins in use; exposures too short for them are faults.
        clip_length: frames of a clip; sequences with fewer are faults.
        crop_sizes: side of a crop in pixels by split; sequences with smaller frames are faults.
        exclude: leave out sequences with faults and record them, instead of refusing all.
        surveyed: what the survey set aside already, by ``<split>/<name>`` or split, with its
            faults.

    Returns:
        ``{"schema": 1, "sequences": ["train/GOPR...", ...], "excluded": {name: faults}}``:
        deliberately no more, so that a change in one sequence does not look like a change to all.

    Raises:
        DataError: with every fault of every sequence, those of the survey included; when
            excluding, only if a split has no sequence left, with the faults of its sequences.
    """
    found: dict[str, list[str]] = {}
    pictures: dict[str, str] = {}
    without_spikes: list[str] = []
    for path in manifests:
        manifest = read_manifest(path, INGESTED)
        name = f"{manifest['split']}/{manifest['sequence']}"
        found[name] = [*manifest["faults"], *_short_exposures(manifest, bins)]
        found[name] += _no_spike(manifest)
        found[name] += _no_clip(manifest, clip_length, (crop_sizes or {}).get(manifest["split"], 1))
        if not manifest["spikes"]:
            without_spikes.append(name)
        # The same frames in both splits are the user's affair (they may be meant); twice in one
        # split, a sequence lies there under two names.
        contents = f"{manifest['split']} {_contents(manifest)}"
        if contents in pictures:
            found[name].append(f"its sharp frames are those of {pictures[contents]}, file by file")
        elif manifest["frames"]:
            pictures[contents] = name
    if not found:
        raise DataError("no ingest manifests given: there is nothing to accept")
    if len(without_spikes) < len(found):
        for name in without_spikes:
            found[name].append("no spikes, but other sequences of the data set have them")
    faulty = {**(surveyed or {}), **{name: faults for name, faults in found.items() if faults}}
    sequences = sorted(set(found) - set(faulty))
    if exclude:
        _refuse_empty_splits(sequences, faulty)
    elif faulty:
        raise DataError(
            list_faults(
                "the data set has faults, nothing was written",
                named_faults(faulty),
                "Mend or remove these files (or their sequences) and run again; "
                "DATA.ON_ERROR: exclude goes on without these sequences.",
            )
        )
    return {
        "schema": ACCEPTED.schema,
        "sequences": sequences,
        "excluded": faulty,
    }


def _refuse_empty_splits(sequences: Sequence[str], excluded: Mapping[str, list[str]]) -> None:
    """Training and evaluation need each a sequence: without one no store is worth building."""
    left = {_split(name) for name in sequences}
    reasons = {name: faults for name, faults in excluded.items() if _split(name) not in left}
    if reasons:
        empty = ", ".join(dict.fromkeys(_split(name) for name in reasons))
        raise DataError(
            list_faults(
                f"all sequences of split {empty} were left out, nothing was written",
                named_faults(reasons),
                "Mend at least one sequence of each split, or name other splits "
                "(DATA.TRAIN_SPLIT, DATA.VAL_SPLIT).",
            )
        )


def _split(name: str) -> str:
    return name.partition("/")[0]


def _short_exposures(manifest: dict[str, Any], bins: Sequence[int]) -> list[str]:
    faults = []
    for k in bins:
        short = [
            (frame["name"], frame["spikes"]["steps"])
            for frame in manifest["frames"]
            if frame["spikes"] is not None and most_bins(frame["spikes"]["steps"]) < k
        ]
        if short:
            name, steps = short[0]
            faults.append(
                f"{len(short)} exposures are too short for DATA.K = {k}, first frame {name}: its "
                f"{steps} spike frames fill at most {most_bins(steps)} bins"
            )
    return faults


def _no_spike(manifest: dict[str, Any]) -> list[str]:
    """A sensor that never fired says nothing of how sensitive it is."""
    counts = [frame["spikes"]["count"] for frame in manifest["frames"] if frame["spikes"]]
    if not counts or any(counts):
        return []
    return [f"its {len(counts)} exposures hold not a single spike"]


def _no_clip(manifest: dict[str, Any], length: int, side: int) -> list[str]:
    """Why no clip can be cut from a sequence."""
    faults = []
    # Faulty frames are not in the manifest; a sequence is not called short because of them.
    if not manifest["faults"] and len(manifest["frames"]) < length:
        faults.append(
            f"{len(manifest['frames'])} frames, but clips of training and validation take "
            f"DATA.CLIP_LEN = {length}; lower that"
        )
    if manifest["rgb_size"] and min(manifest["rgb_size"]) < side:
        height, width = manifest["rgb_size"]
        faults.append(
            f"frames of {height} x {width}, but crops of training and validation take {side} x "
            f"{side} (DATA.CROP_SIZE, or the largest of TRAIN.PROGRESSIVE); lower that"
        )
    return faults


def _contents(manifest: dict[str, Any]) -> str:
    """The sharp frames of a sequence, as one text."""
    sharp = {frame["sharp"] for frame in manifest["frames"]}
    return " ".join(entry["digest"] for entry in manifest["files"] if entry["path"] in sharp)
