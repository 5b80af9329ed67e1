"""A sweep that is stopped in its midst, here and on a Slurm cluster, and continued."""

from __future__ import annotations

import json
import signal

import pandas as pd
import pytest

from tests.endurance.submitted import TIMEOUT_S, OnCluster
from tests.faults.processes import started
from tests.workflow.project import Project, tiny_project

pytestmark = [pytest.mark.endurance, pytest.mark.workflow, pytest.mark.slow]
pytestmark.append(pytest.mark.timeout(TIMEOUT_S))

STEPS = 24
SWEEP = """\
BASE: tiny
GRID:
  TRAIN.OPTIM.LR: [1.0e-3, 2.0e-3]
LIST:
  - {TRAIN.EMA: 0.9}
"""


@pytest.fixture(scope="module")
def project(repository, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A sweep of three presets that save after every step; its data is ready."""
    project = tiny_project(repository, tmp_path_factory.mktemp("sweep") / "project")
    tiny = (project.folder / "config/presets/tiny.yaml").read_text()
    tiny = tiny.replace("MAX_STEPS: 2", f"MAX_STEPS: {STEPS}\n  SAVE_EVERY_STEPS: 1")
    # Without its network for optical flow a step is five times as fast.
    project.write(
        "config/presets/tiny.yaml", tiny.replace("  VRT:\n", "  VRT:\n    PA_FRAMES: 0\n")
    )
    project.write("config/config.yaml", "DATA: {ROOT: data/tiny}\nPRESETS: [tiny]\nGPUS: 0\n")
    project.write("config/sweeps/rates.yaml", SWEEP)
    project.make("results/data/tiny/k8/dataset.json")
    return project


def records(project: Project) -> dict[str, dict]:
    """What each run of the sweep that has begun tells about itself."""
    found = (project.folder / "runs").glob("rates-*/*/run.json")
    return {path.parent.parent.name: json.loads(path.read_text()) for path in found}


def is_in_its_midst(project: Project) -> bool:
    """One training has ended, and another has saved some of its steps."""
    known = list(records(project).values())
    ended = [each["status"] == "finished" for each in known]
    begun = [2 <= each["step"] < STEPS for each in known if each["status"] == "running"]
    return any(ended) and any(begun)


def check_continued(project: Project, stopped: dict[str, dict]) -> pd.DataFrame:
    """What was done stands, what was stopped went on from there; returns the table."""
    found = records(project)
    assert len(found) == 3
    for name, record in found.items():
        assert record["status"] == "finished"
        starts = [start["step"] for start in record["starts"]]
        before = stopped.get(name, {"status": "none", "step": 0})
        if before["status"] == "running" and before["step"]:
            # A step may have been saved after the record was read.
            assert starts[0] == 0 < before["step"] <= starts[-1] < STEPS
            assert len(starts) == 2
        elif before["status"] == "finished":
            assert starts == [0]
    assert (project.folder / "results/sweep/rates/parallel_coordinates.html").is_file()
    return pd.read_csv(project.folder / "results/sweep/rates/table.csv")


def test_a_sweep_that_was_killed_goes_on_and_ends_as_without_it(project):
    with started(project, *project.command("--cores", "1", "sweep_rates")) as command:
        command.wait_for(lambda: is_in_its_midst(project))
        for process in command.alive():
            process.send_signal(signal.SIGKILL)
        assert command.wait() != 0
        assert command.orphans() == []
    stopped = records(project)
    project.make("sweep_rates")
    table = check_continued(project, stopped)
    assert table["steps"].tolist() == [STEPS] * 3
    project.make("sweep_rates", "--config", "RESULTS=again", "RUNS=runs_again")
    undisturbed = pd.read_csv(project.folder / "again/sweep/rates/table.csv")
    pd.testing.assert_frame_equal(table, undisturbed, check_exact=True)
    assert project.plan("sweep_rates") == []


def test_a_sweep_on_a_cluster_goes_on_after_snakemake_and_its_jobs_were_killed(
    cluster, repository, tmp_path
):
    project = tiny_project(repository, tmp_path / "project")
    on = OnCluster(project, cluster)
    on.preset("tiny-long", STEPS)
    project.write("config/sweeps/rates.yaml", SWEEP.replace("BASE: tiny", "BASE: tiny-long"))
    project.make("results/data/tiny/k8/dataset.json")
    with on.start("sweep_rates") as run:
        run.wait_until(lambda: any(each["step"] >= 2 for each in records(project).values()))
        run.kill()
    stopped = records(project)
    with on.start("sweep_rates") as run:
        run.finish()
    assert check_continued(project, stopped)["steps"].tolist() == [STEPS] * 3
