"""Evaluations on the report page: metrics, protocols, gaps, damaged summaries."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from tests.reporting.results import make_evaluation
from vrtspike.analysis.evaluation_files import write_summary
from vrtspike.analysis.intervals import interval_of_mean
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.reporting.evaluation_data import read_evaluation, read_examples
from vrtspike.runs.published import PublishedRun
from vrtspike.system.errors import RunError

GONE = "gone"
RUN = PublishedRun("a", DeblurringSettings(), "results/data/gopro/k32/dataset.json", "print of a")


def read(folder, **keys):
    """The evaluation, with other entries of its summary."""
    path = folder / "summary.json"
    summary = json.loads(path.read_text()) | keys
    path.write_text(json.dumps({name: v for name, v in summary.items() if v != GONE}))
    evaluation = read_evaluation(folder.parent.parent / "train/a", RUN)
    assert "reason" not in evaluation, evaluation
    return evaluation


def test_values_of_all_metrics_with_the_baseline(tmp_path):
    evaluation = read(make_evaluation(tmp_path, "a", spikes=True))
    psnr, lpips = evaluation["metrics"]
    expected = {"title": "PSNR", "unit": "dB", "decimals": 2, "gain": 4.0}
    assert {name: psnr[name] for name in expected} == expected
    assert psnr["extra"]["mean"] == 15.0
    assert (psnr["reference"], psnr["result"], psnr["definition"]) == (18.5, 22.5, "PSNR in dB")
    assert not lpips["larger_is_better"]
    assert evaluation["notes"] == ["Spikes alone: rate in a window."]
    assert evaluation["frames_text"] == (
        "6 frames of 2 sequences in gopro/test, blurry ones of blur"
    )
    assert (evaluation["dataset"], evaluation["frames"], evaluation["sequences"]) == ("gopro", 6, 2)
    assert evaluation["choice"].startswith("of every sequence")


def test_a_gain_has_an_interval_over_independent_sequences(tmp_path):
    folder = make_evaluation(tmp_path, "a", [f"GOPR{number}" for number in range(6)])
    table = pd.read_csv(folder / "sequences.csv")
    gains = [1.0, 2.0, 3.0, 4.0, 5.0, 9.0]
    psnr = table["psnr_blur"] + gains
    halved = table.assign(psnr=psnr, lpips=table["lpips_blur"] / 2, frames=[1] * 5 + [95])
    halved.to_csv(folder / "sequences.csv", index=False)
    assert [metric["gain_interval"] for metric in read(folder)["metrics"]] == [None, None]
    assert read(folder)["interval_method"] == ""
    evaluation = read(folder, mean_over="sequences")
    psnr, lpips = evaluation["metrics"]
    assert psnr["gain_interval"] == interval_of_mean(gains, [1] * 6)
    assert lpips["gain_interval"] == (0.25, 0.25)
    assert "Student's t" in evaluation["interval_method"]
    by_frames = read(folder, mean_over="frames")["metrics"][0]["gain_interval"]
    assert by_frames == interval_of_mean(gains, [1] * 5 + [95])
    halved.assign(psnr=None).to_csv(folder / "sequences.csv", index=False)
    assert read(folder)["metrics"][0]["gain_interval"] is None


def test_tables_keep_names_as_texts(tmp_path):
    folder = make_evaluation(tmp_path, "a", ("007", "街道"))
    evaluation = read(folder)
    rows = evaluation["sequence_rows"]
    assert [row["sequence"] for row in rows] == ["007", "街道"]
    assert len(evaluation["frame_rows"]) == 6
    assert evaluation["frame_rows"][0] == ["007", "000001", 16.0, 20.0, 0.5, 0.25]
    assert [e["label"] for e in evaluation["examples"]] == ["007"] * 3 + ["街道"] * 3


def test_values_of_another_protocol_are_called_by_it(tmp_path):
    """So that the page, which joins metrics by name, sets them beside no others."""
    folder = make_evaluation(tmp_path, "a")
    default = read(folder)
    for name in ("frames.csv", "sequences.csv"):
        table = pd.read_csv(folder / name, dtype={"sequence": str, "frame": str})
        both = pd.concat([table.assign(protocol="vrt"), table.assign(protocol="own", psnr=1.0)])
        both.to_csv(folder / name, index=False)
    evaluation = read(folder, protocol="vrt")
    psnr = evaluation["metrics"][0]
    assert [psnr[name] for name in ("name", "title")] == ["psnr (vrt)", "PSNR (vrt)"]
    assert (psnr["result"], psnr["extra"]["mean"]) == (22.5, 15.0)
    assert psnr["columns"] == default["metrics"][0]["columns"]
    for row, expected in zip(evaluation["sequence_rows"], default["sequence_rows"], strict=True):
        assert row == expected | {"protocol": "vrt"}
    for name in ("frame_rows", "worst"):
        assert evaluation[name] == default[name]
    for words, ending in ((default, "of blur"), (evaluation, "of blur, protocol vrt")):
        assert words["frames_text"].endswith(ending)
    assert default["test_frames"] | {"protocol": "vrt"} == evaluation["test_frames"]


def test_frames_are_drawn_by_the_metric_that_ranks_the_worst_also_where_it_has_gaps(tmp_path):
    path = make_evaluation(tmp_path, "a") / "frames.csv"
    empty = {"protocol": "own", "psnr": None, "psnr_blur": None}
    pd.read_csv(path, dtype=str).assign(**empty).to_csv(path, index=False)
    assert read(path.parent)["frame_rows"][0] == ["GOPR1", "000001", None, None, 0.5, 0.25]
    evaluation = read(path.parent, worst=[{"sequence": "GOPR1", "frame": "000001", "lpips": 0.25}])
    assert [metric["name"] for metric in evaluation["metrics"]] == ["lpips", "psnr"]
    assert evaluation["frame_rows"][0] == ["GOPR1", "000001", 0.5, 0.25, None, None]


def test_an_evaluation_of_an_earlier_version_or_another_task_is_read(tmp_path):
    folder = make_evaluation(tmp_path, "a", spikes=False)
    assert len(read(folder)["examples"]) == 6
    assert read_examples(folder / "examples")["examples"][0]["files"] == {
        what: f"GOPR1/000001/{what}.png" for what in ("blurry", "restored", "sharp")
    }
    (folder / "examples/examples.json").unlink()
    evaluation = read(folder, worst=GONE, spikes_alone=GONE, spikes_alone_note=GONE)
    assert (evaluation["examples"], evaluation["worst"]) == ([], [])
    assert evaluation["notes"] == []
    other = read(folder, task="sst", metrics={}, blur_dir=GONE, spikes_alone_note="none")
    assert (other["metrics"], other["notes"], other["choice"]) == ([], [], "")
    assert "blur_dir" not in other["test_frames"]
    # Earlier versions wrote the time of the whole evaluation, which is not the model's.
    assert evaluation["model_seconds_per_frame"] == 0.5
    timed = read(folder, model_seconds_per_frame=GONE, seconds_per_frame=2.0)
    assert timed["model_seconds_per_frame"] is None


def test_of_many_frames_some_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr("vrtspike.reporting.evaluation_data.MAX_FRAMES", 2)
    evaluation = read(make_evaluation(tmp_path, "a"))
    assert evaluation["frame_step"] == 3
    assert [row[3] for row in evaluation["frame_rows"]] == [20.0, 23.0]


def test_a_missing_evaluation_has_a_reason(tmp_path):
    reason = {"reason": "not evaluated: no summary.json of run print of a; evaluate again"}
    assert read_evaluation(tmp_path / "train/a", RUN) == reason
    make_evaluation(tmp_path, "a", fingerprint="another")
    assert read_evaluation(tmp_path / "train/a", RUN) == reason


def test_no_value_is_shown_of_a_summary_that_was_changed(tmp_path):
    path = make_evaluation(tmp_path, "a") / "summary.json"
    write_summary(path, json.loads(path.read_text()))
    path.write_text(path.read_text().replace("22.5", "39.99"))
    with pytest.raises(RunError, match=r"summary\.json: changed after .* evaluate again"):
        read_evaluation(tmp_path / "train/a", RUN)


@pytest.mark.parametrize(
    ("file", "contents", "words"),
    [
        ("frames.csv", None, r"frames\.csv: no such file.*evaluate again"),
        ("summary.json", "{", r"summary\.json: damaged"),
        ("examples/examples.json", '{"choice": ""}', r"examples\.json: examples missing; evaluate"),
        (
            *(
                "summary.json",
                '{"schema": 1, "fingerprint": "print of a", "dataset": "", "frames": 1}',
            ),
            r"summary\.json: keys split, sequences, metrics are missing; evalu",
        ),
    ],
)
def test_damage_is_named(tmp_path, file, contents, words):
    path = make_evaluation(tmp_path, "a") / file
    path.unlink()
    if contents is not None:
        path.write_text(contents)
    with pytest.raises(RunError, match=words):
        read_evaluation(tmp_path / "train/a", RUN)
