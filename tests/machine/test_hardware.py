from __future__ import annotations

from vrtspike.machine.hardware import existing


def test_the_nearest_folder_that_exists(tmp_path):
    assert existing(tmp_path) == tmp_path
    assert existing(tmp_path / "a" / "b") == tmp_path
    # The system refuses to look for it, as it does below a folder of another user.
    assert existing(tmp_path / ("x" * 300) / "b") == tmp_path
