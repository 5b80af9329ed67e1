"""The sequences of a share, worked through: what holds is kept, the rest is made side by side.

Both stages that go through all sequences, the check of raw files and the building of stores, work
like this. Each sequence has a result of its own that is there as soon as it is done, so that a job
that dies, or runs again, only does what is left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from vrtspike.errors import DataError, DiskFullError, RunError, UserError, list_faults
from vrtspike.files import remove_leftovers, write_json
from vrtspike.locks import alone
from vrtspike.manifests import ManifestKind
from vrtspike.processes import for_each

Entry = dict[str, Any]
"""What the file of a share says of a sequence, as JSON values."""


@dataclass(frozen=True)
class Made:
    """A result that has just been made."""

    entry: Entry
    line: str
    """What a person reads of it."""


class Stage(Protocol):
    """What is done to each sequence; it can be pickled."""

    @property
    def kind(self) -> ManifestKind:
        """Kind of the file of a share."""

    def kept(self, name: str) -> Entry | None:
        """The entry of a sequence whose result still holds; None where it has to be made."""

    def make(self, name: str) -> Made:
        """Make the result of a sequence.

        Raises:
            UserError: if that cannot be.
        """


def make_share(
    stage: Stage,
    names: Sequence[str],
    folder: Path,
    output: Path,
    processes: int,
    say: Callable[[str], None],
    asked: str = "",
) -> None:
    """Bring the results of all sequences of a share up to date, and write the share's file.

    Another job on the same share is waited for, and what it has done is kept.

    Args:
        stage: what is done.
        names: the sequences, each as ``<split>/<name>``.
        folder: of their results, ``<split>/<name>.*``.
        output: the share's file: an entry for each sequence.
        processes: how many may work at the same time.
        say: takes lines for the log.
        asked: what a plan asked for, as a digest; it stands in the share's file.

    Raises:
        DataError: with every sequence whose result cannot be made; all others are made.
        DiskFullError: at once.
        RunError: if a process is killed; at once.
        OSError: if a result cannot be written; at once.
    """
    with _alone(output.with_suffix(".lock"), say):
        _clean(names, folder, output)
        entries = {name: stage.kept(name) for name in names}
        due = [name for name, entry in entries.items() if entry is None]
        # Whoever shows the log's last "[n/of]" as a bar knows from here on how much there is.
        say(f"[0/{len(due)}] share {output.stem}: {len(names)} sequences, {len(due)} of them to do")
        failures: list[str] = []
        with contextlib.closing(for_each(stage.make, due, processes)) as outcomes:
            for done, (name, outcome) in enumerate(outcomes, start=1):
                if not isinstance(outcome, Made):
                    failures.append(_failure(name, outcome))
                else:
                    entries[name] = outcome.entry
                line = outcome.line if isinstance(outcome, Made) else failures[-1]
                say(f"[{done}/{len(due)}] {line}")
        if failures:
            raise DataError(
                list_faults(
                    f"{len(failures)} of {len(names)} sequences could not be done, the others are",
                    failures,
                    "Mend these and run again: what is done stays done.",
                )
            )
        contents = {"schema": stage.kind.schema, "asked": asked, "sequences": entries}
        write_json(output, contents)


def _failure(name: str, outcome: BaseException) -> str:
    """What is wrong with a sequence.

    Raises:
        BaseException: what came of it, if it concerns the others, too.
    """
    if isinstance(outcome, UserError) and not isinstance(outcome, DiskFullError | RunError):
        text = str(outcome)
        return text if text.startswith(name) else f"{name}: {text}"
    raise outcome


def _clean(names: Sequence[str], folder: Path, output: Path) -> None:
    """Remove what killed jobs on this share left; nobody else works on it now."""
    stems: dict[str, set[str]] = {}
    for name in names:
        split, _, sequence = name.partition("/")
        stems.setdefault(split, set()).add(sequence)
    for split, found in stems.items():
        remove_leftovers(folder / split, found)
    remove_leftovers(output.parent, {output.stem})


@contextlib.contextmanager
def _alone(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Keep other jobs away from the same share for as long as the body runs."""
    waiting = f"another job works on the same sequences ({path} is locked); waiting for it"
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(alone(path, lambda: say(waiting)))
        except RunError:
            # Without locks two jobs would do the same work twice, but no harm: files are renamed.
            say(f"{path}: no locks on this file system; going on without")
        yield
