"""Several Snakemakes that write into one folder of results: none makes what another one does.

Each tells in a locked file which files it still has to make. Who has one of them in his own plan
waits, and plans anew: what the other has made is there by then. Snakemake's own lock of the folder
would refuse, and would have to be removed by hand after a crash.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from vrtspike.errors import RunError
from vrtspike.files import writes_to
from vrtspike.locks import alone, lock_file

_POLL_S = 0.5
_SUFFIX = ".plan"


@dataclass(frozen=True)
class Plan:
    """What a Snakemake at work still has to make."""

    who: str
    files: frozenset[str]


class Turns:
    """The Snakemakes at work on one folder of results.

    Args:
        folder: for their files, the same for all of them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: TextIO | None = None

    def take(self, files: Collection[str], say: Callable[[str], None]) -> bool:
        """Begin to make files, as soon as nobody else is about to make one of them.

        Args:
            files: to make.
            say: is told whom to wait for.

        Returns:
            Whether another one was waited for: the files may be there now, and nothing has begun.

        Raises:
            OSError: if the folder cannot be written; it names the folder, or a file in it.
        """
        with writes_to(self._folder):
            return self._take(files, say)

    def _take(self, files: Collection[str], say: Callable[[str], None]) -> bool:
        mine, waited = frozenset(map(os.path.abspath, files)), False
        while True:
            try:
                with alone(self._folder / "lock"):
                    other = self._other(mine)
                    if other is None:
                        if not waited:
                            self._begin(mine)
                        return waited
            except RunError:
                return waited  # a file system without locks
            if not waited:
                say(_describe(other, mine))
                waited = True
            time.sleep(_POLL_S)

    def tell(self, files: Collection[str]) -> None:
        """Tell the others what is still to be made."""
        if self._own is not None:
            # A disk that is full is told by the jobs.
            with contextlib.suppress(OSError):
                self._write(frozenset(map(os.path.abspath, files)))

    def _other(self, mine: frozenset[str]) -> Plan | None:
        """One that is about to make some of these files; forget those that have ended."""
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            # Who ends removes his own file, and waits for nobody to do so.
            with contextlib.suppress(FileNotFoundError):
                plan = _read(path, mine)
                if plan is not None and plan.files & mine:
                    return plan
        return None

    def _begin(self, files: frozenset[str]) -> None:
        path = self._folder / f"{socket.gethostname()}-{os.getpid()}{_SUFFIX}"
        # Locked for as long as this process lives, however it ends.
        self._own = path.open("w", encoding="utf-8")
        lock_file(self._own.fileno(), path)
        self._write(files)

    def _write(self, files: frozenset[str]) -> None:
        assert self._own is not None
        who = f"process {os.getpid()} on {socket.gethostname()}"
        self._own.seek(0)
        self._own.truncate()
        json.dump({"who": who, "files": sorted(files)}, self._own)
        self._own.flush()

    def end(self) -> None:
        """Have no plan any more."""
        if self._own is not None:
            Path(self._own.name).unlink(missing_ok=True)
            self._own.close()
            self._own = None


def _read(path: Path, mine: frozenset[str]) -> Plan | None:
    """The plan in a file; None, and the file is removed, where its Snakemake has died."""
    with path.open("r+", encoding="utf-8") as stream:
        if lock_file(stream.fileno(), path):
            path.unlink()
            return None
        try:
            contents = json.load(stream)
        except ValueError:  # it writes just now, be it what is asked for
            return Plan(path.stem, mine)
    return Plan(contents["who"], frozenset(contents["files"]))


def _describe(other: Plan, mine: frozenset[str]) -> str:
    common = sorted(os.path.relpath(file) for file in other.files & mine)
    more = f" and {len(common) - 1} more" if len(common) > 1 else ""
    return (
        f"waiting for another snakemake ({other.who}), which makes {common[0]}{more} of the files "
        "that are due here, too; Ctrl-C ends only this one"
    )
