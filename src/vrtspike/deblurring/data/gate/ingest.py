"""Check one sequence completely and write what it consists of: the ingest manifest.

All faults of a sequence are collected in the manifest; a sequence with faults goes no further than
the gate of :mod:`vrtspike.deblurring.data.gate.accept`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from vrtspike.deblurring.data.exposure import expected_center
from vrtspike.deblurring.data.gate.alignment import center_tolerance
from vrtspike.deblurring.data.gate.checks import Exposure, Frame, SequenceChecks
from vrtspike.deblurring.data.manifests import INGESTED
from vrtspike.deblurring.data.raw.layouts.files import SequenceFiles
from vrtspike.deblurring.data.raw.layouts.table import AUTO, find_sequence
from vrtspike.deblurring.data.raw.numbering import find_jumps, frame_order
from vrtspike.versions import file_entry


def ingest_sequence(
    root: str | Path,
    split: str,
    sequence: str,
    *,
    blur_dir: str,
    source_version: str,
    recipe: str = "",
    spike_size: tuple[int, int] | None = None,
    layout: str = AUTO,
) -> dict[str, Any]:
    """Check a sequence: names, pictures, spike files, and that spikes and frames belong together.

    Frames are read one at a time. A sequence without any spike file has no faults for that: whether
    the others have them, survey and gate look at.

    Args:
        root: the data set's folder.
        split: split of the sequence.
        sequence: its name.
        blur_dir: folder of the blurry frames.
        source_version: version of the raw files, see
            :func:`vrtspike.deblurring.data.raw.versions.source_version`.
        recipe: what the manifest is made with, see :func:`vrtspike.deblurring.data.recipes.recipe`.
        spike_size: rows and columns of the sensor (columns as in the file, 416 for Vidar dumps
            with header columns); None takes the size in a ``config.yaml`` beside the spikes or
            that of an ``.npz`` file, else half the frames' size.
        layout: name of a layout, or ``auto``.

    Returns:
        The ingest manifest; its list ``faults`` is empty where the sequence can be used.

    Raises:
        DataError: if the sequence's folder does not exist.
    """
    base = Path(root)
    files = find_sequence(base, split, sequence, blur_dir, layout)
    faults = [*files.faults, *_partners(files, blur_dir)]
    names = sorted(set(files.blur) & set(files.sharp), key=frame_order)
    checks = SequenceChecks(base, files, spike_size)
    exposures = checks.exposures(names)
    faults += _gaps(names)
    frames: list[Frame] = []
    begin = 0
    offsets: list[float] = []
    for name in names:
        exposure = exposures.get(name)
        frame, found = checks.frame(name, exposure, begin)
        begin += exposure[2] if exposure else 0
        if frame is None:
            continue
        frames.append(frame)
        if found is not None and found.locates and exposure:
            offsets.append(found.center - expected_center(exposure[2]))
    faults += checks.faults
    alignment = _judge_centers([f.spikes for f in frames if f.spikes], offsets, faults)
    return {
        "schema": INGESTED.schema,
        "sequence": sequence,
        "split": split,
        "layout": files.layout,
        "spikes": files.has_spikes,
        "blur_dir": blur_dir,
        "source_version": source_version,
        "recipe": recipe,
        "files": _file_entries(base, files.paths, faults),
        "rgb_size": list(checks.rgb_size) if checks.rgb_size else None,
        "spike_size": list(checks.sensor) if checks.sensor else None,
        "spike_columns": checks.columns or None,
        "frames": [asdict(frame) for frame in frames],
        "alignment": alignment,
        "faults": faults,
    }


def _partners(files: SequenceFiles, blur_dir: str) -> list[str]:
    """Frames that lack their blurry, sharp or spike partner."""
    parts = {blur_dir: set(files.blur), "sharp": set(files.sharp)}
    if files.spikes and files.stream is None:
        parts["spike"] = set(files.spikes)
    everything = set().union(*parts.values())
    if not everything:
        return [f"{files.split}/{files.name}: no frames at all"]
    faults = []
    for name in sorted(everything, key=frame_order):
        missing = [part for part, present in parts.items() if name not in present]
        if missing:
            there = [part for part in parts if part not in missing]
            faults.append(
                f"frame {name} is in {', '.join(there)} but has no partner in {', '.join(missing)}"
            )
    return faults


def _odd_lengths(exposures: Sequence[Exposure], usual: int) -> list[str]:
    """Spike files of another length than the others whose frame is not where that length says."""
    return [
        f"{exposure.path} holds {exposure.steps} spike frames, others {usual}, and its sharp "
        f"frame lies at step {exposure.center:.1f} instead of "
        f"{expected_center(exposure.steps):.1f}: the file is cut or too long"
        for exposure in exposures
        if exposure.steps != usual
        and exposure.center is not None
        and abs(exposure.center - expected_center(exposure.steps))
        > center_tolerance(exposure.steps)
    ]


def _gaps(names: Sequence[str]) -> list[str]:
    """Numbers that are missing altogether: a clip must not jump in time."""
    return [
        f"frame numbers jump from {name} to {following}: frames are missing; put them back, or "
        "make two sequences of it"
        for name, following in find_jumps(names, step=1).places
    ]


def _file_entries(root: Path, paths: Sequence[str], faults: list[str]) -> list[dict[str, Any]]:
    """What is kept of the files, to tell whether they changed; unreadable ones are faults."""
    entries = [file_entry(root, path) for path in paths]
    for path in (root / entry["path"] for entry in entries if not entry["digest"]):
        # The checks have named it already, unless they had no use for it.
        if not any(fault.startswith(f"{path}: cannot be read") for fault in faults):
            faults.append(f"{path}: cannot be read")
    return entries


def _judge_centers(
    exposures: Sequence[Exposure], offsets: Sequence[float], faults: list[str]
) -> dict[str, float | None]:
    """Compare the median centre with the expected one and report a sequence that is shifted.

    Args:
        exposures: of the sequence's usable frames; none in a sequence without spikes.
        offsets: found less expected centre, of the exposures whose centre can be told.
        faults: where a shift is reported.
    """
    correlations = [found.correlation for found in exposures if found.correlation is not None]
    summary: dict[str, float | None] = {
        "expected": None,
        "median_center": None,
        "median_correlation": round(median(correlations), 4) if correlations else None,
    }
    if not exposures:
        return summary
    steps = Counter(exposure.steps for exposure in exposures).most_common(1)[0][0]
    faults += _odd_lengths(exposures, steps)
    expected = expected_center(steps)
    summary["expected"] = expected
    if not offsets:
        return summary
    center = expected + median(offsets)
    summary["median_center"] = round(center, 2)
    tolerance = center_tolerance(steps)
    if abs(center - expected) > tolerance:
        faults.append(
            f"the sharp frames lie at step {center:.1f} of {steps}, expected {expected:.1f} +- "
            f"{tolerance:.0f} (median of {len(offsets)} frames): frames and spike files are "
            "shifted against each other"
        )
    return summary
