"""The run that a user selects by a path or by the name of a preset.

Only commands import this module: stages that read the configuration's files would be stale when its
code changes.
"""

from __future__ import annotations

from pathlib import Path

from vrtspike.config.workflow_loading import run_folders
from vrtspike.runs.folder import latest_run
from vrtspike.system.errors import RunError


def find_run(path: Path) -> Path:
    """Return the folder of the run that a path or the name of a preset selects.

    Args:
        path: folder of a run, folder of the runs of a preset, for the latest, or name of a preset
            with runs in the folders that ``config/config.yaml`` names.

    Raises:
        RunError: if there is none.
        ConfigError: if ``path`` is none, and the configuration is invalid.
    """
    run = latest_run(path)
    if run is not None:
        return run
    folders = run_folders()
    for folder in folders:
        run = latest_run(folder / path)
        if run is not None:
            return run
    runs, results = folders
    raise RunError(
        f"{path}: no run there; expected its folder ({runs}/<preset>/<fingerprint>, which training "
        f"prints when it starts, or {results}/<preset>) or a preset with a run in {runs} or "
        f"{results}, as RUNS and RESULTS say; name its folder if other configuration set them"
    )
