"""Comparison of runs: columns, names, differing keys, warnings and output formats."""

from __future__ import annotations

import io
import math
import re
import shutil

import pandas as pd
import pytest

from tests.analysis.evaluated_runs import write_evaluation
from vrtspike.analysis.comparisons.compare import (
    comparison_of_runs_text,
    find_candidates,
    write_comparison,
)
from vrtspike.io.files import read_json, write_json
from vrtspike.system.errors import RunError


def test_each_run_has_a_row_of_measurements(publish, tmp_path):
    folders = [
        publish("one", TRAIN={"GRADIENT_ACCUMULATION_STEPS": 1}),
        publish("two", gpu=True, TRAIN={"GRADIENT_ACCUMULATION_STEPS": 2, "COMPILE_MODEL": True}),
    ]
    write_evaluation(tmp_path / "evaluate/two", "two", 31.5)
    table = write_comparison(find_candidates(folders), tmp_path / "compare").set_index("preset")
    expected = {
        "forward ms": (220, 110), "step ms": (1000, 1000), "waits for data": (0.3, 0.3),
        "samples/s": (2, 2), "memory MB": (1000, 1000), "GPU peak MB": (None, 10_000),
        "psnr restored": (None, 31.5), "psnr gain": (None, 6.5), "parameters": (1234567, 1234567),
    }  # fmt: skip
    for column, values in expected.items():
        assert table[column].astype(float).tolist() == pytest.approx(
            [math.nan if value is None else value for value in values], nan_ok=True
        )
    stored = pd.read_csv(tmp_path / "compare" / "table.csv").set_index("preset")
    assert stored.at["two", "psnr restored"] == 31.5
    page = (tmp_path / "compare" / "table.html").read_text()
    for text in (
        *("<td>+6.50</td>", "<td>+0.1250</td>", "<td>1,234,567</td>", "<td>30.0%</td>"),
        "psnr (dB), ssim, lpips. A gain above 0 is better, also of lpips",
    ):
        assert text in page
    titles = re.findall(r"<th[^>]*>([^<]*)</th>", page.partition("</thead>")[0])
    kinds = ("blurry", "restored", "gain", "standard error")
    assert titles == ["preset", *(f"{name} {kind}" for name in ("psnr", "ssim") for kind in kinds)]


def test_only_differing_keys_are_listed(publish, tmp_path):
    folders = [
        publish("one"),
        publish(
            "two", TRAIN={"BATCH_SIZE": 3, "EARLY_STOPPING": {"PATIENCE": 9}}, LOG={"ON_END": "key"}
        ),
    ]
    write_comparison(find_candidates(folders), tmp_path / "compare")
    differences = pd.read_csv(tmp_path / "compare" / "differences.csv", keep_default_na=False)
    assert differences.values.tolist() == [
        ["TRAIN.BATCH_SIZE", "1", "3"],
        ["TRAIN.EARLY_STOPPING", "None", "–"],
        ["LOG.ON_END", "None", "(not shown)"],
        ["TRAIN.EARLY_STOPPING.METRIC", "–", "main"],
        ["TRAIN.EARLY_STOPPING.PATIENCE", "–", "9"],
    ]


def test_one_run_gives_one_row_and_a_run_given_twice_is_refused(publish, tmp_path):
    (one,) = find_candidates([publish("one")])
    table = write_comparison([one], tmp_path / "compare")
    assert table["preset"].tolist() == ["one"]
    assert not [column for column in table if "restored" in column]
    assert pd.read_csv(tmp_path / "compare" / "differences.csv").empty
    with pytest.raises(RunError, match="different names, found: one, one"):
        write_comparison([one, one], tmp_path / "compare")


def test_metrics_of_two_protocols_share_no_column(publish, tmp_path):
    names = ("one", "two", "both")
    folders = [publish(name) for name in names]
    paths = [
        write_evaluation(tmp_path / "evaluate" / name, name, 31.5) / "summary.json"
        for name in names
    ]
    vrt = {"protocol": "vrt", "metrics": {"psnr": {"restored": 34.0, "restored_error": 0.5}}}
    write_json(paths[1], read_json(paths[1]) | vrt)
    write_json(paths[2], read_json(paths[2]) | {"other_protocols": {"vrt": vrt}})
    table = write_comparison(find_candidates(folders), tmp_path / "compare")
    columns = ["psnr restored", "psnr (vrt) restored", "psnr (vrt) standard error"]
    assert table[columns].fillna(0).to_numpy().tolist() == [
        [31.5, 0, 0], [0, 34, 0.5], [31.5, 34, 0.5],
    ]  # fmt: skip
    page = (tmp_path / "compare" / "table.html").read_text()
    assert "two: protocol vrt" in page


@pytest.fixture
def runs(publish, tmp_path):
    folders = [publish("one"), publish("second", TRAIN={"BATCH_SIZE": 3})]
    write_evaluation(tmp_path / "evaluate/second", "second", 31.5)
    # An evaluation of other weights than those of the run.
    write_evaluation(tmp_path / "evaluate/one", "another run", 40.0)
    return find_candidates(folders)


