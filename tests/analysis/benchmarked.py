"""Folders of projects to benchmark in, where a training takes a moment."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.workflow.project import CONFIG, TINY
from vrtspike.io.files import write_json
from vrtspike.monitoring.records import read_records

STAND_IN = Path(__file__).with_name("stand_in.py")
BINS = 8
MANIFEST = Path(f"results/data/tiny/k{BINS}/dataset.json")

Plan = Callable[..., Path]


def configure(folder: Path) -> None:
    """Configuration and presets; ``phases`` begins with small crops."""
    presets = folder / "config/presets"
    presets.mkdir(parents=True)
    (folder / "config/config.yaml").write_text(CONFIG)
    (presets / "tiny.yaml").write_text(TINY)
    (presets / "other.yaml").write_text("BASE: tiny\nDATA: {NUM_VOXEL_BINS: 4}\n")
    phases = "[{CROP_SIZE: 32, EPOCHS: 1}, {CROP_SIZE: 64, EPOCHS: 1}]"
    (presets / "phases.yaml").write_text(f"BASE: tiny\nTRAIN: {{PROGRESSIVE: {phases}}}\n")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, of this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def planned(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Make a project's folder in which turns are planned: ``ms`` of each step, ``mb`` on a GPU."""

    def make(*turns: dict[str, Any]) -> Path:
        folder = tmp_path / "planned"
        configure(folder)
        (folder / "scripts").mkdir()
        shutil.copy(STAND_IN, folder / "scripts/launch_training.py")
        write_json(folder / MANIFEST, {})
        (folder / "plan.json").write_text(json.dumps([{"mb": [None], **turn} for turn in turns]))
        monkeypatch.chdir(folder)
        return folder

    return make


def asked(folder: Path) -> list[dict[str, Any]]:
    """What each turn was started with."""
    return read_records(folder / "asked.jsonl")


def files(folder: Path) -> set[str]:
    """All files below a folder; links are not followed."""
    found = (Path(where, name) for where, _, names in os.walk(folder) for name in names)
    return {str(path.relative_to(folder)) for path in found if path.parent.name != "__pycache__"}
