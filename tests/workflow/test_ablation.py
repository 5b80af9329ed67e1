"""A preset with spikes, without, and with shuffled ones: from one command to the table."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from tests.workflow.project import Project, tiny_project
from vrtspike.errors import EXIT_USER_ERROR

pytestmark = [pytest.mark.endurance, pytest.mark.workflow]

TRIO = """\
BASE: tiny
DATA: {CLIP_LEN: 3}
MODEL: {FUSE: {INIT: random}}
"""
MODELS = ["spikes", "without spikes", "shuffled spikes"]


@pytest.fixture(scope="module")
def ablated(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose only compared preset has had its ablation."""
    project = tiny_project(repository, tmp_path_factory.mktemp("ablated") / "project")
    project.write("config/presets/trio.yaml", TRIO)
    project.replace("config/config.yaml", "[tiny, other]", "[trio]")
    project.make("ablation")
    return project


@pytest.mark.slow
def test_the_table_has_a_row_for_each_model(ablated):
    table = pd.read_csv(ablated.folder / "results/ablation/table.csv").set_index("model")
    assert table.index.tolist() == MODELS
    assert set(table["preset"]) == {"trio"}
    assert table["psnr difference"].iloc[0] == 0
    assert table["steps"].tolist() == [2, 2, 2]
    parameters = table["parameters"]
    assert parameters["spikes"] == parameters["shuffled spikes"] > parameters["without spikes"] > 0


@pytest.mark.slow
def test_what_is_shown_and_what_a_plan_adds(ablated):
    report = (ablated.folder / "results/ablation/report.html").read_text()
    assert "results/ablation/table.html" in report
    page = (ablated.folder / "results/ablation/table.html").read_text()
    assert "<p>trio: without spikes PSNR is " in page
    jobs = Counter(job.rule for job in ablated.plan("ablation_trio", "train_trio"))
    assert jobs == {"ablation_of_preset": 1, "ablation_report_of_preset": 1}
    # Everything else is as without an ablation.
    assert not any(job.rule in ("train", "evaluate") for job in ablated.plan("all"))


def test_what_cannot_be_compared_is_told_before_anything_is_computed(clone):
    done = clone.snakemake("--cores", "1", "ablation_demo", "--config", "SET=DATA.CLIP_LEN=2")
    assert done.returncode == EXIT_USER_ERROR, done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
    assert re.search("preset demo has no ablation with shuffled spikes: .*CLIP_LEN is 2;", line)
    assert "Traceback" not in done.stdout
    assert not (clone.folder / "data").exists()


def test_derived_presets_are_made_like_any_other_and_no_targets_of_their_own(clone):
    assert "-without-spikes" not in clone.snakemake("--list").stdout
    jobs = clone.plan("results/train/demo-without-spikes/weights.safetensors")
    (train,) = [job for job in jobs if job.rule == "train"]
    assert train.wildcards == {"preset": "demo-without-spikes"}
