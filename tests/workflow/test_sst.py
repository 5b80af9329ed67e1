"""Sea surface temperature through the same workflow: from downloaded files to the page."""

from __future__ import annotations

import json
import os

import pandas as pd
import pytest

from tests.workflow.project import Project
from vrtspike.sst.generate import Globe, write_example

pytestmark = [pytest.mark.workflow]

PRESET = """\
BASE: sst
DATA:
  ROOT: data/download
  AREA: {NAME: Pacific, LON: [120, -80], LAT: [-40, 40]}
  RESOLUTION: 8
  YEARS: {TRAIN: [1980, 1984], VAL: [1985, 1986], TEST: [1987, 1988]}
  SEQ_LEN: 3
  LEAD: 2
MODEL: {D_MODEL: 16, NUM_HEADS: 2, DIM_FEEDFORWARD: 32}
DATALOADER: {TOTAL_WORKERS: 0}
TRAIN: {MAX_STEPS: 6, PRECISION: "32", SCHED: {WARMUP_STEPS: 1}}
LOG: {VAL_EVERY_STEPS: 3}
"""
GLOBE = Globe(years=9, step=8.0, south=-56.0)


@pytest.fixture(scope="module")
def project(repository, tmp_path_factory) -> Project:
    """A project whose user has downloaded files."""
    made = Project.copy(repository, tmp_path_factory.mktemp("sea") / "project")
    made.write("config/config.yaml", "PRESETS: [sea]\nGPUS: 0\n")
    made.write("config/presets/sea.yaml", PRESET)
    write_example(made.folder / "data/download", GLOBE)
    return made


@pytest.fixture(scope="module")
def finished(project) -> Project:
    """The same, after its user has asked for the page once."""
    output = project.make("all")
    assert "RMSE" not in output
    return project


@pytest.mark.endurance
def test_page_and_analysis_name_the_metrics(finished):
    results = finished.folder / "results"
    page = (results / "index.html").read_text()
    assert "(baseline) to" in page
    assert page.count('"caption":') == 2
    assert "chosen on" not in (results / "evaluate/sea/metrics.html").read_text()
    table = pd.read_csv(results / "compare/table.csv")
    assert {"rmse baseline", "rmse forecast", "rmse gain"} <= set(table)
    findings = json.loads((results / "performance/sea/findings.json").read_text())
    assert set(findings["measurements"]["health"]["best"]) == {"rmse", "acc"}
    assert (results / "report.html").stat().st_size > 100_000


@pytest.mark.endurance
def test_other_contents_are_prepared_and_trained_anew(finished):
    weights = finished.folder / "results/train/sea/weights.safetensors"
    before = weights.read_bytes()
    (download,) = (finished.folder / "data/download").glob("*.nc")
    contents = download.read_bytes()
    os.utime(download)
    assert finished.why("all") == {}
    write_example(finished.folder / "data/download", Globe(years=9, step=8.0, south=-56.0, seed=1))
    os.utime(download, (1, 1))
    assert "raw file data/download/sst.nc changed" in finished.why("train_sea")["prepare"]
    finished.make("train_sea")
    assert weights.read_bytes() != before
    download.write_bytes(contents)
    finished.make("train_sea")
    assert weights.read_bytes() == before


def test_without_files_the_folder_is_named(project):
    download = project.folder / "data/download"
    aside = download.rename(project.folder / "data/aside")
    try:
        done = project.snakemake("-n", "train_sea")
    finally:
        aside.rename(download)
    assert done.returncode == 2
    assert "data/download: no file or folder with" in done.stdout
