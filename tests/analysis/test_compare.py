from __future__ import annotations

import pandas as pd
import pytest

from vrtspike.analysis.compare import compare_runs
from vrtspike.errors import RunError
from vrtspike.files import write_json


def evaluation(folder, name: str, psnr: float):
    metrics = {
        "psnr": {"blurry": 25.0, "restored": psnr, "gain": psnr - 25},
        "ssim": {"blurry": 0.8, "restored": 0.9, "gain": 0.1},
        "lpips": {"blurry": 0.25, "restored": 0.125, "gain": 0.125},
    }
    write_json(
        folder / "summary.json", {"fingerprint": f"fingerprint of {name}", "metrics": metrics}
    )
    return folder


def test_runs_side_by_side(publish, tmp_path):
    folders = [
        publish("one", TRAIN={"GRADIENT_ACCUMULATION_STEPS": 1}),
        publish("two", gpu=True, TRAIN={"GRADIENT_ACCUMULATION_STEPS": 2, "COMPILE_MODEL": True}),
    ]
    evaluations = [evaluation(tmp_path / "evaluate", "two", 31.5)]
    table = compare_runs(folders, evaluations, tmp_path / "compare").set_index("preset")
    assert table["forward ms"].tolist() == [220, 110]
    assert table["step ms"].tolist() == [1000, 1000]
    assert table["waits for data"].tolist() == pytest.approx([0.3, 0.3])
    assert table["samples/s"].tolist() == pytest.approx([2, 2])
    assert table["memory MB"].tolist() == [1000, 1000]
    assert table.at["two", "GPU peak MB"] == 10_000
    assert pd.isna(table.at["one", "GPU peak MB"])
    assert pd.isna(table.at["one", "psnr restored"])
    assert table.at["two", "psnr gain"] == 6.5
    assert table.at["one", "parameters"] == 1234567
    stored = pd.read_csv(tmp_path / "compare" / "table.csv").set_index("preset")
    assert stored.at["two", "psnr restored"] == 31.5
    page = (tmp_path / "compare" / "table.html").read_text()
    assert "<td>+6.50</td>" in page
    assert "<td>+0.1250</td>" in page
    assert "psnr (dB), ssim, lpips. A gain above 0 is better, also of lpips" in page
    assert "<td>1,234,567</td>" in page
    assert "<td>30.0%</td>" in page
    for plot in ("loss.svg", "validation.svg"):
        text = (tmp_path / "compare" / plot).read_text()
        assert ">one<" in text
        assert ">two<" in text


def test_only_differing_keys_are_listed(publish, tmp_path):
    folders = [
        publish("one"),
        publish(
            "two", TRAIN={"BATCH_SIZE": 3, "EARLY_STOPPING": {"PATIENCE": 9}}, LOG={"ON_END": "key"}
        ),
    ]
    compare_runs(folders, [], tmp_path / "compare")
    differences = pd.read_csv(tmp_path / "compare" / "differences.csv", keep_default_na=False)
    assert differences.values.tolist() == [
        ["TRAIN.BATCH_SIZE", "1", "3"],
        ["TRAIN.EARLY_STOPPING", "None", "–"],
        ["LOG.ON_END", "None", "(not shown)"],
        ["TRAIN.EARLY_STOPPING.METRIC", "–", "main"],
        ["TRAIN.EARLY_STOPPING.PATIENCE", "–", "9"],
    ]


def test_a_single_run_is_a_table_of_one_row(publish, tmp_path):
    table = compare_runs([publish("one")], [], tmp_path / "compare")
    assert table["preset"].tolist() == ["one"]
    assert not [column for column in table if "restored" in column]
    assert pd.read_csv(tmp_path / "compare" / "differences.csv").empty


def test_two_runs_of_one_name_are_refused(publish, tmp_path):
    folder = publish("one")
    with pytest.raises(RunError, match="different names, found: one, one"):
        compare_runs([folder, folder], [], tmp_path / "compare")
