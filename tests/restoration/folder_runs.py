"""Clips restored into a folder, for tests: a model, a request, and a result with everything."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vrtspike.io.images import read_rgb
from vrtspike.restoration.folder.opened_request import open_request
from vrtspike.restoration.folder.request import RestoreRequest
from vrtspike.restoration.loading import load
from vrtspike.restoration.trained_model import TrainedModel

NAMES = [f"{number:06d}" for number in range(1, 6)]
"""Names of the frames of the test sequence."""


@pytest.fixture(scope="session")
def model(small_run) -> TrainedModel:
    """The model of the small run."""
    return load(small_run.train, device="cpu")


@pytest.fixture
def job(small_run, tmp_path) -> RestoreRequest:
    """A request to restore a test sequence with its recorded spikes."""
    sequence = small_run.raw / "test" / "b"
    return RestoreRequest(sequence / "blur", tmp_path / "out", sequence / "spike")


@pytest.fixture(scope="session")
def whole(small_run, model, tmp_path_factory) -> tuple[RestoreRequest, dict[str, Any]]:
    """A request for every kind of result, restored, and its record; not to be changed."""
    output = tmp_path_factory.mktemp("whole")
    sequence = small_run.raw / "test" / "b"
    job = RestoreRequest(
        sequence / "blur", output, sequence / "spike", sharp=sequence / "sharp", tile=32,
        video=True, side_by_side=True,
    )  # fmt: skip
    return job, restore(model, job)


def restore(
    model: TrainedModel, job: RestoreRequest, note=lambda text: None, show=lambda *done: None
) -> dict[str, Any]:
    """Restore a request, and return its record."""
    progress = contextlib.nullcontext(show)
    opened = open_request(model.run, job)
    return model.restore_opened(opened, open_progress=lambda title: progress, note=note).record


def pictures(folder: Path) -> list[np.ndarray]:
    """The pictures of a folder in the order of their names."""
    return [read_rgb(path) for path in sorted(folder.iterdir())]
