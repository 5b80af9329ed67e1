"""Every Snakemake command of the documentation, and the examples it shows."""

from __future__ import annotations

import csv
import re
import shlex
import subprocess
import sys
from pathlib import Path

import cv2
import pytest

from tests.workflow.project import Project
from vrtspike.config.workflow import load_workflow
from vrtspike.deblurring.videos import Videos

PAGES = (
    "README.md",
    "README.zh-CN.md",
    "docs/tutorial.md",
    "docs/clusters.md",
    "docs/architecture.md",
    "config/README.md",
)


def documented(repository: Path) -> list[str]:
    """The lines of shell blocks that call Snakemake, without placeholders and comments."""
    commands = []
    for page in PAGES:
        text = (repository / page).read_text(encoding="utf-8")
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            if language not in ("", "bash"):
                continue
            lines = [line.split(" #")[0].strip() for line in block.splitlines()]
            commands += [line for line in lines if line.startswith("snakemake")]
    return sorted({line for line in commands if "<" not in line and "my.yaml" not in line})


_TARGET = re.compile(r"[a-z_]+")


def planned_at_once(commands: list[str]) -> list[list[str]]:
    """The commands' words; those that end with a target and differ in nothing else are one plan.

    >>> planned_at_once(["snakemake --cores 1 all", "snakemake -n", "snakemake --cores 1 weights"])
    [['--cores', '1', 'all', 'weights'], ['-n']]
    """
    plans: dict[tuple[str, ...], list[str]] = {}
    for command in commands:
        words = shlex.split(command)[1:]
        split = len(words) - 1 if words and _TARGET.fullmatch(words[-1]) else len(words)
        plans.setdefault(tuple(words[:split]), []).extend(words[split:])
    return [[*options, *targets] for options, targets in plans.items()]


@pytest.mark.endurance
@pytest.mark.workflow
def test_every_documented_command_can_be_planned(repository, clone):
    commands = documented(repository)
    assert len(commands) >= 10
    (clone.folder / "data/frames/walk").mkdir(parents=True)
    for words in planned_at_once(commands):
        done = clone.snakemake("--dry-run", *words)
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}"


def test_the_help_of_the_trainer_names_files_that_the_demo_makes(repository, monkeypatch):
    monkeypatch.chdir(repository)
    done = subprocess.run(
        [sys.executable, "scripts/train.py", "--help"], capture_output=True, text=True, check=True
    )
    (preset,) = re.findall(r"--preset (\S+\.yaml)", done.stdout)
    (dataset,) = re.findall(r"--dataset (\S+\.json)", done.stdout)
    plan = load_workflow(["config/config.yaml"])
    assert preset == f"{plan.settings.PRESET_DIR}/demo.yaml"
    bins, name = plan.preset("demo").DATA.K, Videos(plan).dataset("demo").name
    assert dataset == f"{plan.settings.RESULTS}/data/{name}/k{bins}/dataset.json"


@pytest.mark.workflow
@pytest.mark.shared
@pytest.mark.endurance
def test_frames_of_a_high_speed_camera_become_a_report(shared, repository, tmp_path):
    project = Project.copy(repository, tmp_path / "project")
    frames = project.folder / "data/frames/walk"
    frames.mkdir(parents=True)
    for path in sorted((shared / "samples/sharp_sequence").glob("*.png")):
        picture = cv2.imread(str(path))
        cv2.imwrite(str(frames / path.name), picture[160:320, 300:540])  # a part is quicker
    project.make(
        "report",
        "--configfile",
        "config/examples/high_frame_rate.yaml",
        "--config",
        "SET=TRAIN.MAX_STEPS=2 DATA.CROP_SIZE=32",
    )
    results = project.folder / "results/high_frame_rate"
    with (results / "evaluate/demo/sequences.csv").open(newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert row["sequence"] == "walk"
    assert int(row["frames"]) == 3
    assert 20 < float(row["psnr_blur"]) < 40
    assert "</html>" in (results / "report.html").read_text()[-200:]
