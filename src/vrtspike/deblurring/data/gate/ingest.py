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

from vrtspike.deblurring.data.gate.alignment import CENTER_PRECISION, center_tolerance
from vrtspike.deblurring.data.gate.checks import SequenceChecks, Spikes
from vrtspike.deblurring.data.manifests import INGESTED
from vrtspike.deblurring.data.raw.layouts.files import SequenceFiles
from vrtspike.deblurring.data.raw.layouts.layout import Layout
from vrtspike.deblurring.data.raw.layouts.registry import layout_of
from vrtspike.deblurring.data.raw.numbering import find_jumps, frame_order
from vrtspike.io.manifests import file_entry


def ingest_sequence(
    root: str | Path,
    files: SequenceFiles,
    blur_dir: str,
    spike_size: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Check a sequence: names, pictures, spike files, and that spikes and frames belong together.

    Frames are read one at a time. A sequence without any spike file has no faults for that: whether
    the others have them, survey and gate look at.

    Args:
        root: the data set's folder.
        files: of the sequence.
        blur_dir: which blurry frames they hold, ``blur`` or ``blur_gamma``.
        spike_size: rows and columns of the sensor (columns as in the file, 416 for Vidar dumps
            with header columns); None takes the size in a ``config.yaml`` beside the spikes or
            that of an ``.npz`` file, else half the frames' size.

    Returns:
        The ingest manifest, but for ``source_version`` and ``recipe``; its list ``faults`` is empty
        where the sequence can be used.
    """
    base = Path(root)
    names = sorted(set(files.blur) & set(files.sharp), key=frame_order)
    faults = [
        *files.faults,
        *_partners(files, blur_dir),
        *_gaps(names, layout_of(files)),
    ]
    checks = SequenceChecks(base, files, faults)
    frames = checks.frames(names, spike_size)
    exposures = [frame.spikes for frame in frames if frame.spikes]
    area = checks.area
    return {
        "schema": INGESTED.schema,
        "sequence": files.name,
        "split": files.split,
        "layout": files.layout,
        "spikes": files.has_spikes,
        "blur_dir": blur_dir,
        "files": _file_entries(base, files.paths, faults),
        "rgb_size": list(checks.rgb_size) if checks.rgb_size else None,
        "spike_size": [area.rows, area.columns] if area else None,
        "spike_file": {"size": list(checks.file_size), "area": asdict(area)} if area else None,
        "frames": [asdict(frame) for frame in frames],
        "alignment": _judge_centers(exposures, faults, has_table=bool(files.exposures)),
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
    return [
        f"frame {name} is in {', '.join(part for part in parts if name in parts[part])} but has no "
        f"partner in {', '.join(part for part in parts if name not in parts[part])}"
        for name in sorted(everything, key=frame_order)
        if not all(name in present for present in parts.values())
    ]


def _odd_lengths(exposures: Sequence[Spikes], usual: int, offset: float) -> list[str]:
    """Spike files that are cut or too long.

    A file may have another T than the others of its sequence if its sharp frame lies where that T
    says.

    Args:
        exposures: of the sequence.
        usual: T of most of them.
        offset: found less expected centre, in the median.
    """
    return [
        f"{each.path} holds {each.steps} spike frames, others {usual}, and its sharp frame lies at "
        f"step {each.center:.1f}, expected {each.sharp + offset:.1f}: the file is cut or too long; "
        "put the whole recording of this exposure there"
        for each in exposures
        if each.steps != usual
        and each.center is not None
        # Nearer to where a cut at either end would leave it, half the missing steps away.
        and abs(each.center - each.sharp - offset)
        > min(CENTER_PRECISION, abs(usual - each.steps) / 4)
    ]


def _gaps(names: Sequence[str], layout: Layout) -> list[str]:
    """Numbers that are missing altogether: a clip must not jump in time."""
    return [
        f"frame numbers jump from {name} to {following}: frames are missing; put them back, or "
        "make two sequences of it"
        for name, following in find_jumps(names, layout.step, layout.numbers)[1]
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
    exposures: Sequence[Spikes], faults: list[str], *, has_table: bool
) -> dict[str, float | None]:
    """Compare the median centre with the expected one and report a sequence that is shifted.

    Args:
        exposures: of the sequence's usable frames; none in a sequence without spikes.
        faults: where a shift is reported.
        has_table: whether a table gives the exposures, which may then have any lengths.
    """
    correlations = [found.correlation for found in exposures if found.correlation is not None]
    summary: dict[str, float | None] = {
        "expected": None,
        "median_center": None,
        "median_correlation": round(median(correlations), 4) if correlations else None,
    }
    if not exposures:
        return summary
    (steps, expected), _ = Counter((e.steps, e.sharp) for e in exposures).most_common(1)[0]
    summary["expected"] = expected
    offsets = [each.center - each.sharp for each in exposures if each.center is not None]
    offset = median(offsets) if offsets else 0.0
    if not has_table:
        faults += _odd_lengths(exposures, steps, offset)
    if offsets:
        summary["median_center"] = round(expected + offset, 2)
    if abs(offset) > (tolerance := center_tolerance(steps)):
        faults.append(
            f"the sharp frames lie at step {expected + offset:.1f} of {steps}, expected "
            f"{expected:.1f} +- {tolerance:.0f} (median of {len(offsets)} frames): frames and "
            "spike files are shifted against each other"
        )
    return summary
