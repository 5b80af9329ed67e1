"""Paths of the workflow's own files, as the rules name them.

Snakemake compares commands and inputs with the last run. In a clone that is the working directory,
paths are therefore relative to it. Elsewhere commands name the folder by an environment variable,
so that nothing becomes stale if the workflow is installed at another place.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vrtspike.system.home import HOME_VARIABLE

_ASSETS = "reporting/assets"
_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class WorkflowPaths:
    """Paths of the workflow's own files.

    Attributes:
        home: the workflow's own folder.
    """

    home: Path

    @property
    def is_working_directory(self) -> bool:
        """True if the workflow runs within its own clone."""
        return self.home.samefile(Path.cwd())

    @property
    def scripts(self) -> Path:
        """The folder of the programs."""
        return self._shown(self.home / "scripts")

    @property
    def container(self) -> str:
        """The image that the first line of ``vrtspike.def`` builds."""
        return str(self._shown(self.home / "workflow/containers/vrtspike.sif"))

    @property
    def captions(self) -> list[str]:
        """Texts of Snakemake's report."""
        return self._files(self.home / "workflow/report", "*.rst")

    @property
    def assets(self) -> list[str]:
        """Files that the report page is made from; digests of code do not cover them."""
        clone = self.home / "src" / _PACKAGE.name
        package = clone if clone.is_dir() else _PACKAGE
        return self._files(package / _ASSETS, "*")

    def program(self, name: str) -> str:
        """Return the start of a shell command that runs a program.

        Args:
            name: file name of the program.
        """
        if self.is_working_directory:
            return f"python scripts/{name}"
        return f'python "${HOME_VARIABLE}"/scripts/{name}'

    def _files(self, folder: Path, pattern: str) -> list[str]:
        return sorted(str(self._shown(path)) for path in folder.glob(pattern) if path.is_file())

    def _shown(self, path: Path) -> Path:
        """Return a path relative to the working directory if that is the clone; else as it is."""
        if self.is_working_directory and path.is_relative_to(self.home):
            return path.relative_to(self.home)
        return path
