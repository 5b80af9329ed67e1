"""Every symptom by its logs: a good run has none, a run with one thing wrong has that one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from vrtspike.analysis.diagnosis import RULES, find
from vrtspike.analysis.figures import RunFigures, run_figures
from vrtspike.deblurring.metrics.table import METRICS
from vrtspike.deblurring.settings import Settings
from vrtspike.runs.logs import read_run_logs

Record = dict[str, Any]
Change = Callable[[Record], Record]

STEPS = 60
VALIDATED = range(10, STEPS + 1, 10)

GOOD_MS = {
    "step/data": 4.0, "step/forward/vrt/stage8": 100.0, "step/forward/vrt/fusion1": 20.0,
    "step/forward": 200.0, "step/loss": 5.0, "step/backward": 380.0, "step/sync": 10.0,
    "step/optimizer": 5.0, "step": 605.0,
}  # fmt: skip


def timing(step: int) -> Record:
    ms = dict(GOOD_MS)
    if step in VALIDATED:
        ms |= {"validation": 100.0, "checkpoint": 20.0}
    return {"kind": "step", "step": step, "time": 0.6 * step, "samples": 2, "frames": 6, "ms": ms}


def training(step: int) -> Record:
    return {
        "kind": "train", "step": step, "loss": 1.0 / step, "grad_norm": 2.0 - step / STEPS,
        "skipped": False,
    }  # fmt: skip


def validation(step: int) -> Record:
    return {"kind": "validation", "step": step, "psnr": 25.0 + step / STEPS, "ssim": 0.9}


def memory(step: int) -> Record:
    return {
        "kind": "memory", "step": step, "time": 0.6 * step, "process_mb": 4000 + step,
        "children_mb": 1000, "system_total_mb": 64_000, "system_percent": 40.0,
        "gpu": {"utilisation_percent": 93, "peak_mb": 38_000, "total_mb": 48_000},
        "cache": {"hit_rate": 0.9, "full": True, "items": 500},
    }  # fmt: skip


def run(
    folder: Path,
    *,
    time: Change = dict,
    train: Change = dict,
    validate: Change = dict,
    occupy: Change = dict,
    optimizer_mb: float = 1000.0,
) -> RunFigures:
    """The figures of a run whose log lines were changed."""

    def write(name: str, records: Iterable[Record]) -> None:
        lines = [json.dumps(record) for record in records]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")

    steps = range(1, STEPS + 1)
    write("timing", (time(timing(step)) for step in steps))
    validations = [validate(validation(step)) for step in VALIDATED]
    write("metrics", [*(train(training(step)) for step in steps), *validations])
    categories = {
        "kind": "gpu_categories", "optimizer_mb": optimizer_mb, "activations_mb": 30_000.0,
        "peak_mb": 38_000.0,
    }  # fmt: skip
    write("memory", [*(occupy(memory(step)) for step in range(0, STEPS + 1, 4)), categories])
    return run_figures(read_run_logs(folder), micro_batches=1, metrics=METRICS)


def ms(**sections: float) -> Change:
    """Other times: the step and what holds a part grow by what the part does."""

    def change(record: Record) -> Record:
        times = record["ms"]
        for name, value in sections.items():
            path = name.replace("__", "/")
            if path not in times:
                continue
            more = value - times[path]
            while path:
                if path in times:
                    times[path] += more
                path = path.rpartition("/")[0]
        return record

    return change


def between(first: int, last: int, **values: Any) -> Change:
    """Other values from one step to another."""

    def change(record: Record) -> Record:
        return record | values if first <= record["step"] <= last else record

    return change


def always(**values: Any) -> Change:
    return between(0, STEPS, **values)


def gpu(**values: Any) -> Change:
    return lambda record: record | {"gpu": record["gpu"] | values}


def cache(**values: Any) -> Change:
    return lambda record: record | {"cache": record["cache"] | values}


def stalling(record: Record) -> Record:
    return ms(step__data=9000.0)(record) if record["step"] in (20, 40) else record


def slow(record: Record) -> Record:
    return ms(step__forward__vrt__stage8=1500.0)(record) | {"samples": 8}


def growing(record: Record) -> Record:
    return record | {"process_mb": 4000 + 50 * record["step"]}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # By symptom: what the logs hold instead, and settings.
    "loss not finite": ({"train": between(30, 31, loss=None)}, {}),
    "gradient norm exploding": ({"train": between(30, 30, grad_norm=200.0)}, {}),
    "gradient norm vanishing": ({"train": between(50, 60, grad_norm=1e-5)}, {}),
    "skipped steps": ({"train": between(1, 4, skipped=True)}, {}),
    "loss does not fall": ({"train": always(loss=0.5)}, {}),
    "validation no longer improves": ({"validate": between(10, 10, psnr=40.0)}, {}),
    "system memory nearly full": ({"occupy": between(20, 20, system_percent=93.0)}, {}),
    "memory grows": ({"occupy": growing}, {}),
    "cache of most of the memory": ({}, {"DATA": {"CACHE_SIZE_GB": 40.0}}),
    "waiting for data": ({"time": ms(step__data=100.0)}, {}),
    "stalls of the data loader": ({"time": stalling}, {}),
    "cache misses": ({"time": ms(step__data=9.0), "occupy": cache(hit_rate=0.2)}, {}),
    "GPU idle": ({"occupy": gpu(utilisation_percent=30)}, {}),
    "slow forward pass": ({"time": slow}, {}),
    "low throughput": ({"time": lambda record: record | {"samples": 0.5}}, {}),
    "slow loss": ({"time": ms(step__loss=100.0)}, {"LOSS": {"LPIPS": {"WEIGHT": 0.1}}}),
    "slow exchange of gradients": ({"time": ms(step__sync=100.0)}, {}),
    "much time in validation": ({"time": ms(validation=3000.0)}, {}),
    "much time in checkpoints": ({"time": ms(checkpoint=600.0)}, {}),
    "float32 on a GPU": ({}, {"TRAIN": {"PRECISION": "32"}}),
    "deterministic algorithms": ({}, {"DETERMINISTIC": True}),
    "GPU memory nearly full": ({"occupy": gpu(peak_mb=47_000)}, {}),
    "optimiser fills the GPU": ({"optimizer_mb": 9000.0}, {}),
    "unused GPU memory": ({"occupy": gpu(peak_mb=20_000)}, {}),
}


def test_a_good_run_has_no_symptom(tmp_path):
    assert find(run(tmp_path), Settings()) == []


def test_every_rule_has_a_run_that_has_its_symptom():
    assert set(CASES) == {rule.symptom for rule in RULES}


@pytest.mark.parametrize("symptom", CASES)
def test_a_run_with_one_thing_wrong_is_told_that(symptom, tmp_path):
    logs, settings = CASES[symptom]
    found = find(run(tmp_path, **logs), Settings.model_validate(settings))
    assert [finding.symptom for finding in found] == [symptom]
    (finding,) = found
    assert any(character.isdigit() for character in finding.figure) or "true" in finding.figure
    assert finding.change
    assert finding.effect


def test_a_long_wait_in_long_steps_is_nothing(tmp_path):
    """0.8 % of the time, and over 10 ms: nothing is to be gained."""
    long = ms(step__forward__vrt__stage8=1300.0, step__data=15.0)
    assert find(run(tmp_path, time=long), Settings()) == []


def test_misses_of_a_cache_that_is_being_filled_are_nothing(tmp_path):
    logs = {"time": ms(step__data=9.0), "occupy": cache(hit_rate=0.2, full=False)}
    assert find(run(tmp_path, **logs), Settings()) == []


def test_growth_while_a_cache_is_filled_is_nothing(tmp_path):
    def filling(record: Record) -> Record:
        return cache(items=10 * record["step"])(growing(record))

    assert find(run(tmp_path, occupy=filling), Settings()) == []


def test_a_peak_of_one_line_is_no_growth(tmp_path):
    peak = between(STEPS, STEPS, children_mb=9000)
    assert find(run(tmp_path, occupy=peak), Settings()) == []


def test_a_gpu_that_was_busy_once_is_idle_all_the_same(tmp_path):
    def mostly_idle(record: Record) -> Record:
        return record if record["step"] == 20 else gpu(utilisation_percent=20)(record)

    figures = run(tmp_path, occupy=mostly_idle)
    assert figures.memory.gpu_utilisation == 20


def test_figures_of_trends(tmp_path):
    figures = run(tmp_path, occupy=growing, time=stalling)
    health, memory_figures, speed = figures.health, figures.memory, figures.speed
    # The tenth is six steps: medians of 1 / 1 ... 1 / 6 and of 1 / 55 ... 1 / 60.
    assert health.first_losses == pytest.approx((1 / 3 + 1 / 4) / 2)
    assert health.last_losses == pytest.approx((1 / 57 + 1 / 58) / 2)
    assert (health.best_step, health.later_validations) == (60, 0)
    # Lines at 0, 4 ... 60; from the ninth, at 32, on: 50 MB a step, the least of three lines each.
    assert memory_figures.growth_mb == 50 * (52 - 32)
    assert memory_figures.growth_steps == 60 - 32
    assert memory_figures.gpu_optimizer_mb == 1000
    assert memory_figures.cache_is_full
    assert (speed.stalls, speed.longest_wait_ms) == (2, 9000)
    whole = 59 * 605 + 2 * 8996
    assert speed.stalled_share == pytest.approx(2 * 9000 / whole)
    aside = 6 * 100 + 6 * 20
    assert speed.validation_share == pytest.approx(600 / (whole + aside))
    assert speed.checkpoint_share == pytest.approx(120 / (whole + aside))


def test_a_wait_of_a_few_steps_time_is_no_stall(tmp_path):
    def lasting(record: Record) -> Record:
        return ms(step__data=5500.0)(record) if record["step"] == 20 else record

    speed = run(tmp_path, time=lasting).speed
    assert (speed.stalls, speed.stalled_share, speed.longest_wait_ms) == (0, 0, 5500)


def test_a_short_run_has_no_trends(publish):
    figures = run_figures(read_run_logs(publish()), 1, metrics=METRICS)
    assert (figures.health.first_losses, figures.memory.growth_mb) == (None, None)
    assert (figures.speed.stalls, figures.speed.validation_share) == (0, None)
