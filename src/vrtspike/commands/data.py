"""Command ``vrtspike data``: the public data sets, and the completeness of a folder of one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vrtspike.system.errors import ConfigError, DataError

if TYPE_CHECKING:
    from vrtspike.commands.public_sets import PublicSet
    from vrtspike.data.raw.completeness import FolderContents

OWN_DATA = "recordings of your own need no published number: snakemake -n check_data judges them"


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "action", nargs="?", choices=["check"], help="compare the folder PATH with the table"
    )
    parser.add_argument("path", nargs="?", type=Path, metavar="PATH", help="folder of a data set")
    parser.add_argument(
        "--spike-root",
        metavar="FOLDER",
        help="folder of the spikes if they are not beside the frames (DATA.SPIKE_ROOT)",
    )


def data(arguments: argparse.Namespace) -> int:
    """List the public data sets that the package reads, or check a folder of one.

    Without arguments: source, size, licence, layout, and the page on which each fact was seen.
    With check PATH: the set that the folder looks like, and the splits, sequences, frames and
    spikes that are missing. The exit status is 0 if nothing is missing, else 1.
    """
    from vrtspike.commands.public_sets import read_public_sets

    sets = read_public_sets()
    if arguments.action is None:
        if arguments.spike_root is not None:
            raise ConfigError(
                f"--spike-root {arguments.spike_root}: found no PATH to check, expected: vrtspike "
                "data check PATH --spike-root FOLDER"
            )
        print("\n\n".join("\n".join(describe_set(public_set)) for public_set in sets))
        return 0
    if arguments.path is None:
        raise ConfigError("vrtspike data check: found no PATH, expected that of a data set; add it")
    faults = _report_folder(arguments.path, arguments.spike_root, sets)
    for fault in faults:
        print(f"! {fault}")
    print(f"incomplete ({len(faults)})" if faults else "complete")
    return 1 if faults else 0


def describe_set(public: PublicSet) -> list[str]:
    """Describe a public data set: a line for its name and one for each of its facts."""
    facts = {
        "source": public.source,
        "size": public.size,
        "licence": public.licence,
        "checksum": public.checksum,
        "layout": " or ".join(public.layouts),
        "folders": public.folders,
        "spikes": "yes" if public.has_spikes else "no",
        "contents": public.counts,
    }
    pages: dict[str, list[str]] = {}
    for fact, page in public.origins.items():
        pages.setdefault(page, []).append(fact)
    lines = [public.name]
    lines += [f"  {name:<10}{text}" for name, text in facts.items()]
    lines += [f"  {'seen':<10}{', '.join(names)}: {page}" for page, names in pages.items()]
    return lines


def _report_folder(path: Path, spike_root: str | None, sets: Sequence[PublicSet]) -> list[str]:
    """Print the contents of a folder, and return what is missing.

    Raises:
        DataError: if the folder does not exist or cannot be listed.
    """
    from vrtspike.data.raw.completeness import read_contents
    from vrtspike.data.raw.nearby import other_roots
    from vrtspike.sst.downloads import is_download

    if is_download(path):
        return _report_download(path)
    layouts = read_contents(path, spike_root)
    if not layouts:
        splits = ["train", "test", "val", path.absolute().name]
        return [_unrecognized(path, other_roots(path, splits), sets)]
    return [fault for contents in layouts for fault in _report_contents(contents, sets)]


def _report_download(path: Path) -> list[str]:
    """Print the months of a download of ERA5, and return what is missing."""
    from vrtspike.sst.reading import check_download

    print(f"{path}: looks like ERA5")
    try:
        months, faults = check_download(path)
    except DataError as error:
        return [str(error)]
    print(months)
    return faults


def _report_contents(contents: FolderContents, sets: Sequence[PublicSet]) -> list[str]:
    """Print the contents of a folder in one layout, and return what is missing."""
    from vrtspike.data.raw.completeness import Expected, missing_parts

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
