"""Fixtures that several rooms share."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["tests.published_runs"]

REPOSITORY = Path(__file__).resolve().parent.parent


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
