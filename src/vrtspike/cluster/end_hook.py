"""The command LOG.ON_END, which runs when a training ends, such as to send a message."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from vrtspike.cluster.signals import EXIT_RESUMABLE
from vrtspike.monitoring.display import Messages
from vrtspike.runs.folder import read_record

_STATUS = {0: "finished", EXIT_RESUMABLE: "interrupted"}


@dataclass(frozen=True)
class EndHook:
    """LOG.ON_END of a training.

    The environment of the command has ``VRTSPIKE_PRESET``, ``VRTSPIKE_STATUS`` (finished,
    interrupted or failed), ``VRTSPIKE_STEP``, ``VRTSPIKE_METRICS`` (JSON, of the last validation),
    ``VRTSPIKE_RUN`` (the run's folder) and ``VRTSPIKE_RESULT`` (the folder of the published
    result).

    Attributes:
        command: command for ``sh``; None for none.
        preset: name of the preset.
        folder: folder of the run.
        output: folder of the published result; it exists only if the run is finished.
        messages: receiver of the output of the command.
    """

    command: str | None
    preset: str
    folder: Path
    output: Path
    messages: Messages

    def run(self, status: int) -> None:
        """Run the command in a shell; its failure is only a warning.

        Args:
            status: exit status of the training.
        """
        if self.command is None:
            return
        with contextlib.ExitStack() as stack:
            output_file = None
            if self.messages.log is not None:
                output_file = stack.enter_context(self.messages.log.open("a"))
            done = subprocess.run(
                self.command,
                shell=True,
                env={**os.environ, **self._variables(status)},
                stdin=subprocess.DEVNULL,
                stdout=output_file,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode:
            place = self.messages.log or "above"
            self.messages.show(
                f"warning: LOG.ON_END ended with {done.returncode}; its output: {place}"
            )

    def _variables(self, status: int) -> dict[str, str]:
        """Return the environment variables that describe the training."""
        record = read_record(self.folder) or {}
        return {
            "VRTSPIKE_PRESET": self.preset,
            "VRTSPIKE_STATUS": _STATUS.get(status, "failed"),
            "VRTSPIKE_STEP": str(record.get("step", 0)),
            "VRTSPIKE_METRICS": json.dumps(record.get("metrics", {})),
            "VRTSPIKE_RUN": str(self.folder.absolute()),
            "VRTSPIKE_RESULT": str(self.output.absolute()),
        }
