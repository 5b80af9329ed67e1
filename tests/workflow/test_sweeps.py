"""Several seeds, a sweep and ablations, each one target; the leaderboard."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.workflow.project import Project, tiny_project

pytestmark = [pytest.mark.workflow, pytest.mark.endurance]

TRIO = "BASE: other\nDATA: {CLIP_LEN: 3}\nMODEL: {FUSE: {INIT: random}}\n"
SINGLE = """\
BASE: other
DATA: {CLIP_LEN: 1, NEIGHBOURS: true}
MODEL:
  TYPE: spike_nafnet
  NAF: {WIDTH: 8, ENCODER_BLOCKS: [1], MIDDLE_BLOCKS: 1, DECODER_BLOCKS: [1]}
TEST: {TILE: {FRAMES: 2}}
"""
SWEEP = "BASE: other\nGRID:\n  TRAIN.OPTIM.LR: [{rates}]\n"


@pytest.fixture(scope="module")
def project(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with two seeds of a preset, a sweep of another and two ablations.

    The ablations are of a preset of clips, ``trio``, and of one of single frames, ``single``.
    """
    project = tiny_project(repository, tmp_path_factory.mktemp("sweeps") / "project")
    tiny = (project.folder / "config/presets/tiny.yaml").read_text()
    project.write("config/presets/tiny.yaml", f"SEEDS: 2\n{tiny}")
    project.write("config/presets/other.yaml", "BASE: tiny\nSEEDS: 1\n")
    project.write("config/presets/trio.yaml", TRIO)
    project.write("config/presets/single.yaml", SINGLE)
    project.write("config/sweeps/rates.yaml", SWEEP.format(rates="1.0e-3, 2.0e-3"))
    project.replace("config/config.yaml", "[tiny, other]", "[tiny]")
    project.make("evaluate_tiny", "leaderboard", "sweep_rates", "ablation_trio", "ablation_single")
    return project


def restored(project: Project, preset: str) -> float:
    """The mean over the frames of the only test sequence."""
    frames = pd.read_csv(project.folder / f"results/evaluate/{preset}/frames.csv")
    return float(frames["psnr"].mean())


def test_seeds_are_trained_evaluated_and_their_mean_is_on_the_leaderboard(project):
    means = [restored(project, name) for name in ("tiny", "tiny-seed-2")]
    assert means[0] != means[1]
    table = pd.read_csv(project.folder / "results/seeds/tiny/table.csv", dtype={"seed": str})
    assert table["seed"].tolist() == ["123", "124", "mean of 2"]
    mean = sum(means) / 2
    assert table["psnr restored"].tolist() == pytest.approx([*means, mean], abs=1e-4)
    board = pd.read_csv(project.folder / "results/leaderboard/leaderboard.csv")
    row = board.set_index("model").loc["tiny"]
    assert (row["protocol"], row["note"]) == ("own", "mean of 2 seeds")
    assert row["psnr"] == pytest.approx(mean, abs=1e-4)
    assert {"VRT", "SpkDeblurNet"} <= set(board["model"])
    for kind in ("html", "md", "tex"):
        assert (
            "SpkDeblurNet"
            in (project.folder / f"results/leaderboard/leaderboard.{kind}").read_text()
        )


def test_a_sweep_is_trained_and_shown_and_a_new_value_trains_that_alone(project):
    table = pd.read_csv(project.folder / "results/sweep/rates/table.csv")
    assert sorted(table["TRAIN.OPTIM.LR"]) == [0.001, 0.002]
    assert table["psnr"].is_monotonic_decreasing
    assert table["steps"].tolist() == [2, 2]
    for name in table["preset"]:
        assert (project.folder / f"results/train/{name}/weights.safetensors").is_file()
        # The test split chooses nothing, so it is not read.
        assert not (project.folder / f"results/evaluate/{name}").exists()
    curves = (project.folder / "results/sweep/rates/curves.html").read_text()
    assert all(name in curves for name in table["preset"])
    plot = project.folder / "results/sweep/rates/parallel_coordinates.html"
    assert "TRAIN.OPTIM.LR" in plot.read_text()
    assert project.why("evaluate_tiny", "leaderboard", "sweep_rates") == {}
    new = SWEEP.format(rates="1.0e-3, 5.0e-4, 2.0e-3")
    with project.replaced("config/sweeps/rates.yaml", SWEEP.format(rates="1.0e-3, 2.0e-3"), new):
        train, sweep = sorted(project.why("sweep_rates"), reverse=True)
    assert (train.split()[0], sweep) == ("train", "sweep")


def test_a_sweep_is_trained_again_by_its_name_and_nothing_else(project):
    with project.replaced("src/vrtspike/training/loop.py", "IN_A_ROW = 20", "IN_A_ROW = 21"):
        stages = project.why("sweep_rates", "evaluate_tiny", "--config", "RETRAIN=rates")
    table = pd.read_csv(project.folder / "results/sweep/rates/table.csv")
    assert set(stages) == {"sweep", *(f"train {preset}" for preset in table["preset"])}


@pytest.mark.parametrize("preset", ["trio", "single"])
def test_an_ablation_has_a_row_for_each_model_and_a_page(project, preset):
    folder = project.folder / f"results/ablation/{preset}"
    table = pd.read_csv(folder / "table.csv").set_index("model")
    assert table.index.tolist() == ["spikes", "without spikes", "shuffled spikes"]
    assert set(table["preset"]) == {preset}
    assert table["psnr difference"].iloc[0] == 0
    assert table["steps"].tolist() == [2, 2, 2]
    parameters = table["parameters"]
    assert parameters["spikes"] == parameters["shuffled spikes"] > parameters["without spikes"] > 0
    assert f"results/ablation/{preset}/table.html" in (folder / "report.html").read_text()
    assert f"<p>{preset}: without spikes PSNR is " in (folder / "table.html").read_text()
    of_preset = ("--config", f"PRESETS={preset}")
    stages = project.why("ablation", f"train_{preset}", *of_preset)
    assert set(stages) == {"ablation_of_presets", "ablation_report_of_presets"}
    # Everything else is as without an ablation.
    assert not [s for s in project.why("all", *of_preset) if s.startswith(("train", "evaluate"))]
