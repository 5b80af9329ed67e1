from __future__ import annotations

import pytest

from vrtspike.benchmarking.short_runs import (
    against,
    differences,
    first_steps,
    timed,
    timed_pair,
)
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import ConfigError
from vrtspike.training.schedules import total_steps


def settings(**train) -> Settings:
    return Settings.model_validate({"TRAIN": train})


def test_only_what_is_asked_for_changes():
    changed = against(settings(EMA=0.5), ["TRAIN.BATCH_SIZE=3", "MODEL.USE_SPIKE=false"])
    assert differences(settings(EMA=0.5), changed) == {
        "MODEL.USE_SPIKE": ("true", "false"),
        "TRAIN.BATCH_SIZE": ("1", "3"),
    }


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (
            ["DATALOADER.NUM_WORKERS=0"],
            "--against DATALOADER.NUM_WORKERS: unknown key DATALOADER.NUM_WORKERS; did you mean "
            "DATALOADER.TRAIN_WORKERS",
        ),
        (["TRAIN.BATCH_SIZE=none"], "--against TRAIN.BATCH_SIZE"),
        (["BATCH"], "expected KEY=value"),
        (["TRAIN.BATCH_SIZE=1", "SEED=123"], "the preset has these values already"),
    ],
)
def test_changes_that_make_no_sense(changes, match):
    with pytest.raises(ConfigError, match=match):
        against(settings(), changes)


@pytest.mark.filterwarnings("ignore:TRAIN.NUM_WORKERS")
def test_the_old_key_of_workers_would_do_nothing():
    with pytest.raises(ConfigError, match=r"an old name.*give DATALOADER.TRAIN_WORKERS"):
        against(settings(), ["TRAIN.NUM_WORKERS=1"])


PHASES = [{"CROP_SIZE": 64, "EPOCHS": 1}, {"CROP_SIZE": 128, "EPOCHS": 2}]


@pytest.mark.parametrize("train", [{"MAX_STEPS": 2, "EPOCHS": 1}, {"PROGRESSIVE": PHASES}])
def test_a_timed_training_does_not_end_by_itself(train):
    found = timed(settings(**train, EARLY_STOPPING={"PATIENCE": 1}), 7)
    steps = total_steps(found, per_epoch=1, micro_batches=1)
    assert steps >= 10**6
    assert found.TRAIN.EARLY_STOPPING is None
    assert min(found.LOG.VAL_EVERY_STEPS, found.TRAIN.SAVE_EVERY_STEPS) >= steps
    assert found.LOG.MEMORY_EVERY_STEPS == 7
    assert [phase.CROP_SIZE for phase in found.TRAIN.PROGRESSIVE] in ([], [64])


def test_nobody_is_told_of_a_timed_training():
    log = {"WANDB": "mine", "MLFLOW": "mine", "ON_END": "mail", "ENABLE_TIMING_LOG": False}
    log |= {"TIMING_FILE": False, "TIMING_FILE_INTERVAL": 50}
    found = timed(Settings.model_validate({"LOG": log}), 7).LOG
    assert (found.WANDB, found.MLFLOW, found.ON_END) == (None, None, None)
    assert (found.ENABLE_TIMING_LOG, found.TIMING_FILE, found.TIMING_FILE_INTERVAL) == (
        True,
        True,
        1,
    )


def test_what_decides_the_speed_stays():
    given = settings(BATCH_SIZE=2, COMPILE_MODEL=True, EMA=0.9, PROGRESSIVE=PHASES)
    changed = differences(given, timed(given, 7)).keys()
    assert {key.split(".")[0] for key in changed} == {"TRAIN", "LOG"}
    assert changed & {"TRAIN.BATCH_SIZE", "TRAIN.COMPILE_MODEL", "TRAIN.EMA"} == set()


def test_a_key_that_timing_sets_is_refused():
    given = settings()
    before, after = timed_pair(given, against(given, ["TRAIN.BATCH_SIZE=2"]), 7)
    assert differences(before, after) == {"TRAIN.BATCH_SIZE": ("1", "2")}
    asked = against(given, ["TRAIN.BATCH_SIZE=2", "LOG.TIMING_FILE=false"])
    with pytest.raises(ConfigError, match=r"--against LOG.TIMING_FILE: the benchmark sets this"):
        timed_pair(given, asked, 7)
    # Without phases the crop is another one.
    given = settings(PROGRESSIVE=PHASES)
    pair = timed_pair(given, against(given, ["TRAIN.PROGRESSIVE=[]"]), 7)
    assert list(differences(*pair)) == ["TRAIN.PROGRESSIVE"]


def test_it_says_what_first_steps_are():
    assert first_steps(settings()) == []
    assert first_steps(settings(PROGRESSIVE=PHASES, FREEZE_FLOW_STEPS=20)) == [
        "crops of 64, the first of 2 phases (TRAIN.PROGRESSIVE)",
        "flow and alignment fixed, as in the first 20 (TRAIN.FREEZE_FLOW_STEPS)",
    ]
