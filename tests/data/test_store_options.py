"""Every option of stores in the digests of a store, of its recipe and of the data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.data.prepared import checked, merged
from tests.data.raw.published import PUBLISHED
from vrtspike.data.stages import VoxelizeStage
from vrtspike.data.store.writing import build_store
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import read_json, write_json
from vrtspike.io.manifests import sealed

NAMES = ("train/a", "test/a")
USUAL = StoreOptions(bins=4)
CHANGES: dict[str, Any] = {"bins": 8, "context": 4}
"""Another value of each option, with which the contents of a store change."""


def changed(option: str) -> StoreOptions:
    return StoreOptions.model_validate(USUAL.model_dump() | {option: CHANGES[option]})


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set whose recordings go beyond the exposures, and ``checked`` manifests of it."""
    root = tmp_path_factory.mktemp("raw")
    PUBLISHED["one stream"].write(root)
    checked(root, NAMES, root / "checked")
    return root


@pytest.fixture(scope="module")
def stores(raw: Path) -> Path:
    """Stores with the usual options."""
    return build(raw, USUAL, raw / "stores")


def build(raw: Path, options: StoreOptions, folder: Path) -> Path:
    for name in NAMES:
        build_store(raw, raw / "checked" / f"{name}.json", options, folder / f"{name}.json")
    return folder


def test_every_option_has_another_value_here():
    assert CHANGES.keys() == StoreOptions.model_fields.keys()


@pytest.mark.parametrize("option", CHANGES)
def test_stores_of_another_option_have_other_digests(raw, stores, tmp_path, option):
    others = build(raw, changed(option), tmp_path)
    for name in NAMES:
        usual, other = (read_json(folder / f"{name}.json") for folder in (stores, others))
        assert usual["digest"] != other["digest"]
        assert other[option] == CHANGES[option]


@pytest.mark.parametrize("option", CHANGES)
def test_a_data_set_of_another_option_has_another_digest(stores, tmp_path, option):
    """Even if the digests of its stores were the same."""
    for name in NAMES:
        manifest = read_json(stores / f"{name}.json") | {option: CHANGES[option]}
        write_json(tmp_path / f"{name}.json", sealed(manifest))
    usual, other = (merged(folder, NAMES) for folder in (stores, tmp_path))
    assert usual["statistics"] == other["statistics"]
    assert usual["digest"] != other["digest"]
    assert other[option] == CHANGES[option]


@pytest.mark.parametrize("option", CHANGES)
def test_stores_of_another_option_have_another_recipe(tmp_path, option):
    usual, other = (
        VoxelizeStage(tmp_path, "raw", tmp_path / "checked", options)
        for options in (USUAL, changed(option))
    )
    assert usual.recipe != other.recipe
