"""Predicted times of steps against those measured on an H100."""

from __future__ import annotations

import pytest

from vrtspike.deblurring.advice.hardware import H100, StepSpeed, speed_of_gpu
from vrtspike.io.files import read_json

MEASURED = "benchmarks/results/gpu_nvidia_h100_80gb_hbm3.json"
PRESETS = ("baseline", "compact", "light", "reproduce")


def measured_steps(results):
    """Seconds of a micro-step by preset."""
    steps = {}
    for part in ("training", "training, more"):
        for name, row in results["parts"][part]["measurements"].items():
            if "ms" in row:
                steps[name] = row["ms"] / 1e3
    return steps


@pytest.mark.parametrize("name", PRESETS)
def test_the_measured_steps_of_an_h100_are_predicted_within_a_tenth(repository, name):
    """From the counts of the measured commit: the operations of today's models are others."""
    results = read_json(repository / MEASURED)
    counted = results["counted"][name]
    measured = measured_steps(results)[name]
    predicted = H100.seconds(counted["operations"], counted["moved_tb"], counted["tflop"])
    assert predicted == pytest.approx(measured, rel=0.1)


def test_every_measured_step_was_counted(repository):
    results = read_json(repository / MEASURED)
    assert set(measured_steps(results)) == set(results["counted"]) == set(PRESETS)


def test_launches_traffic_and_arithmetic_add_up():
    speed = StepSpeed(operation_s=2e-5, bandwidth=1.5, tflops=400.0)
    assert speed.seconds(operations=1000, moved_tb=0.3, tflop=8.0) == pytest.approx(
        0.02 + 0.2 + 0.02
    )


def test_another_gpu_has_its_own_memory_and_products_and_equal_launches():
    half = speed_of_gpu(bandwidth=3.35 / 2, tflops=100.0)
    assert half == StepSpeed(H100.operation_s, H100.bandwidth / 2, 100.0)
