"""Which settings make a trained model stale."""

from __future__ import annotations

import pytest

from vrtspike.config import Settings, result_settings
from vrtspike.config.results import evaluation_settings


def of(**sections):
    return result_settings(Settings.model_validate(sections))


@pytest.mark.parametrize(
    "sections",
    [
        {"DATALOADER": {"TOTAL_WORKERS": 3}},
        {"LOG": {"VAL_EVERY_STEPS": 7, "TENSORBOARD": False}},
        {"TEST": {"METRICS": ["psnr"]}},
        {"DATA": {"CACHE_SIZE_GB": 1.0, "ROOT": "elsewhere", "USE_PRECOMPUTED_VOXELS": False}},
        {"MODEL": {"FUSE": {"CHUNK_SIZE": 8}, "VRT": {"USE_CHECKPOINT_ATTN": False}}},
        {"TRAIN": {"KEEP_LAST": 9}},
    ],
)
def test_operational_keys_change_nothing(sections):
    assert of(**sections) == of()


@pytest.mark.parametrize(
    "sections",
    [
        {"SEED": 1},
        {"TRAIN": {"OPTIM": {"LR": 1e-3}}},
        {"DATA": {"K": 16}},
        {"DATALOADER": {"DROP_LAST": False}},
        {"MODEL": {"FUSE": {"INIT": "random"}}},
        {"LOSS": {"CHARBONNIER": {"DELTA": 0.1}}},
    ],
)
def test_result_keys_change_the_result(sections):
    assert of(**sections) != of()


def test_the_validation_interval_counts_where_early_stopping_watches_it():
    stopping = {"TRAIN": {"EARLY_STOPPING": {"PATIENCE": 2}}}
    assert of(**stopping, LOG={"VAL_EVERY_STEPS": 7}) != of(**stopping)


def test_evaluation_has_settings_of_its_own():
    base = evaluation_settings(Settings())
    changed = Settings.model_validate({"TEST": {"TILE": {"SIZE": 128}, "NUM_WORKERS": 0}})
    assert evaluation_settings(changed)["TEST"]["TILE"]["SIZE"] == 128
    assert "NUM_WORKERS" not in base["TEST"]
