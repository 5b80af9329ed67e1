"""Options of data sets that presets share; names of data sets: tests/config/test_workflow.py."""

from __future__ import annotations

from vrtspike.config.workflow import WorkflowConfig
from vrtspike.config.workflow_schema import workflow_schema
from vrtspike.data.checks.options import AcceptOptions
from vrtspike.deblurring.planning.deblurring_config import DeblurringConfig
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.stores import StoreOptions


def preset(root: str, clip: int, crop: int, *, train=None, **data) -> DeblurringSettings:
    data |= {"ROOT": root, "CLIP_LEN": clip, "CROP_SIZE": crop}
    return DeblurringSettings.model_validate({"DATA": data, "TRAIN": train or {}})


def test_acceptance_requires_what_the_least_demanding_preset_requires():
    phases = [{"CROP_SIZE": 64, "EPOCHS": 1}, {"CROP_SIZE": 128, "EPOCHS": 1}]
    presets = {
        "one": preset("a", 5, 96, train={"PROGRESSIVE": phases}),
        "two": preset("a", 3, 256),
        "elsewhere": preset("b", 2, 32),
    }
    config = DeblurringConfig(WorkflowConfig(workflow_schema()(), presets))
    # Validation looks at training sequences; evaluation takes whole frames of any size.
    assert config.accept_options("one", 16) == AcceptOptions(
        stores=StoreOptions(bins=16), clip_length=3, crop_sizes={"train": 128, "test": 1}
    )


def test_acceptance_has_the_keys_of_the_data_set():
    data = {
        "CONTEXT_STEPS": 4,
        "TRAIN_SPLIT": "a",
        "TEST_SPLIT": "b",
        "TEST_ON_TRAINING_FRAMES": True,
        "ON_ERROR": "exclude",
    }
    config = DeblurringConfig(
        WorkflowConfig(workflow_schema()(), {"one": preset("walk", 5, 96, **data)})
    )
    (name,) = config.dataset_names
    assert name == "walk-exclude-context4-test_on_training"
    assert config.accept_options("one", 16) == AcceptOptions(
        stores=StoreOptions(bins=16, context=4),
        clip_length=5,
        crop_sizes={"a": 96, "b": 1},
        splits=("a", "b"),
        test_on_training_frames=True,
        on_error="exclude",
    )
    assert config.store_options("one", 8) == StoreOptions(bins=8, context=4)
