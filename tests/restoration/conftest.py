"""Fixtures of a small data set, of small runs and of restored folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.small_run import write_light_run
from tests.restoration.folder_runs import job, model, whole
from vrtspike.commands.main import run_command

__all__ = ["job", "model", "whole"]


@pytest.fixture(scope="session")
def light_run(small_run, tmp_path_factory) -> Path:
    """The result folder of a model that can be exported."""
    folder: Path = tmp_path_factory.mktemp("light") / "small_light"
    write_light_run(small_run, folder)
    return folder


@pytest.fixture(scope="session")
def exported(light_run, tmp_path_factory) -> Path:
    """Its ONNX file."""
    path: Path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    assert not run_command(["export", str(light_run), "-o", str(path)])
    return path
