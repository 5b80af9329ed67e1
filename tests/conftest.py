"""Fixtures that several rooms share."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest_plugins = ["tests.published_runs"]

REPOSITORY = Path(__file__).resolve().parent.parent


SEED = int(os.environ.get("VRTSPIKE_TEST_SEED", "0"))


COSTS = {"workflow": 10, "slow": 5}
"""Roughly how many seconds a test with a marker takes."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On several cores the longest files begin first: none is left to one core at the end."""
    if not hasattr(config, "workerinput"):
        return
    seconds: Counter[Path] = Counter()
    for item in items:
        seconds[item.path] += max(
            (COSTS.get(mark.name, 0) for mark in item.iter_markers()), default=0
        )
    items.sort(key=lambda item: -seconds[item.path])


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Random numbers begin anew for every test, so that no test depends on those before it."""
    random.seed(SEED)
    np.random.seed(SEED)
    if "torch" in sys.modules:  # importing it takes seconds that many tests do not need
        sys.modules["torch"].manual_seed(SEED)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The top folder of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real samples and golden files beside the checkout, or a skip."""
    folder = REPOSITORY.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs the real samples: no folder 'shared' beside the checkout")
    return folder
