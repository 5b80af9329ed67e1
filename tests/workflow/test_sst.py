"""Sea surface temperature through the same workflow: from downloaded files to the page."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import pandas as pd
import pytest
import torch
import zarr

from tests.workflow.project import Project
from vrtspike.runs.published import read_published
from vrtspike.sst.generate import Globe, write_example
from vrtspike.sst.models import build_model
from vrtspike.sst.store import PreparedStore
from vrtspike.weights import load_trained

pytestmark = [pytest.mark.workflow, pytest.mark.timeout(600)]

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
    """A project whose user has downloaded files and asked for the page once."""
    made = Project.copy(repository, tmp_path_factory.mktemp("sea") / "project")
    made.write("config/config.yaml", "PRESETS: [sea]\nGPUS: 0\n")
    made.write("config/presets/sea.yaml", PRESET)
    write_example(made.folder / "data/download", GLOBE)
    said = made.make("all")
    assert "RMSE" not in said
    return made


def anomalies(project: Project) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Kelvin (N, H, W), weights (H, W), years' first month, read without this package."""
    (manifest,) = (project.folder / "results/data").glob("sst_Pacific_8_*/dataset.json")
    told = json.loads(manifest.read_text())
    group = zarr.open_group(manifest.parent / told["store"], mode="r")
    first = told["first_month"]
    months = (first + np.arange(told["months"])) % 12
    kelvin = group["anomaly"][:] * group["deviation"][:][months]
    rows = -40 + 8 * np.arange(10)
    area = np.sin(np.deg2rad(rows + 8)) - np.sin(np.deg2rad(rows))
    weights = area[::-1, None] * group["sea"][:]
    return kelvin.astype(float), weights / weights.sum(), months, first


def test_figures_are_those_of_the_definition(project):
    kelvin, weights, months, first = anomalies(project)
    run = read_published(project.folder / "results/train/sea")
    settings, store = run.settings, PreparedStore(run.identity.dataset)
    model = build_model(settings.MODEL, store, 3, 2)
    load_trained(model, project.folder / "results/train/sea/weights.safetensors")
    deviation = store.deviation[months].astype(float)
    squares = {"persistence": [[], []], "forecast": [[], []]}
    last = [n for n in range(len(kelvin)) if 1987 * 12 <= first + n - 2 and n + 2 < len(kelvin)]
    for n in last:
        past = torch.from_numpy(kelvin[n - 2 : n + 1] / deviation[n - 2 : n + 1]).float()
        with torch.no_grad():
            said = model.eval()(past[None], torch.tensor([months[n]]))[0].double().numpy()
        for lead in (1, 2):
            observed = kelvin[n + lead]
            for name, field in (
                ("persistence", kelvin[n]),
                ("forecast", said[lead - 1] * deviation[n + lead]),
            ):
                squares[name][lead - 1].append((weights * (field - observed) ** 2).sum())
    expected = {
        name: np.mean([np.sqrt(np.mean(of)) for of in leads]) for name, leads in squares.items()
    }
    summary = json.loads((project.folder / "results/evaluate/sea/summary.json").read_text())
    rmse = summary["metrics"]["rmse"]
    assert rmse["persistence"] == pytest.approx(expected["persistence"], rel=1e-4)
    assert rmse["forecast"] == pytest.approx(expected["forecast"], rel=1e-3)
    assert rmse["gain"] == pytest.approx(rmse["persistence"] - rmse["forecast"])
    assert (summary["frames"], summary["sequences"]) == (2 * len(last), 2)


def test_tables_agree_with_each_other(project):
    folder = project.folder / "results/evaluate/sea"
    frames, sequences = (pd.read_csv(folder / f"{name}.csv") for name in ("frames", "sequences"))
    assert list(sequences["sequence"]) == ["1 month ahead", "2 months ahead"]
    for column in ("rmse", "rmse_persistence", "rmse_climatology"):
        roots = frames.groupby("sequence")[column].apply(lambda rmse: np.sqrt((rmse**2).mean()))
        assert list(roots) == pytest.approx(list(sequences[column]), abs=2e-6)
    ahead = frames[frames["sequence"] == "2 months ahead"]
    assert (ahead["frame"].iloc[0], ahead["frame"].iloc[-1]) == ("1987-05", "1988-12")
    pictures = sorted(path.name for path in (folder / "pictures").glob("*.png"))
    assert pictures == ["best.png", "error_maps.png", "middle.png", "months.png", "worst.png"]


