"""Seeds of a preset: values of the table, and runs that cannot be compared."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.analysis.evaluated_runs import change, evaluated, means, summary_of
from vrtspike.analysis.comparisons.seeds import write_seeds
from vrtspike.system.errors import RunError

PSNR = (30.0, 31.0, 29.0)


@pytest.fixture
def seeds(publish):
    """Folders of the runs of three seeds, their evaluations beside."""
    runs = []
    for number, psnr in enumerate(PSNR):
        runs.append(publish(f"one-seed-{number + 1}" if number else "one", SEED=5 + number))
        evaluated(runs[-1], {"psnr": means(20.0, psnr) | {"restored_error": 0.25 + number}})
    return runs


def test_each_seed_their_mean_and_their_standard_deviation(seeds, tmp_path):
    table = write_seeds(seeds, tmp_path / "out")
    assert table["seed"].tolist() == ["5", "6", "7", "mean of 3"]
    assert table["psnr restored"].tolist() == [30, 31, 29, 30]
    assert table["psnr gain"].tolist() == [10, 11, 9, 10]
    assert table["psnr standard error"].fillna(-1).tolist() == [0.25, 1.25, 2.25, -1]
    # Two squares of 1 and one of 0, divided by 3 - 1.
    assert table["psnr spread"].tolist()[-1] == pytest.approx(1)
    assert table["psnr spread"].isna().tolist() == [True, True, True, False]
    stored = pd.read_csv(tmp_path / "out/table.csv")
    pd.testing.assert_frame_equal(stored, table, check_dtype=False)
    page = (tmp_path / "out/table.html").read_text()
    assert page.count('<tr class="strong">') == 1
    change(summary_of(seeds[1]), warnings=["chosen on the test split"])
    notes = ["", "chosen on the test split", "", "chosen on the test split"]
    assert write_seeds(seeds, tmp_path / "out")["note"].tolist() == notes
    assert "standard deviation over seeds" in page
    assert "over sequences; means over seeds have none" in page
    # Two of three seeds have no mean.
    evaluated(seeds[1], {"psnr": means(20.0, None)})
    incomplete = write_seeds(seeds, tmp_path / "out")
    assert incomplete[["psnr restored", "psnr spread"]].iloc[-1].isna().all()


def test_other_settings_or_a_missing_evaluation_are_refused(seeds, tmp_path):
    change(seeds[1] / "settings.json", "TRAIN", MAX_STEPS=6)
    with pytest.raises(RunError, match=r"one-seed-2: TRAIN.MAX_STEPS is 6.* only in its seed"):
        write_seeds(seeds, tmp_path / "out")
    summary_of(seeds[2]).unlink()
    with pytest.raises(RunError, match=r"run one-seed-3 \(.*\): found no evaluation"):
        write_seeds(seeds, tmp_path / "out")
