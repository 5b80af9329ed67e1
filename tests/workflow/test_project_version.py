"""Projects that were made with another version."""

from __future__ import annotations

import pytest

import vrtspike
from vrtspike.system.errors import RunError
from vrtspike.workflow.project_version import MADE_WITH, version_messages, version_record


def test_only_another_version_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert version_messages() == []  # a clone
    MADE_WITH.parent.mkdir()
    MADE_WITH.write_text(version_record(vrtspike.__version__))
    assert version_messages() == []
    MADE_WITH.write_text(version_record("0.0.1"))
    (message,) = version_messages()
    assert "\n" not in message
    assert message.startswith(
        f"this project was made with vrtspike 0.0.1, and {vrtspike.__version__} is installed"
    )
    assert MADE_WITH.read_text() == version_record("0.0.1")
    MADE_WITH.write_text("{")
    with pytest.raises(RunError, match="damaged"):
        version_messages()
