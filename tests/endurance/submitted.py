"""Runs of the workflow whose jobs a Slurm cluster runs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from tests.faults.processes import Command, started, stop_at
from tests.workflow.cluster import Cluster
from tests.workflow.project import Project

SECOND_STEP = r"/step_0+2\.pt$"
"""The checkpoint of it is about to be there: that of the first one is."""

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
    settings = [
        f"{rule}:{key}={v}" for rule, pairs in resources.items() for key, v in pairs.items()
    ]
    site = [word for option, values in SITE.items() for word in (option, *values)]
    return ["--profile", "workflow/profiles/slurm", *site, "--set-resources", *settings]


@dataclass
class OnCluster:
    """A project whose jobs a cluster runs."""

    project: Project
    cluster: Cluster

    @contextlib.contextmanager
    def start(self, *arguments: str, stops_at: str = "", **train: str) -> Iterator[Command]:
        """Start Snakemake; with the block it ends, and all jobs of the cluster.

        Args:
            arguments: targets, then options.
            stops_at: a pattern of a file's path; a process that publishes it stops itself.
            train: resources of the training, over the usual ones.
        """
        event = stop_at(self.project.folder, publishes=stops_at) if stops_at else {}
        try:
            with self.call(*arguments, *options(**train), environment=event) as command:
                yield command
        finally:
            self.cluster.end_jobs()

    def call(
        self, *arguments: str, environment: dict[str, str]
    ) -> contextlib.AbstractContextManager[Command]:
        """Start Snakemake; with the block it ends, and all processes of its jobs.

        Args:
            arguments: targets and options.
            environment: more variables, such as those of :func:`stop_at`.
        """
        variables = {**self.environment, **environment}
        return started(self.project, *self.project.command(*arguments), environment=variables)

    @property
    def environment(self) -> dict[str, str]:
        """That of the project, on the cluster; a process computes with one thread."""
        return {**self.project.environment, **self.cluster.environment, "OMP_NUM_THREADS": "1"}

    def preset(self, name: str, steps: int) -> None:
        """Make a preset that saves after every step."""
        training = f"{{MAX_STEPS: {steps}, EPOCHS: {steps}, SAVE_EVERY_STEPS: 1}}"
        self.project.write(f"config/presets/{name}.yaml", f"BASE: tiny\nTRAIN: {training}\n")

    def saved(self, preset: str) -> int:
        """Steps that the run of a preset has saved; 0 before it has begun."""
        return self.record(preset).get("step", 0)

    def record(self, preset: str) -> dict:
        """Record of the only run of a preset; empty before it has begun."""
        records = list((self.project.folder / "runs" / preset).glob("*/run.json"))
        assert len(records) <= 1
        return json.loads(records[0].read_text()) if records else {}

    def published(self, preset: str) -> dict:
        """The record of a preset's result."""
        path = self.project.folder / "results/train" / preset / "run.json"
        return json.loads(path.read_text())
