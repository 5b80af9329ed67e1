"""Every Snakemake command of the documentation, and the examples it shows."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.workflow.project import Project, make_tiny_data
from vrtspike.data.simulation.demo import SCENES, render

PAGES = (
    "README.md",
    "README.zh-CN.md",
    "docs/tutorial.md",
    "docs/zh/tutorial.md",
    "docs/clusters.md",
    "docs/datasets.md",
    "docs/architecture.md",
    "config/README.md",
)


@pytest.fixture
def project(repository, tmp_path) -> Project:
    """The project as it is cloned."""
    return Project.copy(repository, tmp_path / "project")


def commands_of(repository: Path, page: str, program: str) -> list[str]:
    """The lines of shell blocks that call a program, without comments."""
    text = (repository / page).read_text(encoding="utf-8")
    commands = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if language not in ("", "bash"):
            continue
        lines = [line.split(" #")[0].strip() for line in block.splitlines()]
        commands += [line for line in lines if line.startswith(f"{program} ")]
    return commands


def documented(repository: Path) -> list[str]:
    """All calls of Snakemake, without those that have placeholders."""
    commands = [line for page in PAGES for line in commands_of(repository, page, "snakemake")]
    return sorted({line for line in commands if "<" not in line and "my.yaml" not in line})


def example(repository: Path, file: str) -> str:
    """The contents that the tutorial gives a file: the block after the line that names it."""
    text = (repository / "docs/tutorial.md").read_text(encoding="utf-8")
    match = re.search(
        rf"`{re.escape(file)}`[^\n]*\n\n```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL
    )
    assert match is not None, file
    return match[1]


def plans(commands: list[str]) -> Iterator[list[str]]:
    """Arguments of dry runs: one for all targets of commands with the same other words."""
    targets: dict[tuple[str, ...], list[str]] = {}
    for command in commands:
        _, *words = shlex.split(re.sub(r" (?:--cores|-n) \d+| -n\b", "", command))
        number = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
        targets.setdefault(tuple(words[number:]), []).extend(words[:number])
    for options, names in targets.items():
        yield ["--dry-run", *dict.fromkeys(names), *options]


@pytest.mark.core
@pytest.mark.endurance
@pytest.mark.workflow
def test_every_documented_command_can_be_planned(repository, project):
    commands = documented(repository)
    assert len(commands) >= 10
    (project.folder / "data/frames/walk").mkdir(parents=True)
    project.write("config/sweeps/rates.yaml", example(repository, "config/sweeps/rates.yaml"))
    make_tiny_data(project.folder / "data/gopro_spike")  # a plan without data is no success
    for arguments in plans(commands):
        done = project.snakemake(*arguments)
        assert done.returncode == 0, f"{arguments}\n{done.stdout}"


@pytest.mark.parametrize("program", ["snakemake", "vrtspike"])
def test_the_tutorial_has_the_same_commands_in_both_languages(repository, program):
    commands = commands_of(repository, "docs/tutorial.md", program)
    assert len(commands) >= 2
    assert commands_of(repository, "docs/zh/tutorial.md", program) == commands


@pytest.mark.endurance
@pytest.mark.workflow
def test_frames_without_spikes_become_a_report_and_restored_frames(repository, project):
    """The tutorial's second path as it stands, with one sequence, and all that it restores."""
    frames = project.folder / "data/frames/walk"
    frames.mkdir(parents=True)
    for number, frame in enumerate(render(SCENES[0], np.random.default_rng(0), 64, 96, 16)):
        cv2.imwrite(str(frames / f"{number:06d}.png"), frame)
    commands = commands_of(repository, "docs/tutorial.md", "snakemake")
    (path,) = (line for line in commands if "high_frame_rate.yaml" in line)
    done = project.snakemake(*shlex.split(path)[1:])
    assert done.returncode == 0, done.stdout
    results = project.folder / "results/high_frame_rate"
    assert (results / "report.html").is_file()
    assert (results / "index.html").is_file()

    shutil.copytree(results / "train/demo", project.folder / "results/train/demo")
    test = project.folder / "data/high_frame_rate/test/walk"
    shutil.copytree(test / "blur", project.folder / "my_frames")
    shutil.copytree(test / "spike", project.folder / "my_spikes")
    blurry = [cv2.imread(str(frame)) for frame in sorted((test / "blur").iterdir())]
    video = cv2.VideoWriter(
        str(project.folder / "my_video.mp4"), cv2.VideoWriter.fourcc(*"mp4v"), 24, (96, 64)
    )
    for frame in blurry:
        video.write(frame)
    video.release()
    calls = commands_of(repository, "docs/tutorial.md", "vrtspike")
    for call in calls:
        done = project.python("-m", *shlex.split(call))
        assert done.returncode == 0, f"{call}\n{done.stdout}{done.stderr}"
    assert len(list((project.folder / "restored/restored").iterdir())) == len(blurry)
    assert (project.folder / "restored_video/side_by_side.mp4").is_file()
