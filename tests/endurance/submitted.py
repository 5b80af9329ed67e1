"""Runs of the workflow whose jobs a Slurm cluster runs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.faults.processes import is_stopped, resume, stop_all, stop_at
from tests.workflow.cluster import Cluster
from tests.workflow.project import Project

SECOND_STEP = r"/step_0+2\.pt$"
"""The checkpoint of it is about to be there: that of the first one is."""

PATIENCE_S = 600.0
"""Far more than anything takes that is waited for."""
TIMEOUT_S = 1800
"""Of a test."""

# What the profile marks as a matter of the site, for a cluster this small.
SITE = {
    "--default-resources": ("slurm_partition=test", "mem_mb=2000", "runtime=20"),
    "--set-threads": ("train=1", "evaluate=1", "ingest=1", "voxelize=1"),
}
RESOURCES = {
    "train": {"slurm_partition": "test", "mem_mb": "4000", "runtime": "20"},
    "evaluate": {"slurm_partition": "test", "mem_mb": "4000", "runtime": "20", "gpu": "0"},
}


def options(**train: str) -> list[str]:
    """Arguments that fit the profile to the test's cluster.

    Args:
        train: resources of the training, over the usual ones.
    """
    resources = {**RESOURCES, "train": {**RESOURCES["train"], **train}}
    given = [f"{rule}:{key}={v}" for rule, pairs in resources.items() for key, v in pairs.items()]
    site = [word for option, values in SITE.items() for word in (option, *values)]
    return ["--profile", "workflow/profiles/slurm", *site, "--set-resources", *given]


def _processes(*words: str) -> list[psutil.Process]:
    """The processes on this machine whose command lines have words that begin like these."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
            given = process.cmdline()
            if all(any(each.startswith(word) for each in given) for word in words):
                found.append(process)
    return found


def trainers(preset: str) -> list[psutil.Process]:
    """The launchers of a preset's training on this machine."""
    return [
        process
        for process in _processes("scripts/launch_training.py", preset)
        if "python" in process.name()
    ]


@dataclass
class Run:
    """A Snakemake that submits jobs, and what it says."""

    process: subprocess.Popen[str]
    log: Path

    @property
    def output(self) -> str:
        """What it has said so far."""
        return self.log.read_text()

    def wait_until(self, happened: Callable[[], bool]) -> None:
        """Wait for something that this run brings about."""
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            assert self.process.poll() is None, f"it ended before:\n{self.output}"
            assert time.monotonic() < deadline, f"in vain:\n{self.output}"
            time.sleep(0.1)

    @contextlib.contextmanager
    def held(self, preset: str) -> Iterator[None]:
        """Let a training stand still within the block, which begins when one has stopped itself."""
        self.wait_until(lambda: any(map(is_stopped, _processes(f"runs/{preset}/"))))
        stopped = stop_all(_processes(f"runs/{preset}/"))
        try:
            yield
        finally:
            resume(stopped)

    def finish(self) -> str:
        """Wait for its end, which must be a success; returns what it said."""
        status = self.process.wait(PATIENCE_S)
        assert status == 0, self.output
        return self.output

    def kill(self) -> None:
        """Kill Snakemake; its jobs live on."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def started(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[Run]:
    """Start Snakemake in a project's folder; it is killed with the block, and its jobs are not."""
    handle, log = tempfile.mkstemp(prefix="snakemake-", suffix=".log", dir=folder)
    with os.fdopen(handle, "w") as stream:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=stream, stderr=subprocess.STDOUT, text=True
        )
    try:
        yield Run(process, Path(log))
    finally:
        process.kill()
        process.wait()


@dataclass
class OnCluster:
    """A project whose jobs a cluster runs."""

    project: Project
    cluster: Cluster

    @contextlib.contextmanager
    def start(self, *arguments: str, stops_at: str = "", **train: str) -> Iterator[Run]:
        """Start Snakemake; with the block it ends, and all jobs of the cluster.

        Args:
            arguments: targets, then options.
            stops_at: a pattern of a file's path; see :meth:`Run.held`.
            train: resources of the training, over the usual ones.
        """
        command = self.project.command(*arguments, *options(**train))
        event = stop_at(self.project.folder, publishes=stops_at) if stops_at else {}
        try:
            with started(command, self.project.folder, {**self.environment, **event}) as run:
                yield run
        finally:
            self.clear()

    @property
    def environment(self) -> dict[str, str]:
        """That of the project, on the cluster; a process computes with one thread."""
        return {**self.project.environment, **self.cluster.environment, "OMP_NUM_THREADS": "1"}

    def preset(self, name: str, steps: int) -> None:
        """Make a preset that saves after every step."""
        training = f"{{MAX_STEPS: {steps}, EPOCHS: {steps}, SAVE_EVERY_STEPS: 1}}"
        self.project.write(f"config/presets/{name}.yaml", f"BASE: tiny\nTRAIN: {training}\n")

    def clear(self) -> None:
        """End all jobs."""
        while jobs := self.cluster.call("squeue", "-h", "-o", "%i").split():
            # They may end by themselves meanwhile.
            with contextlib.suppress(subprocess.CalledProcessError):
                self.cluster.call("scancel", "--signal=KILL", "--full", *jobs)
                self.cluster.call("scancel", *jobs)
            time.sleep(0.2)

    def saved(self, preset: str) -> int:
        """Steps that the run of a preset has saved; 0 before it has begun."""
        return self.record(preset).get("step", 0)

    def record(self, preset: str) -> dict:
        """What the one run of a preset tells about itself; nothing before it has begun."""
        found = list((self.project.folder / "runs" / preset).glob("*/run.json"))
        assert len(found) <= 1
        return json.loads(found[0].read_text()) if found else {}

    def published(self, preset: str) -> dict:
        """The record of a preset's result."""
        path = self.project.folder / "results/train" / preset / "run.json"
        return json.loads(path.read_text())