def test_reports_name_what_was_measured(project):
    results = project.folder / "results"
    page = (results / "index.html").read_text()
    assert "(persistence) to" in page
    assert "RMSE of each cell" in page
    assert page.count('id="figure-') == 5
    table = pd.read_csv(results / "compare/table.csv")
    assert {"rmse persistence", "rmse forecast", "rmse gain"} <= set(table)
    assert "validation RMSE, K" in (results / "compare/validation.svg").read_text()
    findings = json.loads((results / "performance/sea/findings.json").read_text())
    assert set(findings["figures"]["health"]["best"]) == {"rmse", "acc"}
    assert (results / "report.html").stat().st_size > 100_000
    statistics = json.loads((results / "train/sea/statistics.json").read_text())
    assert (statistics["area"]["name"], len(statistics["deviation_k"])) == ("Pacific", 12)


def rules(project: Project, target: str = "all") -> set[str]:
    return {job.rule for job in project.plan(target)}


def test_only_stale_stages_run_again(project):
    assert rules(project) == set()
    (download,) = (project.folder / "data/download").glob("*.nc")
    os.utime(download)
    assert rules(project) == set()
    preset = project.folder / "config/presets/sea.yaml"
    preset.write_text(PRESET.replace("WARMUP_STEPS: 1", "WARMUP_STEPS: 2"))
    assert {"train", "evaluate"} <= rules(project)
    assert "prepare" not in rules(project)
    preset.write_text(PRESET + "TEST: {SPLIT: val}\n")
    assert rules(project) & {"prepare", "train", "evaluate"} == {"evaluate"}
    preset.write_text(PRESET.replace("RESOLUTION: 8", "RESOLUTION: 16"))
    assert {"prepare", "train"} <= rules(project)
    preset.write_text(PRESET)
    assert rules(project) == set()


@pytest.mark.endurance
def test_other_contents_are_prepared_and_trained_anew(project):
    weights = project.folder / "results/train/sea/weights.safetensors"
    before = weights.read_bytes()
    (download,) = (project.folder / "data/download").glob("*.nc")
    contents = download.read_bytes()
    write_example(project.folder / "data/download", Globe(years=9, step=8.0, south=-56.0, seed=1))
    os.utime(download, (1, 1))
    plan = project.plan("train_sea")
    assert [job.rule for job in plan if job.reason.endswith("sst.nc has changed")] == ["prepare"]
    project.make("train_sea")
    assert weights.read_bytes() != before
    download.write_bytes(contents)
    project.make("train_sea")
    assert weights.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("TASK: sts\n", r"config/presets/sea\.yaml:1: TASK is 'sts', .*did you mean sst\?"),
        ("TASK: sst\nDATA: {CROP_SIZE: 32}\n", r"sea\.yaml:2: unknown key DATA\.CROP_SIZE"),
        ("TASK: sst\nMODEL: {TYPE: vrt}\n", r"MODEL\.TYPE: found 'vrt', expected one of rec"),
        ("TASK: sst\nMODEL: {NUM_HEADS: 5}\n", r"D_MODEL is 64, expected a multiple of NUM_HEADS"),
        ("TASK: sst\nDATA: {AREA: {LON: [0, 0]}}\n", r"sea\.yaml:2: DATA\.AREA.*LON|lon"),
        ("TASK: sst\nTRAIN: {FREEZE_FLOW_STEPS: 3}\n", r"FREEZE_FLOW_STEPS belongs to the debl"),
    ],
)
def test_a_wrong_preset_is_told(project, text, said):
    preset = project.folder / "config/presets/sea.yaml"
    try:
        preset.write_text(text)
        done = project.snakemake("-n", "train_sea")
    finally:
        preset.write_text(PRESET)
    assert done.returncode != 0
    assert re.search(said, done.stdout), done.stdout


def test_without_files_the_folder_is_named(project):
    download = project.folder / "data/download"
    aside = download.rename(project.folder / "data/aside")
    try:
        done = project.snakemake("-n", "train_sea")
    finally:
        aside.rename(download)
    assert done.returncode == 2
    assert "data/download: no such folder or file" in done.stdout
