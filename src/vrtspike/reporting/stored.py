"""Files of results that a page reads: damaged ones, missing ones, and those of another run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.errors import RunError
from vrtspike.files import read_json


@dataclass(frozen=True)
class Stage:
    """What wrote the files.

    Attributes:
        name: in words, such as ``evaluation``.
        again: what to do where a file is damaged, such as ``evaluate again``.
    """

    name: str
    again: str

    def read_json(self, path: Path) -> dict[str, Any]:
        """The mapping that a JSON file holds.

        Raises:
            RunError: if it holds something else.
        """
        try:
            found = read_json(path)
        except ValueError as error:
            raise RunError(f"{path}: damaged, no JSON ({error}); {self.again}") from error
        if not isinstance(found, dict):
            raise RunError(f"{path}: expected a mapping; {self.again}")
        return found

    def read_json_of(self, path: Path, fingerprint: str) -> dict[str, Any] | str:
        """As :meth:`read_json`; or why it says nothing of the run with a fingerprint."""
        found = self.read_json(path)
        if found.get("fingerprint") != fingerprint:
            return (
                f"the {self.name} belongs to another run ({found.get('fingerprint')}, not "
                f"{fingerprint}); {self.again}"
            )
        return found

    def read_table(self, path: Path, types: Mapping[str, type] | None = None) -> pd.DataFrame:
        """A CSV table, in which only an empty cell has no value.

        Args:
            path: of the file.
            types: by column, of those whose type is not to be guessed.

        Raises:
            RunError: if it is missing.
        """
        if not path.is_file():
            raise RunError(f"{path}: no such file, which every {self.name} writes; {self.again}")
        return pd.read_csv(path, dtype=dict(types or {}), keep_default_na=False, na_values=[""])
