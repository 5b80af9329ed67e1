from __future__ import annotations

import math

import pandas as pd

from vrtspike.deblurring.metrics.table import METRICS
from vrtspike.reporting.curves import curves_of, thin, training_curves


def test_neighbours_are_averaged_and_the_last_step_stands_for_them():
    found = thin(pd.Series([1, 2, 3, 4, 5]), pd.Series([1.0, 3.0, 5.0, math.inf, 7.0]), points=3)
    assert found.width == 2
    assert found.steps == (2, 4, 5)
    assert found.values == (2.0, 5.0, 7.0)


def test_few_points_stay_and_what_is_not_finite_is_none():
    found = thin(pd.Series([10, 20]), pd.Series([math.nan, 0.123456789]), points=100)
    assert (found.steps, found.values, found.width) == ((10, 20), (None, 0.12346), 1)


def test_curves_are_those_of_columns_with_numbers_in_the_order_of_steps():
    table = pd.DataFrame({"step": [2, 1], "a": [4.0, 3.0], "b": [math.nan, math.nan]})
    found = curves_of(table, {"a": "first", "b": "second", "c": "third"})
    assert list(found) == ["first"]
    assert (found["first"].steps, found["first"].values) == ((1, 2), (3.0, 4.0))


def test_training_and_validation_of_a_log(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text(
        "kind,step,loss,losses.charbonnier,losses.lpips,lr,psnr\n"
        "train,1,0.5,0.4,0.1,0.001,\n"
        "train,2,0.3,0.2,0.1,0.001,\n"
        "validation,2,,,,,31.5\n"
    )
    found = training_curves(path, METRICS)
    assert list(found["train"]) == ["loss", "loss: charbonnier", "loss: lpips", "learning rate"]
    assert found["train"]["loss"].values == (0.5, 0.3)
    assert list(found["validation"]) == ["PSNR, dB"]
    assert (found["validation"]["PSNR, dB"].steps) == (2,)


def test_a_single_loss_is_not_shown_twice(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("kind,step,loss,losses.charbonnier\ntrain,1,0.5,0.5\n")
    assert list(training_curves(path, METRICS)["train"]) == ["loss"]