def test_measurements_are_columns_of_text(runs):
    lines = comparison_of_runs_text(runs, "text").splitlines()
    assert lines[0].split() == ["measurement", "one", "second"]
    cells = {line[:16].strip(): line[16:].split() for line in lines}
    assert cells["psnr restored"] == ["–", "31.50"]
    assert cells["psnr gain"] == ["–", "+6.50"]
    assert cells["waits for data"] == ["30.0%", "30.0%"]
    assert "GPU peak MB" not in cells  # no run has it
    assert ["TRAIN.BATCH_SIZE", "1", "3"] in [line.split() for line in lines]
    assert lines[-1].startswith("Means over the test set: psnr (dB)")
    # The columns are aligned.
    assert len({len(line) for line in lines[:10]}) == 1


def test_csv_has_only_a_row_per_run_and_markdown_is_a_table(runs):
    table = pd.read_csv(io.StringIO(comparison_of_runs_text(runs, "csv"))).set_index("preset")
    assert list(table.index) == ["one", "second"]
    assert table.at["second", "psnr restored"] == 31.5
    assert table.at["one", "samples/s"] == pytest.approx(2)
    lines = comparison_of_runs_text(runs, "markdown").splitlines()
    assert lines[:2] == ["| measurement | one | second |", "| --- | ---: | ---: |"]
    assert "| psnr restored | – | 31.50 |" in lines
    assert "| key | one | second |" in lines
    assert "| TRAIN.BATCH_SIZE | 1 | 3 |" in lines


def test_two_runs_of_one_preset_are_named_after_their_folders(publish, tmp_path):
    folder = publish("one")
    runs = find_candidates([folder, folder])
    assert [run.name for run in runs] == [str(folder), str(folder)]
    assert [run.run.name for run in runs] == ["one", "one"]
    assert "The settings of all runs are the same." in comparison_of_runs_text(runs, "text")
    assert "settings" not in comparison_of_runs_text(runs[:1], "text")


def test_each_copy_of_a_run_has_its_own_evaluation(publish, tmp_path):
    first = publish("one")
    shutil.copytree(tmp_path / "train", tmp_path / "copy/train")
    write_evaluation(tmp_path / "evaluate/one", "one", 31.5)
    write_evaluation(tmp_path / "copy/evaluate/one", "one", 29.5)
    runs = find_candidates([first, tmp_path / "copy/train/one"])
    table = pd.read_csv(io.StringIO(comparison_of_runs_text(runs, "csv")))
    assert table["psnr restored"].tolist() == [31.5, 29.5]


def test_a_run_chosen_on_the_test_split_is_noted_in_table_and_page(publish, tmp_path):
    folders = [publish("one"), publish("two")]
    for name in ("one", "two"):
        path = write_evaluation(tmp_path / "evaluate" / name, name, 31.5) / "summary.json"
        warnings = ["chosen on the test split"] if name == "one" else []
        write_json(path, read_json(path) | {"warnings": warnings})
    runs = find_candidates(folders)
    table = write_comparison(runs, tmp_path / "compare")
    assert table["note"].tolist() == ["chosen on the test split", ""]
    page = (tmp_path / "compare/table.html").read_text()
    assert "one: chosen on the test split." in page
    assert "note" not in write_comparison(runs[1:], tmp_path / "compare")
    counted, not_counted = page.split("<h2>Not counted</h2>")
    assert '<td class="text">two</td>' in counted
    assert '<td class="text">one</td>' not in counted
    assert '<td class="text">one</td>' in not_counted
    markdown = comparison_of_runs_text(runs, "markdown")
    assert markdown.startswith("| measurement | two | one (not counted) |\n")
    assert markdown.endswith("one: chosen on the test split.\n")
    assert not [line for line in markdown.splitlines() if line.startswith("| note")]


@pytest.mark.parametrize(
    "key", ["dataset", "split", "blur_dir", "sequences", "frames", "dataset_digest"]
)
def test_metrics_of_different_frames_give_a_warning(publish, tmp_path, key):
    folders = [publish("one"), publish("two"), publish("three")]
    for name, value, bins in (("one", 1, 8), ("two", 2, 8), ("three", 1, 4)):
        path = write_evaluation(tmp_path / "evaluate" / name, name, 31.5) / "summary.json"
        write_json(path, read_json(path) | {key: value, "bins": bins})
    runs = find_candidates(folders)
    warning = f"cannot be compared (one: {key} 1; two: {key} 2"
    if key == "dataset_digest":  # other bins make another data set of the same frames
        warning = "Data sets of one name differ in contents (dataset_digest): so may the frames."
        assert warning not in comparison_of_runs_text(runs[1:], "text")
    assert warning in comparison_of_runs_text(runs, "markdown")
    assert "different frames" not in comparison_of_runs_text([runs[0], runs[2]], "text")
    write_comparison(runs, tmp_path / "compare")
    assert warning in (tmp_path / "compare/table.html").read_text()
