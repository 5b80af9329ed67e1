"""The command of LOG.ON_END: what a user wants to happen when a training has ended."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vrtspike.launching.messages import Messages
from vrtspike.launching.signals import EXIT_INTERRUPTED
from vrtspike.runs.record import read_record

_STATUS = {0: "finished", EXIT_INTERRUPTED: "interrupted"}


@dataclass
class Ending:
    """How a training ended.

    Attributes:
        status: of it; 1 until it is known.
    """

    status: int = 1


@contextlib.contextmanager
def told_on_end(
    command: str | None, preset: str, folder: Path, output: Path, messages: Messages
) -> Iterator[Ending]:
    """Run a command (:func:`run_on_end`) when the body has ended, by an error too; None: nothing.

    Yields:
        What the body says of the ending.
    """
    ending = Ending()
    try:
        yield ending
    finally:
        if command is not None:
            run_on_end(command, preset, folder, output, ending.status, messages)


def run_on_end(
    command: str, preset: str, folder: Path, output: Path, status: int, messages: Messages
) -> None:
    """Run a command in a shell; that it fails is told and changes nothing.

    It finds in its environment ``VRTSPIKE_PRESET``, ``VRTSPIKE_STATUS`` (finished, interrupted or
    failed), ``VRTSPIKE_STEP``, ``VRTSPIKE_METRICS`` (JSON, of the last validation),
    ``VRTSPIKE_RUN`` (the run's folder) and ``VRTSPIKE_RESULT`` (that of the published result).

    Args:
        command: for ``sh``.
        preset: name of the preset.
        folder: of the run.
        output: of the published result; not there unless the run is finished.
        status: of the training.
        messages: where its output goes.
    """
    record = read_record(folder) or {}
    facts = {
        "VRTSPIKE_PRESET": preset,
        "VRTSPIKE_STATUS": _STATUS.get(status, "failed"),
        "VRTSPIKE_STEP": str(record.get("step", 0)),
        "VRTSPIKE_METRICS": json.dumps(record.get("metrics", {})),
        "VRTSPIKE_RUN": str(folder.absolute()),
        "VRTSPIKE_RESULT": str(output.absolute()),
    }
    # A file, no pipe: what the command leaves in the background would hold that open.
    with tempfile.TemporaryFile() as output_file:
        done = subprocess.run(
            command,
            shell=True,
            env={**os.environ, **facts},
            stdin=subprocess.DEVNULL,
            stdout=output_file,
            stderr=subprocess.STDOUT,
            check=False,
        )
        output_file.seek(0)
        said = output_file.read().decode(errors="replace").rstrip()
    if said:
        messages.note(f"LOG.ON_END:\n{said}")
    if done.returncode:
        last = (said.splitlines() or ["it said nothing"])[-1]
        messages.tell(f"warning: LOG.ON_END ended with {done.returncode}: {last}")
