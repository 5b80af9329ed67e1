"""Proposed batch sizes and learning rates."""

from __future__ import annotations

import pytest

from vrtspike.config.run_schema import RunSettings
from vrtspike.deblurring.advice.batch_sizes import advise_batch, micro_batch_keys
from vrtspike.deblurring.advice.hardware import USABLE, Machine, MachineGpus, speed_of_gpu
from vrtspike.deblurring.training_cost import ClipCost, TrainingCost

RATE = "TRAIN.BATCH_SIZE={} TRAIN.OPTIM.LR={}"
MICRO = "TRAIN.BATCH_SIZE={} TRAIN.GRADIENT_ACCUMULATION_STEPS={}"


@pytest.mark.parametrize(
    ("batch", "micro_steps", "sample", "usable", "text"),
    [
        # Twice 16 fit, four times do not; the largest growth is four times.
        (16, 1, 0.5, 24.0, f"40 fit: {RATE.format(32, 0.00141)} (0.001 x sqrt(32/16))"),
        (16, 1, 0.001, 5.0, f"1000 fit: {RATE.format(64, 0.002)} (0.001 x sqrt(64/16))"),
        # Four fit, but only three divide six.
        (1, 6, 5.0, 24.9, f"4 fit: {MICRO.format(3, 2)}, 6 samples a step"),
        (1, 6, 5.0, 40.0, f"7 fit: {MICRO.format(6, 1)}, 6 samples a step"),
        (
            1,
            6,
            0.5,
            40.0,
            f"72 fit: {MICRO.format(6, 1)}, 6 samples a step as before; or {MICRO.format(24, 1)} "
            "TRAIN.OPTIM.LR=",
        ),
        (16, 1, 0.5, 14.0, "20 fit: TRAIN.BATCH_SIZE=16 as before"),
        (1, 7, 5.0, 9.5, f"1 fit: {MICRO.format(1, 7)}, 7 samples a step"),
        (1, 1, 5.0, 8.0, ""),
    ],
)
def test_a_batch_that_fits_the_memory_is_advised_with_its_rate(
    batch, micro_steps, sample, usable, text
):
    train = {"BATCH_SIZE": batch, "GRADIENT_ACCUMULATION_STEPS": micro_steps, "OPTIM": {"LR": 1e-3}}
    settings = RunSettings.model_validate({"TRAIN": train})
    advice = advise_batch(settings, fixed=4.0, sample=sample, usable=usable)
    if text:
        assert advice.startswith(text)
    else:
        assert advice == ""


def test_the_gain_of_larger_micro_batches():
    """Of 10 hours, 4 are launches, of which half as many micro-steps need half."""
    train = {"BATCH_SIZE": 3, "GRADIENT_ACCUMULATION_STEPS": 4}
    settings = RunSettings.model_validate({"TRAIN": train})

    def hours(batch: int) -> float:
        return 6 + 12 / batch

    text = advise_batch(settings, fixed=4.0, sample=1.0, usable=11.0, hours=hours)
    assert (
        text
        == f"7 fit: {MICRO.format(6, 2)}, 12 samples a step as before: saves 2.00 of 10.00 hours"
    )
    # The preset's own micro-batch is the largest that divides the samples of a step.
    text = advise_batch(settings, fixed=4.0, sample=1.0, usable=7.0, hours=hours)
    assert text == f"3 fit: {MICRO.format(3, 4)}, 12 samples a step as before"


@pytest.mark.parametrize(("gpu", "batch"), [(MachineGpus("A", 1, 10 / USABLE), 6), (None, 3)])
def test_clips_need_twice_the_memory_on_a_cpu_and_the_state_does_not(gpu, batch):
    settings = RunSettings.model_validate({"TRAIN": {"GRADIENT_ACCUMULATION_STEPS": 6}})
    clip = ClipCost(4.0, 1.0, tflop=1, run_tflop=1, moved_tb=1, operations=1, parameters=1)
    cost = TrainingCost(1, 1, run_tflop=1, moved_tb=1, largest=clip, batch=1)
    machine = Machine(2, 10 / USABLE, gpu, speed_of_gpu(1.0, 100.0), "")
    keys = micro_batch_keys(settings, cost, machine)
    assert keys == MICRO.format(batch, 6 // batch)
