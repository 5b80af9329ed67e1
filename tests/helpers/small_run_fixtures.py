"""Fixtures of the small run, for every package; they import PyTorch when a test asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.helpers.small_run import SmallRun
    from vrtspike.restoration.inputs.clip_source import ClipSource


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> SmallRun:
    from tests.helpers.small_run import write_small_run

    return write_small_run(tmp_path_factory.mktemp("small"))


@pytest.fixture
def sequence(small_run: SmallRun) -> Path:
    """The raw files of a test sequence."""
    return small_run.raw / "test" / "b"


@pytest.fixture
def stored(small_run: SmallRun) -> ClipSource:
    """The store of the same sequence."""
    from vrtspike.data.clips.dataset_manifest import load_dataset
    from vrtspike.data.store.reading import Store
    from vrtspike.restoration.inputs.clip_source import StoreClipSource

    return StoreClipSource(Store(load_dataset(small_run.dataset).split("test")[0].store))
