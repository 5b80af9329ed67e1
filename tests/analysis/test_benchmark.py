"""Settings of the timed trainings of `vrtspike benchmark`."""

from __future__ import annotations

import pytest

from vrtspike.analysis.benchmark import timed_settings
from vrtspike.config.loading import override_settings
from vrtspike.config.yaml_documents import parse_overrides
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.io.flatten import differing_values
from vrtspike.training.optimizers import count_steps

PHASES = [{"CROP_SIZE": 64, "EPOCHS": 1}, {"CROP_SIZE": 128, "EPOCHS": 2}]


@pytest.mark.parametrize(
    ("train", "change"),
    [
        ({"MAX_STEPS": 2, "EPOCHS": 1}, "TRAIN.BATCH_SIZE=2"),
        ({"PROGRESSIVE": PHASES, "FREEZE_FLOW_STEPS": 20}, "TRAIN.BATCH_SIZE=2"),
        # Without phases the crop has another size.
        ({"PROGRESSIVE": PHASES}, "TRAIN.PROGRESSIVE=[]"),
    ],
)
def test_a_timed_training_has_equal_steps_no_end_and_no_notifications(train, change):
    log = {"WANDB": "mine", "MLFLOW": "mine", "ON_END": "mail", "ENABLE_TIMING_LOG": False}
    log |= {"TIMING_FILE": False, "TIMING_FILE_INTERVAL": 50}
    values = {"TRAIN": train | {"EARLY_STOPPING": {"PATIENCE": 1}}, "LOG": log}
    before = DeblurringSettings.model_validate(values)
    after = override_settings(before, parse_overrides([change], "test"), "test")
    timed, changed = timed_settings(before, after, 7)
    dumped = [settings.model_dump(mode="json") for settings in (before, timed, changed)]
    assert list(differing_values(*dumped[1:])) == [change.partition("=")[0]]
    steps = count_steps(timed, per_epoch=1, micro_batches=1)
    assert steps >= 10**6
    assert timed.TRAIN.EARLY_STOPPING is None
    assert min(timed.LOG.VAL_EVERY_STEPS, timed.TRAIN.SAVE_EVERY_STEPS) >= steps
    assert [phase.CROP_SIZE for phase in timed.TRAIN.PROGRESSIVE] in ([], [64])
    assert timed.TRAIN.FREEZE_FLOW_STEPS == (10**6 if "FREEZE_FLOW_STEPS" in train else None)
    assert (timed.LOG.WANDB, timed.LOG.MLFLOW, timed.LOG.ON_END) == (None, None, None)
    assert (timed.LOG.ENABLE_TIMING_LOG, timed.LOG.TIMING_FILE) == (True, True)
    assert (timed.LOG.TIMING_FILE_INTERVAL, timed.LOG.MEMORY_EVERY_STEPS) == (1, 7)
    # Settings that affect the speed are unchanged.
    set_keys = differing_values(*dumped[:2]).keys()
    assert {key.split(".")[0] for key in set_keys} == {"TRAIN", "LOG"}
    assert set_keys & {"TRAIN.BATCH_SIZE", "TRAIN.COMPILE_MODEL", "TRAIN.EMA"} == set()
