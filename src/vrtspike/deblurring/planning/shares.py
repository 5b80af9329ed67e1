"""Questions about shares: how many there are, and which sequences make one stale.

Snakemake compares the file of a share; what lies behind it, a manifest and a store for each
sequence, is compared here, as cheaply as thousands of sequences ask for: sizes and dates, and
contents only where these differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from vrtspike.deblurring.data.manifests import (
    INGEST_SHARE,
    INGESTED,
    STORE_SHARE,
    SURVEY,
    contents_digest,
    surveyed,
)
from vrtspike.deblurring.data.raw.versions import source_version
from vrtspike.deblurring.data.shares import Share, divide, share_count, shares
from vrtspike.deblurring.planning.raw_data import RawData
from vrtspike.deblurring.videos import Dataset, Videos
from vrtspike.errors import DataError
from vrtspike.files import folder_size
from vrtspike.manifests import ManifestKind, read_manifest

_NAMED = 3
"""So many sequences are named, of the others the number is told."""


@dataclass(frozen=True)
class Standing:
    """Whether a share's job has something to do.

    A job that is due must not take what comes before it as ``ancient``: of a job behind an ancient
    input that is made again, Snakemake looks for no other reason.
    """

    due: bool = False
    """So far as is known here; more may be known to Snakemake."""
    reason: str = ""
    """Where Snakemake would not see it."""


class Shares:
    """The shares of the data sets of a configuration.

    Args:
        videos: those of the configuration.
        raw_data: what is there.
        compares: whether sequences are compared; a job of a cluster that plans for itself alone
            need not.
        notice: takes what a user should read at the end.
    """

    def __init__(
        self, videos: Videos, raw_data: RawData, compares: bool, notice: Callable[[str], None]
    ) -> None:
        self._videos = videos
        self._raw_data = raw_data
        self._compares = compares
        self._notice = notice
        # Asked once: while jobs run, their results come and go.
        self._members = cache(self._find_members)
        self.ingest_standing = cache(self._ingest_standing)
        self.store_standing = cache(self._store_standing)

    def names(self, dataset: Dataset) -> list[str]:
        """The shares of a data set, those that hold no sequence left out as far as it is known."""
        return [str(share) for share in self._members(dataset)]

    def size(self, dataset: Dataset, share: str) -> int | None:
        """How many sequences fall into a share; None where that is not known yet."""
        if not self._compares:
            try:
                known = read_manifest(self._folder(dataset) / "survey.json", SURVEY)
            except DataError:
                return None
            return len(Share.parse(share).of(surveyed(known)))
        names = self._members(dataset).get(Share.parse(share))
        return None if names is None else len(names)

    def _find_members(self, dataset: Dataset) -> dict[Share, list[str] | None]:
        """The shares of a data set, each with its sequences where these are known."""
        states = self._raw_data.states(dataset)
        if dataset.kind == "raw" and states:
            nbytes = sum(state.nbytes for state in states.values())
            count = self._count(len(states), nbytes)
        elif dataset.kind == "simulated":
            count = self._count(len(self._videos.settings.SIMULATE.SEQUENCES), 0)
        else:
            count = 1  # the demo is small
        if not states:
            return dict.fromkeys(shares(count))
        return {**divide(states, count)}

    def _count(self, sequences: int, nbytes: int) -> int:
        bounds = self._videos.settings.SHARES
        return share_count(sequences, nbytes, bounds.SEQUENCES, bounds.GB * 1e9)

    def _folder(self, dataset: Dataset) -> Path:
        return self._videos.results / "data" / dataset.name

    def _ingest_standing(self, dataset: Dataset, share: str, asked: str) -> Standing:
        folder = self._folder(dataset) / "ingest"
        known = self._known(folder / "shares" / f"{share}.json", INGEST_SHARE)
        if isinstance(known, Standing):
            return known
        states, listed = self._raw_data.states(dataset), known["sequences"]
        if states is None:
            return Standing(due=True)
        now = set(self._members(dataset).get(Share.parse(share)) or ())
        damaged = [name for name in listed if name in now and _is_cut(folder, name, listed[name])]
        changed = [
            name
            for name, entry in listed.items()
            if name in now
            and name not in damaged
            and states[name].version != entry["version"]
            and self._is_changed(dataset, folder, name, entry)
        ]
        self._tell("manifest", damaged)
        return _standing(
            known["asked"] != asked,
            _about("new: {}", now - listed.keys()),
            _about("removed: {}", listed.keys() - now),
            _about("raw files of {} changed", changed),
            _about("manifest of {} missing or damaged", damaged),
        )

    def _is_changed(
        self, dataset: Dataset, folder: Path, name: str, entry: Mapping[str, Any]
    ) -> bool:
        """Whether files of other sizes or dates are others; the manifest knows their contents."""
        path = folder / f"{name}.json"
        split, _, sequence = name.partition("/")
        try:
            known = read_manifest(path, INGESTED)
            if contents_digest(known) != entry["contents"]:
                return True
            now = source_version(
                dataset.root, sequence, split, path, dataset.blur_dir, dataset.layout
            )
        except DataError:
            return True  # the job meets the same error and reports it
        return bool(now != known["source_version"])

    def _store_standing(self, dataset: Dataset, bins: int, share: str, asked: str) -> Standing:
        above = self._folder(dataset)
        folder, name_of_share = above / f"k{bins}", f"shares/{share}.json"
        known = self._known(folder / name_of_share, STORE_SHARE)
        before = self._known(above / "ingest" / name_of_share, INGEST_SHARE)
        if isinstance(known, Standing):
            made_before = known.due and not known.reason and (folder / "dataset.json").exists()
            # Snakemake does not miss it: what was made of it is there. Stores may be gone, too.
            return Standing(True, f"{folder / name_of_share} is missing") if made_before else known
        if isinstance(before, Standing):
            return Standing(due=True)  # made before, and compared by Snakemake then
        listed, ingested = known["sequences"], before["sequences"]
        cut = [name for name, entry in listed.items() if _is_cut(folder, name, entry)]
        damaged = [
            name
            for name, entry in listed.items()
            if name not in cut and list(folder_size(folder / f"{name}.zarr")) != entry["store"]
        ]
        self._tell("store's manifest", cut)
        self._tell("store", damaged)
        other = {name: entry["ingested"] for name, entry in listed.items()} != {
            name: entry["contents"] for name, entry in ingested.items()
        }
        return _standing(
            other or known["asked"] != asked,
            _about("store of {} missing or damaged", damaged),
            _about("store's manifest of {} missing or damaged", cut),
        )

    def _known(self, path: Path, kind: ManifestKind) -> Mapping[str, Any] | Standing:
        """What a share's file says; where it cannot be used, how the share stands therefore."""
        if not self._compares:
            return Standing()
        if not path.exists():
            return Standing(due=True)
        try:
            return read_manifest(path, kind)
        except DataError:
            return Standing(due=True, reason=f"{path} is damaged")

    def _tell(self, what: str, names: Collection[str]) -> None:
        if names:
            self._notice(_about(f"{what} of {{}} missing or damaged: made again", names))


def _is_cut(folder: Path, name: str, entry: Mapping[str, Any]) -> bool:
    """Whether a manifest is missing, or has not the length that it was written with."""
    try:
        return (folder / f"{name}.json").stat().st_size != entry["bytes"]
    except OSError:
        return True


def _about(text: str, names: Collection[str]) -> str:
    """A text about some sequences; empty where there are none.

    >>> _about("new: {}", ["train/e", "train/d", "train/c", "train/b", "train/a"])
    'new: train/a, train/b, train/c and 2 more'
    """
    if not names:
        return ""
    shown = ", ".join(sorted(names)[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return text.format(shown + more)


def _standing(due: bool, *reasons: str) -> Standing:
    reason = ", ".join(filter(None, reasons))
    return Standing(due or bool(reason), reason)
