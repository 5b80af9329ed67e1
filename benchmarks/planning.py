"""How long Snakemake plans a data set of many sequences that are there but not ingested yet.

python benchmarks/planning.py --sequences 2000 [--output benchmarks/results]
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from vrtspike.cli import run
from vrtspike.data.simulate_sequence import write_sequence

REPOSITORY = Path(__file__).resolve().parent.parent
TARGET = "results/data/many/k8/dataset.json"


def snakemake(folder: Path, *arguments: str) -> str:
    """Run Snakemake in a copy of the project; return what it printed."""
    command = [sys.executable, "-m", "snakemake", "--configfile", "many.yaml", *arguments]
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True, check=True)
    return done.stdout + done.stderr


def main() -> None:
    """Make the sequences, survey them, plan, and print the times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sequences", type=int, default=2000)
    parser.add_argument("--output", type=Path, help="folder for planning.csv")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("config", "rules", "scripts", "workflow", "src"):
            shutil.copytree(REPOSITORY / part, folder / part)
        shutil.copy(REPOSITORY / "environment.yml", folder)
        (folder / "many.yaml").write_text("SETTINGS: {DATA: {ROOT: data/many, K: 8}}\n")
        os.environ["PYTHONPATH"] = str(folder / "src")
        first = folder / "data/many/train/s00000"
        frames = np.random.default_rng(0).integers(0, 256, (7, 32, 32, 3), dtype=np.uint8)
        write_sequence(first, frames, frames_per_exposure=3)
        for number in range(1, arguments.sequences):
            split = "train" if number % 10 else "test"
            shutil.copytree(first, folder / f"data/many/{split}/s{number:05d}")
        snakemake(folder, "--cores", "1", "results/data/many/survey.json")
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        printed = snakemake(folder, "--cores", "1", "--dry-run", "--quiet", "rules", "--", TARGET)
        clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    jobs = int(printed.split("\ntotal")[1].split()[0])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    rows = [
        ("sequences", arguments.sequences, ""),
        ("jobs planned", jobs, ""),
        ("planning, CPU time", cpu, "s"),
        ("planning, by the clock", clock, "s"),
        ("planning, peak memory", after.ru_maxrss / 1e3, "MB"),
    ]
    for name, value, unit in rows:
        print(f"{name:30} {value:10.1f} {unit}")
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        with (arguments.output / "planning.csv").open("w", newline="") as stream:
            table = csv.writer(stream)
            table.writerow(["figure", "value", "unit"])
            table.writerows((name, f"{value:.4g}", unit) for name, value, unit in rows)


if __name__ == "__main__":
    run(main)
