from __future__ import annotations

import json
import math

import pytest

from vrtspike.benchmarking.benchmark import Benchmark
from vrtspike.benchmarking.report import benchmark_json, benchmark_text
from vrtspike.benchmarking.turns import Length, Turn

SETTINGS = {"TRAIN.EMA": ("0.0", "0.9")}


def turn(*step_s: float, samples: float = 1.0, mb: float = 100.0, gpu: bool = False) -> Turn:
    return Turn(step_s, samples, mb, gpu, "1 x cpu (abacus)")


def benchmark(before: list[Turn], after: list[Turn], *notes: str) -> Benchmark:
    return Benchmark("tiny", SETTINGS, Length(2, 3, 1), before, after, notes)


def test_a_difference():
    before = [turn(2.0, 2.0, 4.0, mb=110.4), turn(1.98, 2.0, 2.2, mb=120.6)]
    found = benchmark(before, [turn(1.0, 1.0, 1.0), turn(1.0, 1.0, 1.0)], "crops of 64")
    assert benchmark_text(found).splitlines() == [
        "tiny on 1 x cpu (abacus)",
        "  TRAIN.EMA: 0.0 -> 0.9",
        "2 turns of each, 3 steps of a turn timed after 1",
        "crops of 64",
        "",
        "            s a step           middle half        memory",
        "as it is           2             2 to 2.15        121 MB",
        "changed            1                1 to 1        100 MB",
        "",
        "ratio of step times: 2.000 (95 %: 2.000 to 2.000); changed is 2.00 x as fast",
    ]
    slower = benchmark(list(found.after), before)
    assert benchmark_text(slower).endswith(
        "0.500 (95 %: 0.500 to 0.500); changed is slower: 2.00 x the time\n"
    )


def test_no_difference():
    found = benchmark([turn(1.0), turn(1.2)], [turn(1.1), turn(1.1)])
    last = benchmark_text(found).splitlines()[-1]
    assert last.startswith("ratio of step times: 0.996 (95 %: 0.")
    assert last.endswith("; no difference seen")
    assert benchmark_json(found)["difference_seen"] is False


def test_steps_of_other_sizes_are_judged_by_the_sample():
    # A step takes half as long again and holds twice the samples.
    before, after = [turn(1.0)] * 2, [turn(1.5, samples=2.0)] * 2
    found = benchmark(before, after)
    assert benchmark_text(found).splitlines()[-3:] == [
        "samples of a step: 1 as it is, 2 changed",
        "ratio of step times: 0.667 (95 %: 0.667 to 0.667)",
        "ratio of times per sample: 1.333 (95 %: 1.333 to 1.333); changed is 1.33 x as fast",
    ]
    # A step of twice the samples that takes twice as long is no difference.
    after = [turn(seconds, samples=2.0) for seconds in (2.0, 2.0, 2.02)]
    same = benchmark([turn(1.0), turn(1.01), turn(1.0)], after)
    assert same.step_ratio.is_seen
    assert not benchmark_json(same)["difference_seen"]


def test_memory_of_a_gpu_is_called_so():
    found = benchmark([turn(1.0, gpu=True)] * 2, [turn(1.0, gpu=True)] * 2)
    assert "    GPU memory\n" in benchmark_text(found)
    assert benchmark_json(found)["sides"]["as it is"]["memory_of"] == "gpu"


def test_json_holds_what_the_figures_are_computed_from():
    before, after = [turn(2.0, 3.0, 4.0), turn(3.0)], [turn(1.0, mb=7.5), turn(2.0)]
    found = json.loads(json.dumps(benchmark_json(benchmark(before, after, "a note"))))
    sides = found["sides"]
    assert sides["as it is"]["step_s"] == [[2.0, 3.0, 4.0], [3.0]]
    assert sides["as it is"]["seconds_per_step"] == {"low": 2.75, "median": 3.0, "high": 3.25}
    assert sides["changed"]["peak_memory_mb"] == 100.0
    assert sides["changed"]["memory_of"] == "processes"
    assert found["settings"] == {"TRAIN.EMA": ["0.0", "0.9"]}
    assert found["length"] == {"turns": 2, "steps": 3, "warm_up": 1}
    assert found["notes"] == ["a note"]
    # Medians 3 and 3 against 1 and 2.
    assert found["ratio_of_step_times"]["value"] == pytest.approx(math.sqrt(3 * 1.5))
    assert found["ratio_of_times_per_sample"] == found["ratio_of_step_times"]
