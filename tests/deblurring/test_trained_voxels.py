"""Voxels of a preset beside those that a trained model expects."""

from __future__ import annotations

import pytest

from vrtspike.data.store.voxels import Statistics
from vrtspike.deblurring.trained_voxels import TrainedVoxels
from vrtspike.io.files import write_json
from vrtspike.settings import Settings
from vrtspike.settings.stores import StoreOptions
from vrtspike.system.errors import RunError

OPTIONS = StoreOptions(bins=8, context=4)
TRAINED = TrainedVoxels(OPTIONS, Statistics(0.5, 0.25, 9))


@pytest.mark.parametrize(
    ("options", "mean", "std", "lines"),
    [
        (OPTIONS, 0.5, 0.25, []),
        (OPTIONS, None, None, []),
        (OPTIONS, 0.5004, 0.2498, []),  # copied from a log
        (StoreOptions(bins=8), 0.5, 0.25, ["DATA.CONTEXT_STEPS is 4 there, 0 here"]),
        (StoreOptions(bins=9, context=4), None, None, ["DATA.NUM_VOXEL_BINS is 8 there, 9 here"]),
        (OPTIONS, 0.51, 0.25, ["DATA.NORM.MEAN is 0.5 there, 0.51 here"]),
        (OPTIONS, 0.5, 0.26, ["DATA.NORM.STD is 0.25 there, 0.26 here"]),
    ],
)
def test_differing_keys_are_named_with_both_values(options, mean, std, lines):
    assert TRAINED.differences(options, mean, std) == lines


def test_a_model_whose_statistics_are_missing_is_refused(tmp_path):
    settings = Settings.model_validate({"DATA": {"NUM_VOXEL_BINS": 8, "CONTEXT_STEPS": 4}})
    file = tmp_path / "statistics.json"
    write_json(file, {"statistics": {"mean": 0.5, "std": 0.25, "count": 9}})
    assert TrainedVoxels.read(tmp_path, settings) == TRAINED
    write_json(file, {"statistics": None})
    with pytest.raises(RunError, match=r"statistics\.json: holds no statistics, but the model"):
        TrainedVoxels.read(tmp_path, settings)
