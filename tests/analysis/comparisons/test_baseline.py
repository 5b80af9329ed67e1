"""Baselines: tolerance and direction of each metric, other runs, damaged files."""

from __future__ import annotations

import json

import pytest

from tests.analysis.evaluated_runs import write_evaluation
from vrtspike.analysis.comparisons.baseline import below_baseline, write_baseline
from vrtspike.analysis.comparisons.compare import find_candidates
from vrtspike.io.files import read_json, write_json
from vrtspike.system.errors import RunError

MEANS = {"psnr restored": 31.5, "ssim restored": 0.9, "lpips restored": 0.125}
TEST_FRAMES = {"protocol": "own"} | dict.fromkeys(
    ("dataset", "split", "blur_dir", "sequences", "frames")
)


@pytest.fixture
def runs(publish, tmp_path):
    folders = [publish("one"), publish("two")]
    for name, psnr in (("one", 31.5), ("two", 30.0)):
        write_evaluation(tmp_path / "evaluate" / name, name, psnr)
    return find_candidates(folders)


def stored(path, changes):
    """A baseline of the run ``one`` with some metrics changed."""
    means = MEANS | changes
    runs = {"one": {"fingerprint": "x", "test_frames": TEST_FRAMES, "metrics": means}}
    path.write_text(json.dumps({"schema": 2, "runs": runs}))
    return path


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ({}, []),
        # Any improvement is allowed.
        ({"psnr restored": 20.0, "ssim restored": 0.5, "lpips restored": 0.9}, []),
        ({"psnr restored": 31.549, "ssim restored": 0.9005, "lpips restored": 0.1235}, []),
        (
            {"psnr restored": 31.7},
            ["psnr restored: 31.5, the baseline is 31.7: worse by 0.2, 0.05 is allowed"],
        ),
        (
            {"ssim restored": 0.902, "lpips restored": 0.122},
            ["ssim restored: 0.9, the", "lpips restored: 0.125, the baseline is 0.122: worse by"],
        ),
        ({"psnr_y restored": 33.0}, ["psnr_y restored: no longer measured, the baseline is 3"]),
        # A metric that was removed or renamed.
        ({"msssim restored": 0.99}, ["msssim restored: no longer measured, the baseline is 0.99"]),
    ],
)
def test_metrics_are_judged_in_their_own_direction(tmp_path, runs, changes, faults):
    lines = below_baseline(stored(tmp_path / "baseline.json", changes), runs[:1])
    assert len(lines) == len(faults)
    for line, expected in zip(lines, faults, strict=True):
        assert line.startswith(f"one: {expected}")


def test_a_baseline_keeps_other_runs(tmp_path, runs):
    path = tmp_path / "baseline.json"
    write_baseline(path, runs[:1])
    write_baseline(path, runs[1:])
    assert below_baseline(path, runs) == []
    kept = json.loads(path.read_text())["runs"]
    assert kept["one"]["metrics"]["psnr restored"] == 31.5
    assert kept["two"]["metrics"]["psnr restored"] == 30.0
    assert kept["two"]["fingerprint"] == "fingerprint of two"


def test_missing_runs_and_damaged_baselines_are_refused(tmp_path, runs, publish):
    path = stored(tmp_path / "baseline.json", {})
    with pytest.raises(RunError, match="no run two, found: one; add it with --write"):
        below_baseline(path, runs)
    with pytest.raises(RunError, match="write it with --write-baseline"):
        below_baseline(tmp_path / "nosuch.json", runs)
    for damaged in ({}, {"schema": 1, "runs": {"one": {}}}):
        write_json(path, damaged)
        with pytest.raises(RunError, match="no baseline of this version"):
            below_baseline(path, runs)
    path.write_text("{")
    with pytest.raises(RunError, match="no JSON"):
        write_baseline(path, runs)
    unmeasured = find_candidates([publish("three")])
    message = r"three: found no evaluation .* snakemake --cores all evaluate_three"
    with pytest.raises(RunError, match=message):
        write_baseline(tmp_path / "new.json", unmeasured)
    assert not (tmp_path / "new.json").exists()
    with pytest.raises(RunError, match="different names, found: one, one"):
        write_baseline(tmp_path / "new.json", [runs[0], runs[0]])


@pytest.mark.parametrize(
    ("written", "found", "is_reported"),
    [
        ({"dataset_digest": "a", "bins": 4}, {"dataset_digest": "b", "bins": 4}, True),
        ({"dataset_digest": "a", "bins": 4}, {"dataset_digest": "a", "bins": 4}, False),
        # Other bins make another data set of the same frames.
        ({"dataset_digest": "a", "bins": 4}, {"dataset_digest": "b", "bins": 8}, False),
        ({}, {"dataset_digest": "b"}, False),
    ],
)
def test_other_contents_of_the_data_set_are_reported(tmp_path, runs, written, found, is_reported):
    path = tmp_path / "baseline.json"
    summary = tmp_path / "evaluate/one/summary.json"
    write_json(summary, read_json(summary) | {"dataset": "gopro"} | written)
    folders = [tmp_path / "train/one"]
    write_baseline(path, find_candidates(folders))
    write_json(summary, read_json(summary) | found)
    faults = below_baseline(path, find_candidates(folders))
    expected = (
        "one: data set gopro has other contents than that of the baseline (dataset_digest: b, the "
        "baseline's a), so may the frames; its metrics cannot be compared"
    )
    assert faults == [expected] * is_reported
    # A baseline of before has no contents.
    contents = read_json(path)
    del contents["runs"]["one"]["contents"]
    write_json(path, contents)
    assert below_baseline(path, find_candidates(folders)) == []


def test_other_test_frames_are_reported(tmp_path, runs):
    path = tmp_path / "baseline.json"
    write_baseline(path, runs[:1])
    summary = tmp_path / "evaluate/one/summary.json"
    write_json(summary, read_json(summary) | {"split": "val"})
    (fault,) = below_baseline(path, find_candidates([tmp_path / "train/one"]))
    assert fault == (
        "one: evaluated on other frames than the baseline (split: val, the baseline's None); its "
        "metrics cannot be compared"
    )
