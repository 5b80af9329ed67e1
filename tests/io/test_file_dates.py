from __future__ import annotations

import os
import time

import pytest

from vrtspike.errors import RunError
from vrtspike.io.file_dates import correct_future_dates


def test_results_of_the_future_are_dated_today_and_given_files_are_named(tmp_path, capsys):
    results, given = tmp_path / "results", tmp_path / "weights.pth"
    results.mkdir()
    files = [results / name for name in ("a.json", "b.json", "old.json")]
    for file in (*files, given):
        file.write_text("{}")
    os.utime(files[2], (1000, 1000))
    plan = [*map(str, files), str(given), str(results / "missing.json")]
    correct_future_dates(plan, results)
    assert capsys.readouterr().err == ""
    for days, file in enumerate((*files[:2], given), 1):
        os.utime(file, (time.time() + 86400 * days,) * 2)
    with pytest.raises(RunError, match=rf"future.*\(1\):\n  - {given}\n.*touch -c {given}"):
        correct_future_dates(plan, results)
    assert "a.json and 1 more: had a date in the future" in capsys.readouterr().err
    first, second, old = (file.stat().st_mtime for file in files)
    assert first == second <= time.time() + 1
    assert old == 1000
