from __future__ import annotations

import io
import shutil

import pandas as pd
import pytest

from tests.analysis.test_compare import evaluation
from vrtspike.analysis.compare import find_candidates, write_comparison
from vrtspike.analysis.compare_text import comparison_text
from vrtspike.files import read_json, write_json


@pytest.fixture
def runs(publish, tmp_path):
    folders = [publish("one"), publish("second", TRAIN={"BATCH_SIZE": 3})]
    evaluation(tmp_path / "evaluate/second", "second", 31.5)
    # Of other weights than those of the run beside it.
    evaluation(tmp_path / "evaluate/one", "another run", 40.0)
    return find_candidates(folders)


def test_text(runs):
    lines = comparison_text(runs, "text").splitlines()
    assert lines[0].split() == ["figure", "one", "second"]
    cells = {line[:16].strip(): line[16:].split() for line in lines}
    assert cells["psnr restored"] == ["–", "31.50"]
    assert cells["psnr gain"] == ["–", "+6.50"]
    assert cells["waits for data"] == ["30.0%", "30.0%"]
    assert "GPU peak MB" not in cells  # no run has it
    assert ["TRAIN.BATCH_SIZE", "1", "3"] in [line.split() for line in lines]
    assert lines[-1].startswith("Means over the test sequences: psnr (dB)")
    # Every column ends at one place.
    assert len({len(line) for line in lines[:10]}) == 1


def test_csv_has_a_row_per_run_and_nothing_else(runs):
    table = pd.read_csv(io.StringIO(comparison_text(runs, "csv"))).set_index("preset")
    assert list(table.index) == ["one", "second"]
    assert table.at["second", "psnr restored"] == 31.5
    assert table.at["one", "samples/s"] == pytest.approx(2)


def test_markdown(runs):
    lines = comparison_text(runs, "markdown").splitlines()
    assert lines[:2] == ["| figure | one | second |", "| --- | ---: | ---: |"]
    assert "| psnr restored | – | 31.50 |" in lines
    assert "| key | one | second |" in lines
    assert "| TRAIN.BATCH_SIZE | 1 | 3 |" in lines


def test_two_runs_of_one_preset_are_called_by_their_folders(publish, tmp_path):
    folder = publish("one")
    runs = find_candidates([folder, folder])
    assert [run.run.name for run in runs] == [str(folder), str(folder)]
    assert [run.preset for run in runs] == ["one", "one"]
    assert "The settings of all runs are the same." in comparison_text(runs, "text")
    assert "settings" not in comparison_text(runs[:1], "text")


def test_each_copy_of_a_run_has_its_own_evaluation(publish, tmp_path):
    first = publish("one")
    shutil.copytree(tmp_path / "train", tmp_path / "copy/train")
    evaluation(tmp_path / "evaluate/one", "one", 31.5)
    evaluation(tmp_path / "copy/evaluate/one", "one", 29.5)
    runs = find_candidates([first, tmp_path / "copy/train/one"])
    table = pd.read_csv(io.StringIO(comparison_text(runs, "csv")))
    assert table["psnr restored"].tolist() == [31.5, 29.5]


@pytest.mark.parametrize("key", ["dataset", "split", "blur_dir", "scale", "sequences", "frames"])
def test_figures_of_different_frames_are_told(publish, tmp_path, key):
    folders = [publish("one"), publish("two"), publish("three")]
    for name, value in (("one", 1), ("two", 2)):
        summary = evaluation(tmp_path / "evaluate" / name, name, 31.5) / "summary.json"
        write_json(summary, read_json(summary) | {key: value})
    told = "The runs were evaluated on different frames"
    runs = find_candidates(folders)
    assert f"do not compare (one: {key} 1; two: {key} 2)." in comparison_text(runs, "markdown")
    write_comparison(runs, tmp_path / "compare")
    assert told in (tmp_path / "compare/table.html").read_text()
    assert told not in comparison_text([runs[0], runs[2]], "text")
