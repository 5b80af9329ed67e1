"""Options of stores: from a preset, in manifests, in names of data sets."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.stores import StoreOptions

DATA = {"NUM_VOXEL_BINS": 8, "CONTEXT_STEPS": 4}


def test_options_are_the_keys_of_a_preset():
    data = DeblurringSettings.model_validate({"DATA": DATA}).DATA
    options = StoreOptions.from_settings(data)
    assert options.by_key == {f"DATA.{key}": value for key, value in DATA.items()}
    with pytest.raises(ValidationError, match="frozen"):
        options.bins = 4


def test_manifests_hold_options_beside_other_entries():
    manifest = {"schema": 4, "bins": 8, "context": 4, "gain": 1.5}
    options = StoreOptions(bins=8, context=4)
    assert StoreOptions.from_manifest(manifest) == options
    assert options.add_to({"schema": 4, "gain": 1.5}) == manifest
    assert StoreOptions.from_manifest({"bins": 8}) == StoreOptions(bins=8, context=0)


def test_datasets_of_different_stores_have_different_names():
    """Those with other bins lie in folders of their own."""
    names = [
        DeblurringSettings.model_validate({"DATA": {"ROOT": "walk", **data}}).dataset_name
        for data in ({}, {"NUM_VOXEL_BINS": 8}, DATA)
    ]
    assert names == ["walk", "walk", "walk-context4"]


def test_datasets_of_folders_in_any_script_have_different_names():
    names = [
        DeblurringSettings.model_validate({"DATA": {"ROOT": f"d/{folder}"}}).dataset_name
        for folder in ("数据一", "数据二", "walk一", "walk-1 b", "...")
    ]
    assert names[:3] == ["data_03ee20", "data_e736e1", "walk_a6a6e9"]
    assert names[3:] == ["walk_1_b", "data"]
