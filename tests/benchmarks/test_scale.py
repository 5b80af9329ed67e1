"""The benchmark of many sequences runs its programs."""

from __future__ import annotations

import scale


def test_every_program_is_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["scale.py", "--sequences", "3", "--output", str(tmp_path)])
    scale.main()
    rows = dict(line.split(",")[:2] for line in (tmp_path / "scale.csv").read_text().splitlines())
    assert rows["sequences"] == "3"
    for program in ("accept", "alignment_table", "dataset_statistics"):
        assert float(rows[f"{program}: CPU time"]) > 0
        assert float(rows[f"{program}: peak memory"]) > 10
