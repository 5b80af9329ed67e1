"""Names and values of a trainer's parameters; wrong ones are in test_base_trainer.py."""

from __future__ import annotations

import pytest

from vrtspike.sst.trainer_parameters import ALIASES, CLIPPING, PARAMETERS, preset_values


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ({"ims_per_gpu": 64, CLIPPING: "norm"}, "TRAIN.BATCH_SIZE", 64),
        ({"gradient_accumulation_steps": 2}, "TRAIN.GRADIENT_ACCUMULATION_STEPS", 2),
        ({"use_fp16": True, "precision": "16-mixed"}, "TRAIN.PRECISION", "16-mixed"),
        ({"use_fp16": False}, "TRAIN.PRECISION", "32"),
        ({"precision": 32}, "TRAIN.PRECISION", "32"),
        ({"cudnn_benchmark": True}, "DETERMINISTIC", False),
        ({"cudnn_benchmark": False}, "DETERMINISTIC", True),
    ],
)
def test_other_names_of_parameters_are_accepted(name, key, value):
    assert preset_values(name, 1e-3)[key] == value


def test_the_machine_decides_no_value():
    values = preset_values({"batch_size": 8}, 1e-3)
    assert values["TRAIN.PRECISION"] == "16-mixed"
    # Chosen by the training, which knows the steps of the run.
    assert values["TRAIN.SCHED.WARMUP_STEPS"] is None
    assert values["LOG.VAL_EVERY_STEPS"] is None
    assert "TRAIN.EARLY_STOPPING.PATIENCE" not in values
    assert values["TRAIN.VAL_BATCH_SIZE"] == 8


def test_the_page_names_every_parameter(repository):
    page = (repository / "docs" / "sst.md").read_text(encoding="utf-8")
    for name in [*PARAMETERS, *ALIASES, CLIPPING]:
        assert f"`{name}`" in page, name
