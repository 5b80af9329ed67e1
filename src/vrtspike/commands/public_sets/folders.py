"""The completeness of a folder of a public data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vrtspike.commands.public_sets.table import PublicSet
from vrtspike.data.raw.completeness import Expected, FolderContents, missing_parts, read_contents
from vrtspike.data.raw.nearby import other_roots
from vrtspike.sst.downloads import is_download
from vrtspike.sst.reading import check_download
from vrtspike.system.errors import DataError

OWN_DATA = "recordings of your own need no published number: snakemake -n check_data judges them"


def report_folder(path: Path, spike_root: str | None, sets: Sequence[PublicSet]) -> list[str]:
    """Print the contents of a folder, and return what is missing.

    Raises:
        DataError: if the folder does not exist or cannot be listed.
    """
    if is_download(path):
        return _report_download(path)
    layouts = read_contents(path, spike_root)
    if not layouts:
        splits = ["train", "test", "val", path.absolute().name]
        return [_unrecognized(path, other_roots(path, splits), sets)]
    return [fault for contents in layouts for fault in _report_contents(contents, sets)]


def _report_download(path: Path) -> list[str]:
    """Print the months of a download of ERA5, and return what is missing."""
    print(f"{path}: looks like ERA5")
    try:
        months, faults = check_download(path)
    except DataError as error:
        return [str(error)]
    print(months)
    return faults


def _report_contents(contents: FolderContents, sets: Sequence[PublicSet]) -> list[str]:
    """Print the contents of a folder in one layout, and return what is missing."""
    public = _find_set(contents, sets)
    name = public.name if public else "no public set"
    print(f"{contents.root}: looks like {name} (layout {contents.layout.name})")
    expected = Expected()
    if public:
        expected = Expected(public.sequences, public.frames, public.has_spikes)
    for split, sequences in contents.splits.items():
        frames = sum(len(files.blur) for files in sequences)
        sharp = sum(len(files.sharp) for files in sequences)
        spikes = sum(files.has_spikes for files in sequences)
        print(
            f"{split}: {len(sequences)} sequences, {frames} blurry and {sharp} sharp frames, "
            f"{spikes} sequences with spikes"
        )
    print(f"published: {public.counts if public else 'nothing to compare with'}")
    faults = missing_parts(contents, expected)
    if faults:
        print(OWN_DATA)
    return faults


def _find_set(contents: FolderContents, sets: Sequence[PublicSet]) -> PublicSet | None:
    """Find the public set of a layout: the one with spikes if the folder has some."""
    candidates = [public_set for public_set in sets if contents.layout.name in public_set.layouts]
    for public_set in candidates:
        if public_set.has_spikes == contents.has_spikes:
            return public_set
    return candidates[0] if candidates else None


def _unrecognized(path: Path, others: Sequence[Path], sets: Sequence[PublicSet]) -> str:
    """Return the fault of a folder that no layout recognises."""
    advice = "see the layouts in docs/data-formats.md"
    if others:
        advice = f"did you mean {' or '.join(map(str, others))}?"
    names = ", ".join(public_set.name for public_set in sets)
    return f"{path}: found the folders of no known layout, expected one of {names}; {advice}"
