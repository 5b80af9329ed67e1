"""The argument RUN of commands that also accept another path than a run's."""

from __future__ import annotations

from pathlib import Path

from vrtspike.runs.folder import latest_run
from vrtspike.system.errors import RunError


def find_run_folder(path: Path) -> Path | None:
    """Find the folder of a run; None for another path, such as a text log.

    Raises:
        RunError: if the path does not exist.
    """
    folder = latest_run(path)
    if folder is None and not path.exists():
        raise RunError(
            f"{path}: no such file or folder; expected that of a run (results/train/<preset>, "
            "runs/<preset>/<fingerprint>) or a text log"
        )
    return folder
