"""Published results of trainings, kept until their new training has succeeded.

The outputs of the rule ``train`` are flagged with ``update``: Snakemake leaves them in place while
a job runs, and restores them if it fails. A Snakemake that submits jobs to a cluster still removes
them (9.27), because the job's own Snakemake has used up the backup. Restored files have a new date,
which would make evaluations stale.
"""

from __future__ import annotations

import contextlib
import filecmp
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from vrtspike.io.locks import lock_file, locked
from vrtspike.system.errors import RunError

_PREFIX = ".former-"
_LOCK = "lock"
"""File in a folder of copies, locked while the process that made them runs."""


class FormerResults:
    """Files as they were before a run, by path.

    Args:
        results: folder of all results, for a temporary folder on the same file system.
    """

    def __init__(self, results: Path) -> None:
        self._results = results
        self._folder: Path | None = None
        self._lock: int | None = None
        self._kept: dict[Path, tuple[Path, int]] = {}

    def remove_abandoned(self) -> None:
        """Remove copies whose process has been killed."""
        with self._exclusive():
            for folder in self._results.glob(f"{_PREFIX}*"):
                lock = folder / _LOCK
                with contextlib.suppress(OSError, RunError), lock.open("a") as stream:
                    if lock_file(stream.fileno(), lock):
                        shutil.rmtree(folder, ignore_errors=True)

    def keep(self, files: Iterable[str]) -> None:
        """Keep the files that exist, as hard links where possible.

        Args:
            files: outputs of trainings.

        Raises:
            RunError: if the folder of results cannot be written.
        """
        paths = [path for path in map(Path, files) if path.is_file()]
        if not paths:
            return
        try:
            with self._exclusive():
                self._make_folder()
            self._copy(paths)
        except OSError as error:
            self.forget()
            raise RunError(
                f"{self._results}: {error.strerror}; there published results are kept until their "
                "new training has succeeded; free space or fix permissions, and run again"
            ) from error

    def _make_folder(self) -> None:
        """Make the temporary folder and lock it."""
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._results))
        self._folder = folder
        self._lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR)
        with contextlib.suppress(RunError):  # without locks no process removes it
            lock_file(self._lock, folder / _LOCK)

    def _copy(self, paths: Iterable[Path]) -> None:
        """Link or copy files into the temporary folder."""
        assert self._folder is not None
        for number, path in enumerate(paths):
            copy = self._folder / str(number)
            self._kept[path] = (copy, path.stat().st_mtime_ns)
            try:
                os.link(path, copy)
            except OSError:
                shutil.copy2(path, copy)

    def restore(self) -> list[str]:
        """After a failure, put back removed results, and the dates of those that are as before.

        Returns:
            a message for each result that a failed training would have changed.
        """
        messages = []
        for folder in sorted({path.parent for path in self._kept}):
            files = {path: kept for path, kept in self._kept.items() if path.parent == folder}
            if not any(path.exists() for path in files):
                folder.mkdir(parents=True, exist_ok=True)
                for path, (copy, _) in files.items():
                    shutil.copyfile(copy, path)
            # Other files are those of a new training.
            if not all(_is_same(path, copy) for path, (copy, _) in files.items()):
                continue
            if any(path.stat().st_mtime_ns != date for path, (_, date) in files.items()):
                messages.append(f"{folder}: the former result is kept")
            for path, (_, date) in files.items():
                os.utime(path, ns=(date, date))
        self.forget()
        return messages

    def forget(self) -> None:
        """Remove the copies."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
        self._folder = None
        self._lock = None
        self._kept = {}

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Keep other processes from removing a folder that is not yet locked."""
        with contextlib.ExitStack() as stack:
            # Without locks, or on a full disk.
            with contextlib.suppress(OSError, RunError):
                stack.enter_context(locked(self._results / "logs/snakemakes/former-results.lock"))
            yield


def _is_same(path: Path, copy: Path) -> bool:
    """Whether a file has its former contents."""
    return path.is_file() and filecmp.cmp(path, copy, shallow=False)
