from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from vrtspike.analysis.evaluation_files import (
    EvaluationJob,
    read_summary,
    write_evaluation,
    write_summary,
)
from vrtspike.io.files import write_json
from vrtspike.runs.published import PublishedRun
from vrtspike.sst.settings import SSTSettings
from vrtspike.system.errors import RunError

CONTENTS = {"preset": "a", "metrics": {"psnr": {"restored": 29.18}}, "worst": []}


def test_a_summary_comes_back_as_it_was_written(tmp_path):
    write_summary(tmp_path / "summary.json", CONTENTS)
    assert read_summary(tmp_path / "summary.json") == CONTENTS


def test_a_summary_of_an_earlier_version_has_no_digest(tmp_path):
    write_json(tmp_path / "summary.json", CONTENTS)
    assert read_summary(tmp_path / "summary.json") == CONTENTS


def test_a_figure_that_was_changed_by_hand_is_noticed(tmp_path):
    path = tmp_path / "summary.json"
    write_summary(path, CONTENTS)
    path.write_text(path.read_text().replace("29.18", "39.99"))
    with pytest.raises(RunError, match=r"summary\.json: changed .* evaluate again"):
        read_summary(path)


@pytest.mark.parametrize("text", ["{", "[]"])
def test_what_is_no_summary_is_refused(text, tmp_path):
    (tmp_path / "summary.json").write_text(text)
    with pytest.raises(RunError, match=r"summary\.json: .*; evaluate again"):
        read_summary(tmp_path / "summary.json")


def test_a_gain_is_of_the_sequences_that_have_both_figures(tmp_path, monkeypatch):
    monkeypatch.setattr("vrtspike.sst.problem.dataset_digest", lambda manifest: "")
    run = PublishedRun("sea", SSTSettings(TASK="sst"), "sea/dataset.json", "0123")
    job = EvaluationJob(tmp_path, run, Path(run.dataset), tmp_path, "cpu")
    columns = ["sequence", "frame", "rmse_baseline", "rmse", "acc_baseline", "acc"]
    rows = [("a", "1", 0.5, 0.25, math.nan, 0.5), ("b", "1", math.nan, 0.75, math.nan, 0.25)]
    table = pd.DataFrame(rows, columns=columns)
    assert write_evaluation(job, "test", table, table)["metrics"] == {
        "rmse": {"baseline": 0.5, "forecast": 0.25, "gain": 0.25},
        # Where none has both, each stands for itself.
        "acc": {"baseline": None, "forecast": 0.375, "gain": None},
    }
