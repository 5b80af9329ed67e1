"""Every rule's limit, weight, text and proposal, from figures on both sides of the limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vrtspike.analysis import health_rules, speed_rules
from vrtspike.analysis.diagnosis import Rule, find
from vrtspike.analysis.figures import Health, Memory, RunFigures, Speed
from vrtspike.analysis.finding import Finding
from vrtspike.config import Settings


def settings(**sections: Any) -> Settings:
    return Settings.model_validate(sections)


def speed(**values: Any) -> RunFigures:
    return RunFigures(speed=Speed(**values))


def memory(**values: Any) -> RunFigures:
    return RunFigures(memory=Memory(**values))


def health(**values: Any) -> RunFigures:
    return RunFigures(health=Health(**values))


LIMITS: list[tuple[Rule, RunFigures, RunFigures]] = [
    # At the limit there is no finding, a little beyond it there is one.
    (
        speed_rules.data_wait,
        speed(data_ms=10.0, data_share=0.01),
        speed(data_ms=10.1, data_share=0.01),
    ),
    (
        speed_rules.data_wait,
        speed(data_ms=1.0, data_share=0.05),
        speed(data_ms=1.0, data_share=0.051),
    ),
    (speed_rules.idle_gpu, memory(gpu_utilisation=50.0), memory(gpu_utilisation=49.9)),
    (speed_rules.slow_forward, speed(forward_ms=1500.0), speed(forward_ms=1500.1)),
    (speed_rules.low_throughput, speed(samples_per_second=1.0), speed(samples_per_second=0.99)),
    (speed_rules.cold_cache, memory(cache_hit_rate=0.6), memory(cache_hit_rate=0.59)),
    (health_rules.full_memory, memory(system_percent=90.0), memory(system_percent=90.1)),
    (
        health_rules.exploding_gradient,
        health(gradient_norm_median=0.5, gradient_norm_max=50.0),
        health(gradient_norm_median=0.5, gradient_norm_max=50.1),
    ),
    (health_rules.not_finite, health(losses_not_finite=0), health(losses_not_finite=1)),
    (
        health_rules.gpu_headroom,
        memory(gpu_peak_mb=75.0, gpu_total_mb=100.0),
        memory(gpu_peak_mb=74.9, gpu_total_mb=100.0),
    ),
]


@pytest.mark.parametrize(("rule", "inside", "beyond"), LIMITS)
def test_limits(rule, inside, beyond):
    assert rule(inside, settings()) is None
    finding = rule(beyond, settings())
    assert finding is not None
    # And the rule is one of those that are asked.
    assert finding in find(beyond, settings())


def test_waiting_weighs_its_share_and_doubles_the_queue():
    few = settings(DATALOADER={"TRAIN_PREFETCH_FACTOR": 3, "TOTAL_WORKERS": "cpu*0.5"})
    finding = speed_rules.data_wait(speed(data_ms=20.0, data_share=0.2), few)
    assert finding.weight == 0.2
    assert finding.keys == {"DATALOADER.TRAIN_PREFETCH_FACTOR": 6}
    assert finding.figure.startswith("20.0 ms wait for each batch, 20.0% of a step's time")
    # Without a fifth of the time, 1 / 0.8 as many samples.
    assert "at most 25% more samples a second" in finding.effect


@pytest.mark.parametrize(("accumulation", "halved"), [(6, 3), (2, 1), (3, None), (1, None)])
def test_an_idle_gpu_halves_only_an_even_accumulation(accumulation, halved):
    train = {"GRADIENT_ACCUMULATION_STEPS": accumulation, "BATCH_SIZE": 3, "COMPILE_MODEL": True}
    finding = speed_rules.idle_gpu(memory(gpu_utilisation=30.0), settings(TRAIN=train))
    expected = {} if halved is None else {"TRAIN.GRADIENT_ACCUMULATION_STEPS": halved}
    assert finding.keys == {"TRAIN.BATCH_SIZE": 6, **expected}
    assert finding.weight == pytest.approx(0.7)
    # From 30 to 90 percent: three times as fast.
    assert "at most 200% more samples a second" in finding.effect


def test_a_slow_forward_pass_weighs_its_part_of_the_step():
    figures = speed(
        forward_ms=2000.0, step_parts={"forward": 0.4, "backward": 0.6},
        slowest_section=("vrt/stage8", 500.0),
    )  # fmt: skip
    finding = speed_rules.slow_forward(figures, settings())
    assert finding.weight == 0.4
    assert finding.figure == (
        "2000 ms forward (limit 1500 ms); most of it in vrt/stage8, 500 ms (25%)"
    )


@pytest.mark.parametrize(
    ("gpu", "train", "keys"),
    [
        (True, {"PRECISION": "32"}, {"PRECISION": "bf16-mixed", "COMPILE_MODEL": True}),
        (True, {"PRECISION": "mixed", "COMPILE_MODEL": True}, {}),
        (False, {"PRECISION": "32"}, {}),
    ],
)
def test_half_precision_and_compilation_are_for_gpus(gpu, train, keys):
    figures = replace(speed(forward_ms=2000.0), memory=Memory(gpu_total_mb=1000.0 if gpu else None))
    finding = speed_rules.slow_forward(figures, settings(TRAIN=train))
    assert finding.keys == {f"TRAIN.{name}": value for name, value in keys.items()}


def test_low_throughput_names_the_largest_part():
    figures = speed(samples_per_second=0.25, step_parts={"data": 0.5, "backward": 0.3})
    finding = speed_rules.low_throughput(figures, settings())
    assert (finding.weight, finding.keys) == (0.5, {})
    assert finding.figure == "0.25 samples a second (limit 1); data takes 50% of a step"
    assert "at most 100% more samples a second if data took no time" in finding.effect


@pytest.mark.parametrize(
    ("attention", "feed_forward", "proposed"),
    [
        (True, True, {"MODEL.VRT.USE_CHECKPOINT_FFN": False}),
        (False, True, {"MODEL.VRT.USE_CHECKPOINT_FFN": False}),
        (True, False, {"MODEL.VRT.USE_CHECKPOINT_ATTN": False}),
        (False, False, {}),
    ],
)
def test_recomputation_is_proposed_away_where_there_is_some(attention, feed_forward, proposed):
    vrt = {"USE_CHECKPOINT_ATTN": attention, "USE_CHECKPOINT_FFN": feed_forward}
    figures = speed(
        samples_per_second=0.25, step_parts={"data": 0.3, "backward": 0.5}, recomputation_share=0.2
    )
    finding = speed_rules.low_throughput(figures, settings(MODEL={"VRT": vrt}))
    assert finding.keys == proposed


@pytest.mark.parametrize(("percent", "larger"), [(None, True), (69.9, True), (70.0, False)])
def test_a_cold_cache_weighs_the_misses_share_of_the_wait(percent, larger):
    figures = replace(
        memory(cache_hit_rate=0.25, system_percent=percent), speed=Speed(data_share=0.4)
    )
    finding = speed_rules.cold_cache(figures, settings(DATA={"CACHE_SIZE_GB": 3.0}))
    assert finding.weight == pytest.approx(0.3)
    assert finding.keys == ({"DATA.CACHE_SIZE_GB": 6.0} if larger else {})
    assert finding.figure.startswith("25% of the chunks were found in the cache")


@pytest.mark.parametrize(
    ("workers", "proposed"),
    [(5, 2), (1, 1), ("auto", "cpu*0.4"), ("cpu*0.3", None)],
)
def test_full_memory_takes_half_of_the_cache_and_of_the_workers(workers, proposed):
    preset = settings(DATA={"CACHE_SIZE_GB": 3.0}, DATALOADER={"TOTAL_WORKERS": workers})
    finding = health_rules.full_memory(memory(system_percent=95.0), preset)
    expected = {} if proposed is None else {"DATALOADER.TOTAL_WORKERS": proposed}
    assert finding.keys == {"DATA.CACHE_SIZE_GB": 1.5, **expected}
    assert finding.weight == 0.95
    assert finding.effect == "about 1.5 GB less for the cache"


@pytest.mark.parametrize(
    ("batch", "peak", "activations", "proposed"),
    [
        # 0.9 of 1000 MB may be used, a sample takes 100 MB.
        (1, 300.0, 100.0, 7),
        (2, 300.0, 200.0, 8),
        (1, 700.0, 100.0, 3),
        # One MB short of a sample more.
        (1, 701.0, 200.0, None),
        (1, 701.0, 199.0, 2),
        (1, 300.0, None, None),
    ],
)
def test_a_tenth_of_the_gpu_stays_in_reserve(batch, peak, activations, proposed):
    figures = memory(gpu_peak_mb=peak, gpu_total_mb=1000.0, gpu_activations_mb=activations)
    finding = health_rules.gpu_headroom(figures, settings(TRAIN={"BATCH_SIZE": batch}))
    assert finding.keys == ({} if proposed is None else {"TRAIN.BATCH_SIZE": proposed})
    assert finding.weight == pytest.approx(0.9 - peak / 1000)
    assert finding.figure.endswith(f"{1 - peak / 1000:.0%} never used")


@pytest.mark.parametrize(
    ("train", "expected"),
    [
        (
            {"PRECISION": "mixed", "AMP_INIT_SCALE": 512.0},
            {"PRECISION": "bf16-mixed", "AMP_INIT_SCALE": 512.0, "MAX_GRAD_NORM": 0.5},
        ),
        ({"PRECISION": "32", "MAX_GRAD_NORM": 4.0}, {"MAX_GRAD_NORM": 2.0}),
        ({"PRECISION": "32", "MAX_GRAD_NORM": None}, {"MAX_GRAD_NORM": 1.0}),
    ],
)
def test_calmer_arithmetic(train, expected):
    preset = settings(TRAIN=train)
    keys = {f"TRAIN.{name}": value for name, value in expected.items()}
    lost = health(logged_steps=9, losses_not_finite=2, first_not_finite=7)
    finding = health_rules.not_finite(lost, preset)
    assert finding.keys == keys
    assert finding.figure == "2 of 9 logged losses are not finite, the first at step 7"
    steep = health(gradient_norm_median=0.5, gradient_norm_max=60.0)
    finding = health_rules.exploding_gradient(steep, preset)
    assert finding.keys == keys
    assert finding.figure.startswith("largest gradient norm 60, 120 times the median 0.5")
    # What is lost altogether weighs more than a single bad batch.
    both = RunFigures(health=replace(lost.health, gradient_norm_median=1, gradient_norm_max=200))
    found: list[Finding] = find(both, preset)
    assert [f.symptom for f in found] == ["loss not finite", "gradient norm exploding"]
