from __future__ import annotations

import math

import pytest

from vrtspike.analysis.benchmark import (
    Benchmark,
    Length,
    Turn,
    apply_changes,
    benchmark_text,
    differences,
    ratio_of_times,
    timing_settings,
    timing_settings_pair,
)
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import ConfigError
from vrtspike.training.optimizers import total_steps

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
        "             s a step middle half     memory",
        "as it is            2   2 to 2.15     121 MB",
        "changed             1      1 to 1     100 MB",
        "",
        "ratio of step times: 2.000 (95%: 2.000 to 2.000); changed is 2.00 x as fast",
    ]
    slower = benchmark(list(found.after), before)
    assert benchmark_text(slower).endswith(
        "0.500 (95%: 0.500 to 0.500); changed is slower: 2.00 x the time\n"
    )


def test_no_difference():
    found = benchmark([turn(1.0), turn(1.2)], [turn(1.1), turn(1.1)])
    last = benchmark_text(found).splitlines()[-1]
    assert last.startswith("ratio of step times: 0.996 (95%: 0.")
    assert last.endswith("; no difference seen; more --turns would narrow it")
    sure = benchmark([turn(1.0), turn(1.01), turn(1.0)], [turn(1.0)] * 3)
    assert benchmark_text(sure).endswith("; no difference seen\n")


def test_steps_of_other_sizes_are_judged_by_the_sample():
    # A step takes half as long again and holds twice the samples.
    before, after = [turn(1.0)] * 2, [turn(1.5, samples=2.0)] * 2
    found = benchmark(before, after)
    assert benchmark_text(found).splitlines()[-3:] == [
        "samples of a step: 1 as it is, 2 changed",
        "ratio of step times: 0.667 (95%: 0.667 to 0.667)",
        "ratio of times per sample: 1.333 (95%: 1.333 to 1.333); changed is 1.33 x as fast",
    ]
    # A step of twice the samples that takes twice as long is no difference.
    after = [turn(seconds, samples=2.0) for seconds in (2.0, 2.0, 2.02)]
    same = benchmark([turn(1.0), turn(1.01), turn(1.0)], after)
    assert same.step_ratio.is_significant
    assert benchmark_text(same).splitlines()[-1].endswith("; no difference seen")


def test_memory_of_a_gpu_is_called_so():
    on_gpu = benchmark([turn(1.0, gpu=True)] * 2, [turn(1.0, gpu=True)] * 2)
    assert " GPU memory\n" in benchmark_text(on_gpu)


def test_two_pairs_by_hand():
    # Medians 4 and 3 against 2 and 2: ratios 2 and 1.5, whose geometric mean is the root of 3.
    found = ratio_of_times([[4.0, 90.0, 1.0], [3.0]], [[2.0], [2.0, 2.0, 50.0]])
    assert found.value == pytest.approx(math.sqrt(3))
    # Of two values the standard error of the mean is half their distance; t of one degree of
    # freedom is that of Cauchy, tan(0.475 pi).
    half = math.tan(0.475 * math.pi) * math.log(2 / 1.5) / 2
    assert math.log(found.high / found.value) == pytest.approx(half)
    assert math.log(found.value / found.low) == pytest.approx(half)
    assert not found.is_significant


def test_one_pair_says_nothing():
    with pytest.raises(ValueError, match="found 1 pairs of turns, expected 2"):
        ratio_of_times([[1.0]], [[1.0]])
    with pytest.raises(ValueError, match="shorter"):
        ratio_of_times([[1.0], [1.0]], [[1.0]])


def settings(**train) -> Settings:
    return Settings.model_validate({"TRAIN": train})


PHASES = [{"CROP_SIZE": 64, "EPOCHS": 1}, {"CROP_SIZE": 128, "EPOCHS": 2}]


@pytest.mark.parametrize("train", [{"MAX_STEPS": 2, "EPOCHS": 1}, {"PROGRESSIVE": PHASES}])
def test_a_timed_training_does_not_end_by_itself_and_informs_nobody(train):
    log = {"WANDB": "mine", "MLFLOW": "mine", "ON_END": "mail", "ENABLE_TIMING_LOG": False}
    log |= {"TIMING_FILE": False, "TIMING_FILE_INTERVAL": 50}
    given = {"TRAIN": train | {"EARLY_STOPPING": {"PATIENCE": 1}}, "LOG": log}
    before = Settings.model_validate(given)
    found = timing_settings(before, 7)
    steps = total_steps(found, per_epoch=1, micro_batches=1)
    assert steps >= 10**6
    assert found.TRAIN.EARLY_STOPPING is None
    assert min(found.LOG.VAL_EVERY_STEPS, found.TRAIN.SAVE_EVERY_STEPS) >= steps
    assert [phase.CROP_SIZE for phase in found.TRAIN.PROGRESSIVE] in ([], [64])
    assert (found.LOG.WANDB, found.LOG.MLFLOW, found.LOG.ON_END) == (None, None, None)
    assert (found.LOG.ENABLE_TIMING_LOG, found.LOG.TIMING_FILE) == (True, True)
    assert (found.LOG.TIMING_FILE_INTERVAL, found.LOG.MEMORY_EVERY_STEPS) == (1, 7)
    # Settings that decide the speed stay.
    changed = differences(before, found).keys()
    assert {key.split(".")[0] for key in changed} == {"TRAIN", "LOG"}
    assert changed & {"TRAIN.BATCH_SIZE", "TRAIN.COMPILE_MODEL", "TRAIN.EMA"} == set()


def test_a_key_that_timing_sets_is_refused():
    given = settings()
    before, after = timing_settings_pair(given, apply_changes(given, ["TRAIN.BATCH_SIZE=2"]), 7)
    assert differences(before, after) == {"TRAIN.BATCH_SIZE": ("1", "2")}
    asked = apply_changes(given, ["TRAIN.BATCH_SIZE=2", "LOG.TIMING_FILE=false"])
    with pytest.raises(ConfigError, match=r"--against LOG.TIMING_FILE: the benchmark sets this"):
        timing_settings_pair(given, asked, 7)
    # Without phases the crop is another one.
    given = settings(PROGRESSIVE=PHASES)
    pair = timing_settings_pair(given, apply_changes(given, ["TRAIN.PROGRESSIVE=[]"]), 7)
    assert list(differences(*pair)) == ["TRAIN.PROGRESSIVE"]


def test_all_timed_steps_are_like_the_first_ones():
    given = settings(PROGRESSIVE=PHASES, FREEZE_FLOW_STEPS=20)
    train = timing_settings_pair(given, apply_changes(given, ["TRAIN.BATCH_SIZE=2"]), 7)[0].TRAIN
    assert [phase.CROP_SIZE for phase in train.PROGRESSIVE] == [64]
    assert train.FREEZE_FLOW_STEPS == train.PROGRESSIVE[0].EPOCHS == 1_000_000
