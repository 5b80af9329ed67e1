from __future__ import annotations

import csv
import subprocess
import sys

from tests.deblurring.data.conftest import SEQUENCES
from tests.deblurring.data.prepared import checked
from vrtspike.deblurring.data.gate.accept import COLUMNS
from vrtspike.deblurring.data.raw.spikes import read_spikes
from vrtspike.deblurring.data.raw.survey import survey
from vrtspike.io.files import read_json, write_json


def test_table_and_plot_of_a_data_set(pristine, repository, tmp_path):
    for path in checked(pristine, SEQUENCES, tmp_path / "ingest"):
        manifest = read_json(path)  # rows are in the order of time nevertheless
        write_json(path, {**manifest, "frames": manifest["frames"][::-1]})
    write_json(tmp_path / "survey.json", survey(pristine, ["train", "test"], "blur"))
    program = repository / "scripts" / "alignment_table.py"
    table, plot = tmp_path / "alignment.csv", tmp_path / "alignment.svg"
    command = [sys.executable, program, "--survey", tmp_path / "survey.json"]
    command += ["--ingested", tmp_path / "ingest", "--table", table, "--plot", plot]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(table.open()))
    assert tuple(rows[0]) == COLUMNS
    assert [row["sequence"] for row in rows[:3]] == ["GOPR0003_11_00"] * 3
    windows = [(int(row["t0"]), int(row["t1"])) for row in rows[:3]]
    assert windows == [(0, 88), (88, 176), (176, 264)]
    spikes = read_spikes(pristine / "test/GOPR0003_11_00/spike/000002.dat", 48, 64)
    assert int(rows[1]["spike_count"]) == spikes.sum()
    assert all(abs(float(row["center"]) - float(row["expected_center"])) < 4 for row in rows)
    assert all(float(row["correlation"]) > 0.8 for row in rows)
    svg = plot.read_text()
    assert all(name in svg for name in SEQUENCES)
