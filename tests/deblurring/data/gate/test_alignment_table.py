from __future__ import annotations

import csv
import subprocess
import sys

from tests.deblurring.data.conftest import SEQUENCES
from tests.deblurring.data.prepared import checked
from vrtspike.deblurring.data.gate.accept import COLUMNS, alignment_rows
from vrtspike.deblurring.data.manifests import INGESTED
from vrtspike.deblurring.data.raw.spikes import read_spikes
from vrtspike.deblurring.data.raw.survey import survey
from vrtspike.io.files import write_json


def test_table_and_plot_of_a_data_set(pristine, repository, tmp_path):
    checked(pristine, SEQUENCES, tmp_path / "ingest")
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


def test_rows_are_in_the_order_of_time(tmp_path):
    paths = []
    for split, names in (("train", ("1", "2", "10")), ("test", ("7",))):
        frames = [
            {
                "name": name,
                "spikes": {
                    **{"t0": 88 * place, "t1": 88 * place + 88, "sharp": 40, "count": 5 + place},
                    **{"center": None, "correlation": None},
                },
            }
            for place, name in enumerate(names)
        ]
        contents = dict.fromkeys(INGESTED.keys) | {"schema": INGESTED.schema, "split": split}
        paths.append(tmp_path / f"{split}.json")
        write_json(paths[-1], contents | {"sequence": "s", "frames": frames[::-1]})
    rows = alignment_rows(paths)
    assert [(row["split"], row["frame"]) for row in rows] == [
        ("test", "7"),
        *(("train", name) for name in ("1", "2", "10")),
    ]
    assert [row["spike_count"] for row in rows] == [5, 5, 6, 7]
    assert {row["expected_center"] for row in rows} == {40}
