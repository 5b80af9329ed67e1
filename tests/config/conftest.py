"""Configurations in a folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write the files of a project and go to its folder."""
    monkeypatch.chdir(tmp_path)

    def write(**files: str) -> Path:
        """Write presets by name; ``config`` is ``config.yaml``, ``sweeps/x`` a sweep."""
        for name, text in files.items():
            folder = "config" if name.startswith("sweeps/") else "config/presets"
            path = Path("config.yaml") if name == "config" else Path(folder, f"{name}.yaml")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write
