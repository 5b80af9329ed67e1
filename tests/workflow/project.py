"""A copy of the project in a folder of its own, and real Snakemake runs in it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vrtspike.data.simulation.demo import SCENES, render
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.system.home import HOME_VARIABLE

PARTS = ("workflow", "rules", "scripts", "src", "config", "environment.yml")

TINY = """\
DATA: {CROP_SIZE: 32, CLIP_LEN: 2, NUM_VOXEL_BINS: 8, CACHE_SIZE_GB: 0.1}
MODEL:
  VRT_DEPTHS: [1, 1, 1, 1, 1, 1, 1, 1]
  WINDOW_SIZE: [2, 4, 4]
  SPIKE_TSA: {HEADS: 2}
  FUSE: {HEADS: 2}
  VRT:
    EMBED_DIMS: [8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]
    NUM_HEADS: 2
    DEFORMABLE_GROUPS: 2
    USE_CHECKPOINT_ATTN: false
    USE_CHECKPOINT_FFN: false
TRAIN:
  MAX_STEPS: 2
  GRADIENT_ACCUMULATION_STEPS: 1
  PRECISION: "32"
  SCHED: {WARMUP_STEPS: 1}
DATALOADER: {TOTAL_WORKERS: 0}
LOG: {VAL_EVERY_STEPS: 100}
TEST: {METRICS: [psnr, ssim, tof], NUM_WORKERS: 0, TILE: {SIZE: 96, OVERLAP: 16}}
"""

CONFIG = """\
DATA: {ROOT: data/tiny}
PRESETS: [tiny, other]
GPUS: 0
"""

SEQUENCES = (("train", 0), ("train", 1), ("test", 8))
"""Split and scene of the sequences of the tiny data set."""


_STAGE = re.compile(r"^(\w+) +(\d+)/(\d+) +(?:[\d.]+ s|[\d:]+)$", re.MULTILINE)


def stages(output: str) -> dict[str, tuple[int, int]]:
    """Stages that a run has told: finished jobs and all of them, by name, in order."""
    return {name: (int(done), int(total)) for name, done, total in _STAGE.findall(output)}


@dataclass(frozen=True)
class Project:
    """A copy of the project in a folder of its own."""

    folder: Path

    @classmethod
    def copy(cls, repository: Path, folder: Path) -> Project:
        """Copy what a clone of the project would hold."""
        folder.mkdir(parents=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--", *PARTS],
            cwd=repository,
            capture_output=True,
            text=True,
            check=True,
        )
        for name in listed.stdout.rstrip("\0").split("\0"):
            if (repository / name).exists():  # and is not deleted by a change under way
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(repository / name, folder / name)
        return cls(folder)

    @property
    def environment(self) -> dict[str, str]:
        """This copy's package comes before the installed one, and there is no cluster.

        Snakemake's Slurm plugin asks a cluster's controller whenever Snakemake starts, and waits
        10 s for it where Slurm is installed but not running.
        """
        paths = [str(self.folder / "src"), os.environ.get("PYTHONPATH", "")]
        path = os.pathsep.join(filter(None, paths))
        # The copy's own folder of the workflow, not that of tests without Snakemake.
        others = {"SLURM_CONF": os.devnull, HOME_VARIABLE: ""}
        return {**os.environ, "PYTHONPATH": path, **others}

    @staticmethod
    def command(*arguments: str) -> list[str]:
        """A Snakemake call, with the Python of the tests."""
        return [sys.executable, "-m", "snakemake", *arguments]

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake to its end, whatever that is; stderr is part of stdout."""
        return self.run(self.command(*arguments), stderr=subprocess.STDOUT)

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python with the copy's package."""
        return self.run([sys.executable, *arguments], stderr=subprocess.PIPE)

    def run(self, command: list[str], stderr: int) -> subprocess.CompletedProcess[str]:
        """Run a program in the copy."""
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=850,  # pytest's own limit is shorter for most tests
        )

    def make(self, *arguments: str) -> str:
        """Run Snakemake on two cores; it must succeed. Returns its output."""
        done = self.snakemake("--cores", "2", *arguments)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def why(self, *arguments: str) -> dict[str, str]:
        """Stages that would run, as ``vrtspike why`` names them, and its reasons."""
        done = self.python("-m", "vrtspike", "why", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = [line for line in done.stdout.splitlines() if not line.startswith("together ")]
        if lines == ["nothing to be done"]:
            return {}
        stages = [line.partition(": ") for line in lines]
        return {title.partition(" (")[0]: reason for title, _, reason in stages}

    def write(self, path: str, text: str) -> Path:
        """Write a file of the copy."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target

    def replace(self, path: str, old: str, new: str) -> None:
        """Replace a text in a file of the copy."""
        target = self.folder / path
        text = target.read_text(encoding="utf-8")
        assert old in text
        target.write_text(text.replace(old, new, 1), encoding="utf-8")

    @contextlib.contextmanager
    def replaced(self, path: str, old: str, new: str) -> Iterator[None]:
        """Replace a text in a file of the copy for as long as the body runs."""
        target = self.folder / path
        text = target.read_text(encoding="utf-8")
        self.replace(path, old, new)
        try:
            yield
        finally:
            target.write_text(text, encoding="utf-8")


def make_tiny_data(root: Path) -> None:
    """Three sequences of three exposures of 64 x 96 pixels."""
    for split, number in SEQUENCES:
        make_sequence(root, split, number)


def make_sequence(root: Path, split: str, number: int) -> None:
    """A sequence of three exposures of 64 x 96 pixels, in the folder that its scene names."""
    scene = SCENES[number]
    frames = render(scene, np.random.default_rng(number), 64, 96, 3 * 11 + 1)
    write_sequence(root / split / scene.name, frames, frames_per_exposure=11)


def tiny_project(repository: Path, folder: Path) -> Project:
    """A copy with a tiny data set and the presets ``tiny``, ``other`` and ``long``."""
    project = Project.copy(repository, folder)
    shutil.rmtree(project.folder / "config/presets")
    _fill_tiny(project)
    return project


@dataclass(frozen=True)
class OutsideProject(Project):
    """A project in a folder outside the clone whose workflow it runs."""

    clone: Project

    @property
    def environment(self) -> dict[str, str]:
        """That of the clone."""
        return self.clone.environment


def tiny_outside_project(repository: Path, folder: Path) -> Project:
    """A project of ``vrtspike init`` with what :func:`tiny_project` has; the clone lies beside."""
    clone = Project.copy(repository, folder.with_name("clone"))
    made = clone.python("-m", "vrtspike", "init", str(folder))
    assert made.returncode == 0, made.stderr
    project = OutsideProject(folder, clone)
    _fill_tiny(project)
    return project


def _fill_tiny(project: Project) -> None:
    """Write the tiny data set, its presets and the configuration."""
    project.write("config/presets/tiny.yaml", TINY)
    project.write("config/presets/other.yaml", "BASE: tiny\nTRAIN:\n  OPTIM: {LR: 1.0e-4}\n")
    project.write(
        "config/presets/long.yaml", "BASE: tiny\nTRAIN:\n  MAX_STEPS: 12\n  SAVE_EVERY_STEPS: 1\n"
    )
    project.write("config/config.yaml", CONFIG)
    make_tiny_data(project.folder / "data/tiny")
