"""A job on many sequences that dies: what is done stays done, and nothing half."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.faults.processes import started, stop_at
from tests.workflow.project import CONFIG, Project, tiny_project
from vrtspike.data.simulation.demo import SCENES, render
from vrtspike.data.simulation.sequence import write_sequence

pytestmark = [pytest.mark.endurance, pytest.mark.workflow]

SEQUENCES = 20
TARGET = "results/data/tiny/k8/dataset.json"
STAGES = {
    "ingest": "results/data/tiny/ingest/*/GOPR*.json",
    "voxelize": "results/data/tiny/k8/*/GOPR*.json",
}
"""Programs, and what they make of each sequence."""
PUBLISHED = {"ingest": r"/ingest/.*/GOPR\w+\.json$", "voxelize": r"/k8/.*/GOPR\w+\.json$"}

STRIKES = [
    ("child", signal.SIGKILL, "a process was killed, as when memory is full"),
    ("program", signal.SIGKILL, "killed, as when memory is full"),
    ("program", signal.SIGTERM, "ended by SIGTERM"),
    ("snakemake", signal.SIGKILL, ""),
]


@pytest.fixture(scope="module")
def raw(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with more sequences than a job does in a moment."""
    project = tiny_project(repository, tmp_path_factory.mktemp("raw") / "project")
    project.write("config/config.yaml", CONFIG.replace("[tiny, other]", "[tiny]"))
    for number in range(SEQUENCES):
        frames = render(SCENES[number % len(SCENES)], np.random.default_rng(number), 128, 160, 67)
        folder = project.folder / f"data/tiny/train/GOPR9{number:03d}_11_00"
        write_sequence(folder, frames, frames_per_exposure=11)
    return project


@pytest.mark.parametrize("program", STAGES)
def test_sequences_that_are_done_stay_when_their_job_dies(raw, tmp_path, program):
    shutil.copytree(raw.folder, tmp_path / "struck")
    project = Project(tmp_path / "struck")
    done: dict[Path, tuple[int, int]] = {}

    def look() -> dict[Path, tuple[int, int]]:
        files = project.folder.glob(STAGES[program])
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}

    for role, number, text in STRIKES:
        # One sequence is done by now, and another one nearly.
        event = stop_at(project.folder, 2, publishes=PUBLISHED[program])
        call = project.command("--cores", "2", TARGET)
        with started(project, *call, environment=event) as command:
            with command.held(program):
                assert len(look()) > len(done)
                assert done.items() <= look().items()
                done = look()
                assert len(done) < SEQUENCES, "the job was over before it was struck"
                (struck,) = command.find("snakemake" if role == "snakemake" else program)
                (struck.children()[0] if role == "child" else struck).send_signal(number)
            assert command.wait() != 0
            assert command.orphans() == []
            assert text in command.text
        # What a process had begun it may have finished.
        assert done.items() <= look().items()
        done = look()
    project.make(TARGET)
    assert done.items() <= look().items()
    assert len(look()) == SEQUENCES + 3
