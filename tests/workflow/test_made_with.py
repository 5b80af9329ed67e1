"""Projects that were made with another version."""

from __future__ import annotations

import pytest

import vrtspike
from vrtspike.system.errors import RunError
from vrtspike.workflow.made_with import MADE_WITH, version_notes, version_record


def test_only_another_version_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert version_notes() == []  # a clone
    MADE_WITH.parent.mkdir()
    MADE_WITH.write_text(version_record(vrtspike.__version__))
    assert version_notes() == []
    MADE_WITH.write_text(version_record("0.0.1"))
    (notice,) = version_notes()
    assert "\n" not in notice
    assert notice.startswith(
        f"this project was made with vrtspike 0.0.1, and {vrtspike.__version__} is installed"
    )
    assert MADE_WITH.read_text() == version_record("0.0.1")
    MADE_WITH.write_text("{")
    with pytest.raises(RunError, match="damaged"):
        version_notes()
