"""Tables of an evaluation that the pipeline reads."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sst.conftest import SAMPLES
from tests.sst.evaluated_scores import score
from vrtspike.sst.results import metric_tables
from vrtspike.sst.scores import MODEL


def test_tables_of_the_pipeline_agree_with_the_scores(evaluation):
    frames, sequences = metric_tables(evaluation)
    assert list(sequences["sequence"]) == ["2 months ahead", "3 months ahead"]
    assert list(sequences["frames"]) == [SAMPLES] * 2
    best = evaluation.verdicts.loc[3, "baseline"]
    for column, system in (("rmse", MODEL), ("rmse_baseline", best), ("rmse_lim", "lim")):
        assert sequences[column][1] == pytest.approx(score(evaluation, "rmse_k", system, 3))
        ahead = frames[frames["sequence"] == "3 months ahead"]
        assert np.sqrt((ahead[column] ** 2).mean()) == pytest.approx(sequences[column][1])
    assert (ahead["frame"].iloc[0], ahead["frame"].iloc[-1]) == ("1987-06", "1988-12")
    assert sequences["acc"][0] == pytest.approx(score(evaluation, "acc", MODEL, 2))
