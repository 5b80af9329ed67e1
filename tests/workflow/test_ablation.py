"""A preset with spikes, without, and with shuffled ones: from one command to the table."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from tests.workflow.project import Project, tiny_project
from vrtspike.errors import EXIT_USER_ERROR
from vrtspike.files import read_json

pytestmark = [pytest.mark.endurance, pytest.mark.workflow]

TRIO = """\
BASE: tiny
DATA: {CLIP_LEN: 3}
MODEL: {FUSE: {INIT: random}}
"""
MODELS = {
    "spikes": "trio",
    "without spikes": "trio-without-spikes",
    "shuffled spikes": "trio-shuffled-spikes",
}


@pytest.fixture(scope="module")
def ablated(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose only compared preset has had its ablation."""
    project = tiny_project(repository, tmp_path_factory.mktemp("ablated") / "project")
    project.write("config/presets/trio.yaml", TRIO)
    project.replace("config/config.yaml", "[tiny, other]", "[trio]")
    project.make("ablation")
    return project


def measured(project: Project, preset: str, column: str) -> float:
    """The mean over sequences of the mean over frames."""
    frames = pd.read_csv(project.folder / f"results/evaluate/{preset}/frames.csv")
    return float(frames.groupby("sequence")[column].mean().mean())


@pytest.mark.slow
def test_the_table_holds_what_the_evaluations_measured(ablated):
    table = pd.read_csv(ablated.folder / "results/ablation/table.csv").set_index("model")
    assert table.index.tolist() == list(MODELS)
    assert set(table["preset"]) == {"trio"}
    for metric in ("psnr", "ssim"):
        blurry = measured(ablated, "trio", f"{metric}_blur")
        with_spikes = measured(ablated, "trio", metric)
        for model, preset in MODELS.items():
            restored = measured(ablated, preset, metric)
            row = table.loc[model]
            assert row[f"{metric} blurry"] == pytest.approx(blurry, abs=2e-6)
            assert row[f"{metric} restored"] == pytest.approx(restored, abs=2e-6)
            assert row[f"{metric} gain"] == pytest.approx(restored - blurry, abs=2e-6)
            assert row[f"{metric} difference"] == pytest.approx(restored - with_spikes, abs=2e-6)
    assert table["steps"].tolist() == [2, 2, 2]
    parameters = table["parameters"]
    assert parameters["spikes"] == parameters["shuffled spikes"] > parameters["without spikes"] > 0


@pytest.mark.slow
def test_the_models_differ_in_their_spikes_only(ablated):
    train = ablated.folder / "results/train"
    settings = {
        model: read_json(train / name / "settings.json")["settings"]
        for model, name in MODELS.items()
    }
    assert settings["spikes"]["MODEL"]["SPIKE_ORDER"] == "recorded"
    for model, key, value in (
        ("without spikes", "USE_SPIKE", False),
        ("shuffled spikes", "SPIKE_ORDER", "shuffled"),
    ):
        assert settings[model] == settings["spikes"] | {
            "MODEL": settings["spikes"]["MODEL"] | {key: value}
        }
    weights = {(train / name / "weights.safetensors").read_bytes() for name in MODELS.values()}
    assert len(weights) == 3
    records = [read_json(train / name / "run.json") for name in MODELS.values()]
    assert [record["name"] for record in records] == list(MODELS.values())
    assert len({record["dataset_digest"] for record in records}) == 1
    assert sorted(path.name for path in (ablated.folder / "runs").iterdir()) == sorted(
        MODELS.values()
    )


@pytest.mark.slow
def test_the_report_shows_the_table(ablated):
    report = (ablated.folder / "results/ablation/report.html").read_text()
    assert '"Ablation"' in report
    assert "results/ablation/table.html" in report
    page = (ablated.folder / "results/ablation/table.html").read_text()
    assert "<p>trio: without spikes PSNR is " in page


@pytest.mark.slow
def test_the_ablation_of_one_preset_trains_nothing_again(ablated):
    jobs = Counter(job.rule for job in ablated.plan("ablation_trio", "train_trio"))
    assert jobs == {"ablation_of_preset": 1, "ablation_report_of_preset": 1}


@pytest.mark.slow
def test_everything_else_is_as_without_an_ablation(ablated):
    jobs = ablated.plan("all")
    presets = {job.wildcards["preset"] for job in jobs if "preset" in job.wildcards}
    assert presets == {"trio"}
    assert not any(job.rule in ("train", "evaluate") for job in jobs)


@pytest.mark.slow
def test_another_learning_rate_concerns_all_three(ablated):
    jobs = ablated.plan("ablation", "--config", "SET=TRAIN.OPTIM.LR=1.0e-3")
    trained = [job for job in jobs if job.rule == "train"]
    assert {job.wildcards["preset"] for job in trained} == set(MODELS.values())
    assert all("TRAIN.OPTIM.LR: 0.001" in job.reason for job in trained)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("DATA.CLIP_LEN=2", "preset demo has no ablation with shuffled spikes: .*CLIP_LEN is 2;"),
        ("MODEL.USE_SPIKE=false", r"preset demo: MODEL\.USE_SPIKE is false; an ablation starts"),
    ],
)
def test_what_cannot_be_compared_is_told_before_anything_is_computed(clone, setting, message):
    done = clone.snakemake("--cores", "1", "ablation_demo", "--config", f"SET={setting}")
    assert done.returncode == EXIT_USER_ERROR, done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
    assert re.search(message, line)
    assert "Traceback" not in done.stdout
    assert not (clone.folder / "data").exists()


def test_derived_presets_are_no_targets_of_their_own(clone):
    listed = clone.snakemake("--list").stdout
    assert "ablation_demo" in listed
    assert "-without-spikes" not in listed
    assert "-shuffled-spikes" not in listed


def test_a_derived_preset_is_made_like_any_other(clone):
    jobs = clone.plan("results/train/demo-without-spikes/weights.safetensors")
    (train,) = [job for job in jobs if job.rule == "train"]
    assert train.wildcards == {"preset": "demo-without-spikes"}
