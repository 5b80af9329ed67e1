from __future__ import annotations

import math

import pandas as pd
import pytest

from vrtspike.analysis.benchmark import NAMES, comparison_text, ratio_of_times, timed_settings
from vrtspike.config.documents import parse_overrides
from vrtspike.config.loading import override_settings
from vrtspike.io.flatten import unequal
from vrtspike.settings import Settings
from vrtspike.training.optimizers import total_steps


def turn(*step_s: float, samples: float = 1.0, mb: float = 100.0) -> pd.DataFrame:
    return pd.DataFrame({"s": step_s, "samples": samples, "memory": mb, "on_gpu": False})


def joined(before: list[pd.DataFrame], after: list[pd.DataFrame]) -> pd.DataFrame:
    turns = [
        each.assign(setting=name, turn=number)
        for name, of in zip(NAMES, (before, after), strict=True)
        for number, each in enumerate(of)
    ]
    return pd.concat(turns)


FAST = [turn(1.0, 1.0, 1.0), turn(1.0, 1.0, 1.0)]
SLOW = [turn(2.0, 2.0, 4.0, mb=110.4), turn(1.98, 2.0, 2.2, mb=120.6)]
QUIET = [turn(1.0), turn(1.01), turn(1.0)]


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (
            SLOW,
            FAST,
            [
                "             s a step middle half     memory",
                "as it is            2   2 to 2.15     121 MB",
                "changed             1      1 to 1     100 MB",
                "",
                "ratio of step times: 2.000 (95%: 2.000 to 2.000); changed is 2.00 x as fast",
            ],
        ),
        (
            FAST,
            SLOW,
            ["(95%: 0.500 to 0.500); changed is slower: 2.00 x the time"],
        ),
        (QUIET, [turn(1.0)] * 3, ["; no difference seen"]),
        ([turn(1.0), turn(1.2)], [turn(1.1)] * 2, ["; more --turns would narrow it"]),
        # A step takes half as long again and holds twice the samples.
        (
            [turn(1.0)] * 2,
            [turn(1.5, samples=2.0)] * 2,
            [
                "samples of a step: 1 as it is, 2 changed",
                "ratio of step times: 0.667 (95%: 0.667 to 0.667)",
                "ratio of times per sample: 1.333 (95%: 1.333 to 1.333); changed is 1.33 x as fast",
            ],
        ),
        # A step of twice the samples that takes twice as long is no difference.
        (QUIET, [turn(s, samples=2.0) for s in (2.0, 2.0, 2.02)], ["; no difference seen"]),
    ],
)
def test_times_are_compared_by_the_sample(before, after, lines):
    assert comparison_text(joined(before, after)).endswith("\n".join(lines) + "\n")


def test_two_pairs_by_hand():
    # Medians 4 and 3 against 2 and 2: ratios 2 and 1.5, whose geometric mean is the root of 3.
    before, after = [turn(4.0, 90.0, 1.0), turn(3.0)], [turn(2.0), turn(2.0, 2.0, 50.0)]
    value, low, high = ratio_of_times(joined(before, after))
    assert value == pytest.approx(math.sqrt(3))
    # Of two values the standard error of the mean is half their distance; t of one degree of
    # freedom is that of Cauchy, tan(0.475 pi).
    half = math.tan(0.475 * math.pi) * math.log(2 / 1.5) / 2
    assert math.log(high / value) == pytest.approx(half)
    assert math.log(value / low) == pytest.approx(half)


PHASES = [{"CROP_SIZE": 64, "EPOCHS": 1}, {"CROP_SIZE": 128, "EPOCHS": 2}]


@pytest.mark.parametrize(
    ("train", "change"),
    [
        ({"MAX_STEPS": 2, "EPOCHS": 1}, "TRAIN.BATCH_SIZE=2"),
        ({"PROGRESSIVE": PHASES, "FREEZE_FLOW_STEPS": 20}, "TRAIN.BATCH_SIZE=2"),
        # Without phases the crop is another one.
        ({"PROGRESSIVE": PHASES}, "TRAIN.PROGRESSIVE=[]"),
    ],
)
def test_a_timed_training_has_equal_steps_does_not_end_and_informs_nobody(train, change):
    log = {"WANDB": "mine", "MLFLOW": "mine", "ON_END": "mail", "ENABLE_TIMING_LOG": False}
    log |= {"TIMING_FILE": False, "TIMING_FILE_INTERVAL": 50}
    given = {"TRAIN": train | {"EARLY_STOPPING": {"PATIENCE": 1}}, "LOG": log}
    before = Settings.model_validate(given)
    after = override_settings(before, parse_overrides([change], "test"), "test")
    found, changed = timed_settings(before, after, 7)
    dumped = [settings.model_dump(mode="json") for settings in (before, found, changed)]
    assert list(unequal(*dumped[1:])) == [change.partition("=")[0]]
    steps = total_steps(found, per_epoch=1, micro_batches=1)
    assert steps >= 10**6
    assert found.TRAIN.EARLY_STOPPING is None
    assert min(found.LOG.VAL_EVERY_STEPS, found.TRAIN.SAVE_EVERY_STEPS) >= steps
    assert [phase.CROP_SIZE for phase in found.TRAIN.PROGRESSIVE] in ([], [64])
    assert found.TRAIN.FREEZE_FLOW_STEPS == (10**6 if "FREEZE_FLOW_STEPS" in train else None)
    assert (found.LOG.WANDB, found.LOG.MLFLOW, found.LOG.ON_END) == (None, None, None)
    assert (found.LOG.ENABLE_TIMING_LOG, found.LOG.TIMING_FILE) == (True, True)
    assert (found.LOG.TIMING_FILE_INTERVAL, found.LOG.MEMORY_EVERY_STEPS) == (1, 7)
    # Settings that decide the speed stay.
    set_keys = unequal(*dumped[:2]).keys()
    assert {key.split(".")[0] for key in set_keys} == {"TRAIN", "LOG"}
    assert set_keys & {"TRAIN.BATCH_SIZE", "TRAIN.COMPILE_MODEL", "TRAIN.EMA"} == set()
