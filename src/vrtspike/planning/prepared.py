"""Questions about data that the rule ``prepare`` makes, of problems without rules of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vrtspike.config.run_schema import RunSettings
from vrtspike.config.workflow import MANIFEST, Workflow
from vrtspike.errors import UserError
from vrtspike.files import read_json
from vrtspike.problems import Problem, find_problem
from vrtspike.versions import is_unchanged, size_and_date


class PreparedData:
    """Folders of prepared data, each by the preset that stands for all that share it.

    Args:
        plan: the configuration.
    """

    def __init__(self, plan: Workflow) -> None:
        self._plan = plan

    def preset(self, folder: str) -> str:
        """The preset that a folder is prepared for."""
        return self._plan.prepared[folder]

    def manifest(self, folder: str) -> Path:
        """The manifest in a folder."""
        return Path(self._plan.settings.RESULTS) / "data" / folder / MANIFEST

    def files(self, folder: str) -> list[Path]:
        """The raw files that the user gives.

        Raises:
            UserError: if there are none.
        """
        problem, settings = self._of(folder)
        return list(problem.data_files(settings))

    def why_again(self, folder: str) -> str:
        """Why a folder is to be prepared again; empty if it is not, or not there yet.

        Only contents are looked at here, and those by sizes and dates first: settings, code and
        the names of files are compared by the scheduler.
        """
        path = self.manifest(folder)
        if not path.is_file():
            return ""
        problem, _ = self._of(folder)
        try:
            problem.dataset_digest(path)
        except UserError:
            return f"{path} is damaged"
        changed = changed_files(self.files(folder), path)
        return f"{changed[0]} has changed" if changed else ""

    def _of(self, folder: str) -> tuple[Problem, RunSettings]:
        settings = self._plan.preset(self.preset(folder))
        return find_problem(settings.TASK), settings


def changed_files(files: Sequence[Path], manifest: Path) -> list[Path]:
    """The files whose contents are not those that a manifest lists under their names.

    Args:
        files: that are there.
        manifest: JSON with ``files``, as :func:`vrtspike.versions.file_entry` describes each.
    """
    known = {entry["path"]: entry for entry in read_json(manifest).get("files", [])}
    return [
        path
        for path in files
        if not is_unchanged(path.parent, known, path.name, *size_and_date(path.parent, path.name))
    ]
