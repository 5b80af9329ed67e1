"""Raw data for tests of planning."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """Two sequences; only names count."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "raw"
    for split, name in (("train", "a"), ("test", "b")):
        for kind in ("blur", "sharp"):
            for frame in ("000001.png", "000002.png"):
                path = folder / split / name / kind / frame
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("picture")
    return folder
