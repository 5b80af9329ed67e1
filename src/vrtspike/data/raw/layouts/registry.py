"""The registry of the raw layouts, and the search for that of a data set.

``scripts/config_reference.py`` writes the names that DATA.LAYOUT takes from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath

from vrtspike.data.data_source import AUTO, RawFolder
from vrtspike.data.exposure import EXPOSURE_TABLE
from vrtspike.data.raw.layouts import s_sdm, spk_gopro, spk_x4k, stream
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.layouts.folders import MAX_LINES
from vrtspike.data.raw.layouts.layout import Layout
from vrtspike.data.raw.layouts.spk_gopro import SPK_GOPRO
from vrtspike.data.raw.numbering import find_gaps, frame_order
from vrtspike.system.errors import ConfigError, DataError, did_you_mean, first_few

MODULES = (
    spk_gopro,
    spk_x4k,
    s_sdm,
    stream,
)
"""Modules with a list ``LAYOUTS``."""

LAYOUTS: dict[str, Layout] = {
    layout.name: layout for module in MODULES for layout in module.LAYOUTS
}
"""By name."""


def spike_layout(name: str | None) -> Layout:
    """Return the layout of spikes by its name; that of Spk-GoPro for None and ``auto``.

    Raises:
        ConfigError: if there is no such layout.
    """
    if name in (None, AUTO):
        return SPK_GOPRO
    if name not in LAYOUTS:
        raise ConfigError(
            f"layout: found {name!r}{did_you_mean(str(name), LAYOUTS)}; expected one of "
            f"{', '.join(LAYOUTS)}"
        )
    return LAYOUTS[name]


def find_layout(root: Path, split: str, wanted: str = AUTO, splits: Sequence[str] = ()) -> Layout:
    """Return the layout of a split: the wanted one, else the one that recognises its folders.

    A split that none recognises has the layout of the first of ``splits`` that one recognises, or
    :data:`SPK_GOPRO`.

    Args:
        root: the data set's folder.
        split: name of the split.
        wanted: name of a layout.
        splits: names of all splits.

    Raises:
        DataError: if several recognise them, or a folder cannot be looked at.
    """
    if wanted != AUTO:
        return LAYOUTS[wanted]
    matches = [layout for layout in LAYOUTS.values() if layout.recognizes(root, split)]
    if len(matches) > 1:
        names = " and ".join(layout.name for layout in matches)
        raise DataError(
            f"{root}: the folders of split {split} fit the layouts {names}; set DATA.LAYOUT to the "
            "one that is meant"
        )
    for other in splits:
        if not matches:
            matches = [layout for layout in LAYOUTS.values() if layout.recognizes(root, other)]
    return matches[0] if matches else SPK_GOPRO


def find_sequence(folder: RawFolder, sequence: str) -> SequenceFiles:
    """List the files of one sequence, ``<split>/<name>``; a split may be a path (``sub/train``).

    Raises:
        DataError: if a folder cannot be listed.
    """
    split, _, name = sequence.rpartition("/")
    return find_layout(Path(folder.root), split, folder.layout).find(folder, split, name)


def frame_faults(files: SequenceFiles) -> list[str]:
    """Return frames that lack their blurry, sharp or spike partner, and gaps in their numbers."""
    parts = {files.blur_dir: set(files.blur), "sharp": set(files.sharp)}
    if files.spikes and files.stream is None:
        parts["spike"] = set(files.spikes)
    names = set().union(*parts.values())
    if not names:
        return [f"{files.split}/{files.name}: no frames at all"]
    faults = []
    if len(files.spikes) == 1 and len(files.blur) > 1 and "spike" in parts:
        faults.append(_single_spike_file(files))
        del parts["spike"]
        names = set(files.blur) | set(files.sharp)
    faults += _missing_partners(parts, sorted(names, key=frame_order))
    return faults + _jumps(files)


def _single_spike_file(files: SequenceFiles) -> str:
    """Return the fault of a sequence with one spike file for many frames."""
    layout = LAYOUTS[files.layout]
    (path,) = files.spikes.values()
    fault = f"{path} is the only spike file of {len(files.blur)} frames; "
    per_frame = "put there a spike file for each frame, with the frame's name"
    streams = layout.sequence_paths(files.split, files.name, files.blur_dir).streams
    if not streams:
        return fault + per_frame
    # The last place for the spikes of a sequence is the folder of the frames' spike files.
    whole = PurePosixPath(path).with_stem(PurePosixPath(streams[-1]).name)
    return (
        f"{fault}if it holds the spikes of the whole sequence, rename it to {whole}, which is "
        f"divided evenly among the frames unless a table {EXPOSURE_TABLE} says otherwise; else "
        f"{per_frame}"
    )


def _missing_partners(parts: Mapping[str, Collection[str]], names: Sequence[str]) -> list[str]:
    """Return a line for each frame that lacks parts, or one for many that lack the same."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in names:
        present = ", ".join(part for part in parts if name in parts[part])
        absent = ", ".join(part for part in parts if name not in parts[part])
        if absent:
            groups.setdefault((present, absent), []).append(name)
    faults = []
    for (present, absent), group in groups.items():
        if len(group) > MAX_LINES:
            frames = first_few(group)
            faults.append(f"frames {frames} are in {present} but have no partner in {absent}")
        else:
            faults += [
                f"frame {name} is in {present} but has no partner in {absent}" for name in group
            ]
    return faults


def _jumps(files: SequenceFiles) -> list[str]:
    """Return gaps in the numbers of frames; one line for many, or where all have another step."""
    layout = LAYOUTS[files.layout]
    names = sorted(set(files.blur) & set(files.sharp), key=frame_order)
    numbers = layout.numbers(names)
    step, jumps = find_gaps(names, numbers, layout.step)
    common_step, others = find_gaps(names, numbers)
    if len(names) > 2 and common_step != step and not others:
        return [
            f"frame numbers rise by {common_step} from each frame to the next, expected {step} in "
            f"the layout {layout.name}: if no frames are missing between them, number them "
            f"1, {1 + step}, {1 + 2 * step}; else put them back"
        ]
    remedy = "frames are missing; put them back, or make two sequences of it"
    if len(jumps) > MAX_LINES:
        name, next_name = jumps[0]
        return [
            f"frame numbers jump in {len(jumps)} places, the first from {name} to {next_name}: "
            f"{remedy}"
        ]
    return [f"frame numbers jump from {name} to {next_name}: {remedy}" for name, next_name in jumps]
