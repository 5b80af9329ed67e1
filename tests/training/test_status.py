"""What the first training process and the launcher tell each other."""

from __future__ import annotations

import pytest

from vrtspike.training.status import (
    STATUS_FILE,
    read_status,
    report_begin,
    report_status,
    status_file,
)


@pytest.mark.parametrize(
    ("status", "world", "expected"), [(0, 2, 0), (75, 2, 0), (2, 1, 0), (2, 2, 2)]
)
def test_status_goes_to_the_launcher(tmp_path, monkeypatch, status, world, expected):
    monkeypatch.setenv("WORLD_SIZE", str(world))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv(STATUS_FILE, raising=False)
    assert report_status(status) == status
    with status_file(tmp_path) as path:
        monkeypatch.setenv(STATUS_FILE, str(path))
        report_begin()
        assert report_status(status) == expected
        assert read_status(path) is None
        monkeypatch.setenv("RANK", "0")
        report_begin()
        assert read_status(path) == "begun"
        report_status(status)
        assert read_status(path) == status
    # A launcher that is gone is told nothing.
    assert report_status(status) == expected
    assert not list(tmp_path.iterdir())


def test_only_what_no_launcher_holds_is_removed(tmp_path):
    left = tmp_path / ".status-left"
    left.touch()
    with status_file(tmp_path) as one:
        assert not left.exists()
        with status_file(tmp_path) as other:
            assert one.exists()
            assert one != other
        assert list(tmp_path.iterdir()) == [one]
