"""Which batches fit, and the learning rate that goes with them."""

from __future__ import annotations

import math

import pytest

from vrtspike.config.run_schema import RunSettings
from vrtspike.machine.batches import MOST_GROWTH, advise_batch


def settings(batch: int, micro_steps: int, rate: float = 1e-3) -> RunSettings:
    keys = {"BATCH_SIZE": batch, "GRADIENT_ACCUMULATION_STEPS": micro_steps, "OPTIM": {"LR": rate}}
    return RunSettings.model_validate({"TRAIN": keys})


def test_more_samples_a_step_have_a_larger_rate_by_the_root():
    found = advise_batch(settings(16, 1), fixed=1.0, sample=0.5, room=21.0)
    # 40 fit: twice 16 do, four times do not.
    assert (found.fits, found.batch, found.micro_steps) == (40, 32, 1)
    assert found.rate == pytest.approx(1e-3 * math.sqrt(2))
    assert found.text == (
        "40 fit: TRAIN.BATCH_SIZE=32 TRAIN.OPTIM.LR=0.00141 (0.001 x sqrt(32/16))"
    )


def test_no_step_grows_beyond_what_the_rule_is_for():
    found = advise_batch(settings(16, 1), fixed=0.0, sample=0.001, room=100.0)
    assert (found.fits, found.batch) == (100_000, 16 * MOST_GROWTH)
    assert found.rate == pytest.approx(1e-3 * math.sqrt(MOST_GROWTH))


def test_micro_steps_keep_the_samples_of_a_step_that_does_not_fit():
    found = advise_batch(settings(1, 6), fixed=4.0, sample=5.0, room=23.0)
    # Three fit, and three are a half of six.
    assert (found.fits, found.batch, found.micro_steps, found.rate) == (3, 3, 2, 1e-3)
    assert found.text == (
        "3 fit: TRAIN.BATCH_SIZE=3 TRAIN.GRADIENT_ACCUMULATION_STEPS=2, 6 samples a step as before"
    )
    few = advise_batch(settings(1, 6), fixed=4.0, sample=5.0, room=24.9)
    assert (few.fits, few.batch, few.micro_steps) == (4, 3, 2)


def test_micro_steps_become_one_where_all_fit():
    found = advise_batch(settings(1, 6), fixed=4.0, sample=5.0, room=40.0)
    assert (found.fits, found.batch, found.micro_steps, found.rate) == (7, 6, 1, 1e-3)


def test_nothing_fits():
    assert advise_batch(settings(1, 1), fixed=4.0, sample=5.0, room=8.0).fits == 0
