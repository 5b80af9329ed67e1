"""The command LOG.ON_END, which runs when a training ends, such as to send a message."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path

from vrtspike.launching.signals import EXIT_RESUMABLE
from vrtspike.monitoring.display import Messages
from vrtspike.runs.folder import read_record

_STATUS = {0: "finished", EXIT_RESUMABLE: "interrupted"}


def run_end_hook(
    command: str | None, status: int, preset: str, folder: Path, output: Path, messages: Messages
) -> None:
    """Run LOG.ON_END in a shell; its failure is only a warning.

    The environment of the command has ``VRTSPIKE_PRESET``, ``VRTSPIKE_STATUS`` (finished,
    interrupted or failed), ``VRTSPIKE_STEP``, ``VRTSPIKE_METRICS`` (JSON, of the last validation),
    ``VRTSPIKE_RUN`` (the run's folder) and ``VRTSPIKE_RESULT`` (the folder of the published
    result).

    Args:
        command: command for ``sh``; None if there is none.
        status: exit status of the training.
        preset: name of the preset.
        folder: folder of the run.
        output: folder of the published result; it exists only if the run is finished.
        messages: receiver of the output of the command.
    """
    if command is None:
        return
    record = read_record(folder) or {}
    variables = {
        "VRTSPIKE_PRESET": preset,
        "VRTSPIKE_STATUS": _STATUS.get(status, "failed"),
        "VRTSPIKE_STEP": str(record.get("step", 0)),
        "VRTSPIKE_METRICS": json.dumps(record.get("metrics", {})),
        "VRTSPIKE_RUN": str(folder.absolute()),
        "VRTSPIKE_RESULT": str(output.absolute()),
    }
    with contextlib.ExitStack() as stack:
        output_file = None
        if messages.log is not None:
            output_file = stack.enter_context(messages.log.open("a"))
        completed = subprocess.run(
            command,
            shell=True,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=output_file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if completed.returncode:
        location = messages.log or "above"
        messages.show(
            f"warning: LOG.ON_END ended with {completed.returncode}; its output: {location}"
        )
