"""A job on many sequences that dies: what is done stays done, and nothing half."""

from __future__ import annotations

import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tests.faults.processes import started
from tests.faults.results import leftovers
from tests.workflow.project import CONFIG, Project, tiny_project
from vrtspike.deblurring.data.simulation.demo import SCENES, render
from vrtspike.deblurring.data.simulation.sequence import write_sequence

pytestmark = [pytest.mark.endurance, pytest.mark.workflow, pytest.mark.timeout(900)]

SEQUENCES = 20
TARGET = "results/data/tiny/k8/dataset.json"
STAGES = {
    "ingest": "results/data/tiny/ingest/*/GOPR*.json",
    "voxelize": "results/data/tiny/k8/*/GOPR*.json",
}
"""Programs, and what they make of each sequence."""

STRIKES = [
    ("child", signal.SIGKILL, "was ended by SIGKILL, as when memory is full"),
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


@dataclass
class Work:
    """What a stage has made so far."""

    project: Project
    program: str
    done: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def look(self) -> dict[Path, tuple[int, int]]:
        """Which files there are, and whether they are the same as before."""
        found = self.project.folder.glob(STAGES[self.program])
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}

    def has_grown(self) -> bool:
        """Whether there is more than when it was last noted."""
        return len(self.look()) > len(self.done)

    def note(self) -> None:
        """All that was done has to be there as it was."""
        now = self.look()
        assert self.done.items() <= now.items()
        self.done = now


@pytest.mark.parametrize("program", STAGES)
def test_sequences_that_are_done_stay_when_their_job_dies(raw, tmp_path, program):
    for name in ("whole", "struck"):
        shutil.copytree(raw.folder, tmp_path / name)
    whole, project = Project(tmp_path / "whole"), Project(tmp_path / "struck")
    whole.make(TARGET)
    work = Work(project, program)
    for role, number, text in STRIKES:
        with started(project, *project.command("--cores", "2", TARGET)) as command:
            with command.held(program, until=work.has_grown):
                work.note()
                assert len(work.done) < SEQUENCES, "the job was over before it was struck"
                (struck,) = command.find("snakemake" if role == "snakemake" else program)
                (struck.children()[0] if role == "child" else struck).send_signal(number)
            assert command.wait() != 0
            assert command.orphans() == []
            assert text in command.text
        # What a process had begun it may have finished.
        work.note()
    project.make(TARGET)
    work.note()
    tops = [each.folder / "results/data" for each in (project, whole)]
    files = [sorted(p.relative_to(top) for p in top.rglob("*") if p.is_file()) for top in tops]
    assert files[0] == files[1]
    for name in files[0]:
        assert (tops[0] / name).read_bytes() == (tops[1] / name).read_bytes(), name
    assert leftovers(project.folder) == []
