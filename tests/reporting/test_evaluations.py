from __future__ import annotations

import json

import pandas as pd
import pytest

from tests.reporting.results import make_evaluation
from vrtspike.errors import RunError
from vrtspike.reporting.evaluations import Evaluation, finite, read_evaluation


def read(folder, fingerprint="print of a") -> Evaluation:
    found = read_evaluation(folder, fingerprint)
    assert isinstance(found, Evaluation), found
    return found


def change(folder, **keys):
    path = folder / "summary.json"
    summary = json.loads(path.read_text()) | keys
    path.write_text(json.dumps({k: v for k, v in summary.items() if v != "gone"}))


def test_figures_of_all_metrics_with_the_baseline(tmp_path):
    found = read(make_evaluation(tmp_path, "a"))
    psnr, lpips = found.metrics
    assert (psnr.title, psnr.unit, psnr.decimals, psnr.spikes) == ("PSNR", "dB", 2, 15.0)
    assert (psnr.blurry, psnr.restored, psnr.gain) == (18.5, 22.5, 4.0)
    assert psnr.text(22.5) == "22.50 dB"
    assert not lpips.larger_is_better
    assert found.leading == psnr
    assert found.spikes_note == "rate in a window"
    assert (found.dataset, found.frames, found.sequences) == ("gopro", 6, 2)


def test_tables_keep_names_as_texts_and_all_scales(tmp_path):
    found = read(make_evaluation(tmp_path, "a", ("007", "街道"), scales=(1.0, 0.5)))
    names = [row[found.sequence_columns.index("sequence")] for row in found.sequence_rows]
    assert names == ["007", "街道", "007", "街道"]
    assert [row[found.sequence_columns.index("scale")] for row in found.sequence_rows] == [
        1.0,
        1.0,
        0.5,
        0.5,
    ]
    # Single frames are those of the main scale.
    assert len(found.frame_rows) == 6
    assert found.frame_rows[0] == ("007", "000001", 16.0, 20.0)
    assert [e.label for e in found.examples][5:7] == ["街道", "007_x0.5"]


def test_an_evaluation_without_scales_is_of_whole_frames(tmp_path):
    folder = make_evaluation(tmp_path, "a")
    with_scale = read(folder)
    change(folder, scale="gone")
    for name in ("frames.csv", "sequences.csv"):
        table = pd.read_csv(folder / name, dtype={"sequence": str, "frame": str})
        table.drop(columns="scale").to_csv(folder / name, index=False)
    found = read(folder)
    assert found.scale == 1.0
    assert found.frame_rows == with_scale.frame_rows
    assert len(found.frame_rows) == 6


def test_a_summary_names_what_it_lacks(tmp_path):
    folder = make_evaluation(tmp_path, "a")
    change(folder, split="gone", metrics="gone")
    with pytest.raises(RunError, match=r"summary\.json: a summary without split, metrics; evalu"):
        read_evaluation(folder, "print of a")


def test_another_problem_has_no_spikes_to_speak_of(tmp_path):
    folder = make_evaluation(tmp_path, "a", task="sst", metrics={}, worst=[])
    change(folder, blur_dir="gone", spikes_alone="gone", spikes_alone_note="gone")
    assert read(folder).spikes_note == ""


def test_examples_name_their_files(tmp_path):
    folder = make_evaluation(tmp_path, "a", spikes=False)
    first = read(folder).examples[0]
    assert first.chosen == ("worst",)
    assert first.files == {
        what: folder / f"examples/GOPR1/000001/{what}.png"
        for what in ("blurry", "restored", "sharp")
    }
    assert read(folder).choice.startswith("of every sequence")


def test_an_evaluation_of_an_earlier_version_is_read(tmp_path):
    folder = make_evaluation(tmp_path, "a", spikes=False)
    change(folder, worst="gone", spikes_alone="gone", spikes_alone_note="gone")
    (folder / "examples/examples.json").unlink()
    found = read(folder)
    assert found.examples == ()
    assert found.spikes_note == "not measured by this evaluation"
    assert found.worst == ()


def test_frames_are_ranked_by_the_metric_that_the_evaluation_names(tmp_path):
    worst = [{"sequence": "GOPR2", "frame": "000003", "lpips": 0.9}]
    found = read(make_evaluation(tmp_path, "a", worst=worst))
    assert [metric.name for metric in found.metrics] == ["lpips", "psnr"]
    assert found.worst == (("GOPR2", "000003", 0.9),)
    assert found.frame_rows[0][2:] == (0.5, 0.25)


def test_a_metric_that_the_table_does_not_know_has_its_own_name(tmp_path):
    folder = make_evaluation(tmp_path, "a")
    figures = {"blurry": 2.0, "restored": 1.0, "gain": 1.0}
    definitions = {"flicker": "made up; lower is better"}
    change(folder, metrics={"flicker": figures}, definitions=definitions, worst=[])
    (flicker,) = read(folder).metrics
    assert (flicker.title, flicker.larger_is_better, flicker.restored) == ("flicker", False, 1.0)


def test_infinite_figures_leave_sentences_to_another_metric(tmp_path):
    folder = make_evaluation(tmp_path, "a")
    none = {"blurry": None, "restored": None, "gain": None, "reason": "equal"}
    some = {"blurry": 0.5, "restored": 0.2, "gain": 0.3}
    change(folder, metrics={"psnr": none, "lpips": some})
    leading = read(folder).leading
    assert leading is not None
    assert leading.name == "lpips"


def test_without_an_evaluation_the_reason_is_said(tmp_path):
    assert read_evaluation(tmp_path / "none", "x") == "not evaluated"
    folder = make_evaluation(tmp_path, "a")
    assert "belongs to another run (print of a, not new)" in str(read_evaluation(folder, "new"))


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("frames.csv", r"frames\.csv: no such file.*evaluate again"),
        (
            "examples/GOPR1/000001/sharp.png",
            "the sharp picture of frame 000001 of GOPR1 is missing",
        ),
    ],
)
def test_a_missing_file_is_named(tmp_path, file, words):
    folder = make_evaluation(tmp_path, "a")
    (folder / file).unlink()
    with pytest.raises(RunError, match=words):
        read_evaluation(folder, "print of a")


def test_a_damaged_summary_is_named(tmp_path):
    folder = make_evaluation(tmp_path, "a")
    (folder / "summary.json").write_text("{")
    with pytest.raises(RunError, match=r"summary\.json: damaged"):
        read_evaluation(folder, "print of a")


def test_of_many_frames_some_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr("vrtspike.reporting.evaluations.MOST_FRAMES", 2)
    found = read(make_evaluation(tmp_path, "a"))
    assert found.frame_step == 3
    assert [row[3] for row in found.frame_rows] == [20.0, 23.0]


def test_videos_by_label(tmp_path):
    folder = make_evaluation(tmp_path, "a")
    (folder / "videos").mkdir()
    (folder / "videos/GOPR2.mp4").write_bytes(b"v")
    assert read(folder).videos == {"GOPR2": folder / "videos/GOPR2.mp4"}


def test_finite():
    assert [finite(value) for value in (1, True, float("nan"), "1", 0.5)] == [
        1.0,
        None,
        None,
        None,
        0.5,
    ]
