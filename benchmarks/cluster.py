"""What a cluster's queue costs many small sequences, against the same work on this machine.

python benchmarks/cluster.py --sequences 200 --rounds 5 [--arrays] [--output benchmarks/results]

Tiny sequences go from raw files to dataset.json in turns: on two cores of this machine and as jobs
of a Slurm cluster of two nodes that the tests start here (needs Slurm and root); with --arrays also
as job arrays of it. The cores are the same ones, so that what differs is the queue and what starts
in a job. On a machine that others use take the ratios, each of two runs one after the other.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vrtspike.errors import UserError
from vrtspike.system.cli import positive_int, run

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))  # the tests bring the cluster and the project

from tests.workflow.cluster import Cluster, missing, start_cluster  # noqa: E402
from tests.workflow.project import Project, tiny_project  # noqa: E402
from vrtspike.deblurring.data.simulation.demo import SCENES, render  # noqa: E402
from vrtspike.deblurring.data.simulation.sequence import write_sequence  # noqa: E402

TARGET = "results/data/tiny/k8/dataset.json"
SITE = (
    *("--profile", "workflow/profiles/slurm"),
    *("--default-resources", "slurm_partition=test", "mem_mb=1000", "runtime=20"),
    # Two nodes on two cores.
    *("--set-threads", "ingest=1", "voxelize=1"),
)
CORES = 2


@dataclass(frozen=True)
class Way:
    """A way to run the workflow, and what it took.

    Attributes:
        name: in the table.
        seconds: of the whole call.
        jobs: in the cluster's queue; tasks of an array count.
        submissions: calls of ``sbatch``.
    """

    name: str
    seconds: float
    jobs: int
    submissions: int


def make_sequences(root: Path, count: int) -> None:
    """A tiny sequence for the test split, others for training, each with frames of its own."""
    for split, number, copies in (("train", 0, count - 1), ("test", 8, 1)):
        scene = SCENES[number]
        frames = np.stack([*render(scene, np.random.default_rng(number), 64, 96, 3 * 11 + 1)])
        for copy in range(copies):
            # The gate refuses equal frames.
            moved = np.roll(frames, (copy // 96, copy % 96), axis=(1, 2))
            write_sequence(root / split / f"{scene.name}_{copy:04}", moved, frames_per_exposure=11)


def measure(project: Project, name: str, cluster: Cluster | None, *options: str) -> Way:
    """Run the data's stages from nothing."""
    shutil.rmtree(project.folder / "results", ignore_errors=True)
    environment = {**project.environment, "OMP_NUM_THREADS": "1"}
    known = set() if cluster is None else set(cluster.jobs())
    if cluster is not None:
        environment |= cluster.environment
    began = time.monotonic()
    done = subprocess.run(
        project.command(TARGET, *options),
        cwd=project.folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    seconds = time.monotonic() - began
    if done.returncode != 0:
        raise UserError(f"{name}: the run failed:\n{done.stdout}{done.stderr}")
    listed = [] if cluster is None else list_tasks(cluster)
    jobs = [job for job in listed if job.partition("_")[0] not in known]
    return Way(name, seconds, len(jobs), len({job.partition("_")[0] for job in jobs}))


def list_tasks(cluster: Cluster) -> list[str]:
    """All jobs of the queue, each task of an array by itself."""
    return cluster.call("squeue", "-h", "--array", "-t", "all", "-o", "%i").split()


def measure_all(sequences: int, rounds: int, arrays: bool) -> list[list[Way]]:
    """All ways, one after the other, so many times; the first is this machine's."""
    if reason := missing():
        raise UserError(f"this benchmark {reason}")
    with tempfile.TemporaryDirectory() as folder, start_cluster() as cluster:
        project = tiny_project(REPOSITORY, Path(folder) / "project")
        shutil.rmtree(project.folder / "data/tiny")
        make_sequences(project.folder / "data/tiny", sequences)
        in_arrays = ("--slurm-vrtspike-array-jobs", "ingest,voxelize")
        # Python compiles what it has not met in this folder.
        project.make("--dry-run", TARGET)
        found = []
        for _ in range(rounds):
            ways = [
                measure(project, "this machine", None, "--cores", str(CORES)),
                measure(project, "cluster", cluster, *SITE),
            ]
            if arrays:
                ways.append(measure(project, "cluster, job arrays", cluster, *SITE, *in_arrays))
            print(*(f"{way.name}: {way.seconds:.1f} s" for way in ways), sep="; ", flush=True)
            found.append(ways)
        return found


def table_row(sequences: int, rounds: list[list[Way]], number: int) -> list[str]:
    """What a way took: medians, and the median, least and largest ratio to this machine."""
    ways = [found[number] for found in rounds]
    ratios = [found[number].seconds / found[0].seconds for found in rounds]
    middle = statistics.median(way.seconds for way in ways)
    spread = [statistics.median(ratios), min(ratios), max(ratios)]
    asked = (max(way.jobs for way in ways), max(way.submissions for way in ways))
    begin = [ways[0].name, str(sequences), str(len(rounds)), f"{middle:.0f}"]
    return [*begin, *(f"{value:.2f}" for value in spread), *map(str, asked)]


def main() -> None:
    """Measure and print, or write a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sequences", type=positive_int, default=200)
    parser.add_argument("--rounds", type=positive_int, default=1, help="runs of each way")
    parser.add_argument("--arrays", action="store_true", help="job arrays, too")
    parser.add_argument("--output", type=Path, help="folder for cluster.csv")
    arguments = parser.parse_args()
    rounds = measure_all(arguments.sequences, arguments.rounds, arguments.arrays)
    rows = [table_row(arguments.sequences, rounds, number) for number in range(len(rounds[0]))]
    header = ["where", "sequences", "rounds", "seconds", "ratio", "least", "most"]
    header += ["jobs", "submissions"]
    for row in [header, *rows]:
        print("\t".join(row))
    if arguments.output is not None:
        arguments.output.mkdir(parents=True, exist_ok=True)
        with (arguments.output / "cluster.csv").open("w", newline="") as stream:
            csv.writer(stream, lineterminator=os.linesep).writerows([header, *rows])


if __name__ == "__main__":
    run(main)
