"""What many sequences cost: planning, checking and merging, and the memory of it.

python benchmarks/scale.py --sequences 2000 --ingest 10 40 [--output benchmarks/results]

A tiny sequence is copied `--sequences` times. Planning is timed with nothing done and with
everything done; gate, alignment table and statistics run through the workflow's rules, and by
themselves, with manifests of `--frames` frames each, made from one that was ingested. Then whole
data sets of `--ingest` sequences go through the workflow from raw files to dataset.json.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vrtspike.cli import run
from vrtspike.data.gate.ingest import ingest_sequence
from vrtspike.data.raw.versions import source_version
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.data.store.build import build_store
from vrtspike.files import read_json, write_json

REPOSITORY = Path(__file__).resolve().parent.parent
DATA = "data/many"
RESULTS = Path("results/data/many")
TARGETS = [str(RESULTS / "k8/dataset.json"), str(RESULTS / "alignment.csv")]
FIRST = "s00000"
Row = tuple[str, float, str]


@dataclass(frozen=True)
class Cost:
    """What a program took, the processes that it started included."""

    printed: str
    clock: float
    """Seconds."""
    cpu: float
    """Seconds of all processes."""
    own_memory: float
    """Peak of its own process, MB, as far as it was seen."""
    largest: float
    """Peak of the largest process, MB."""


def snakemake(folder: Path, *arguments: str) -> Cost:
    """Run Snakemake in a copy of the project."""
    return measure(folder, "-m", "snakemake", "--configfile", "many.yaml", *arguments)


def measure(folder: Path, *arguments: str) -> Cost:
    """Run Python in a copy of the project."""
    # No cluster: Snakemake's Slurm plugin waits 10 s for a controller that does not answer.
    surroundings = {"PYTHONPATH": str(folder / "src"), "SLURM_CONF": os.devnull}
    start, own = time.perf_counter(), 0.0
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env={**os.environ, **surroundings},
            stdout=output,
            stderr=output,
        )
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            own = max(own, peak_memory(process.pid))
            time.sleep(0.2)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        printed = output.read()
    if process.returncode:
        raise SystemExit(printed)
    clock = time.perf_counter() - start
    return Cost(printed, clock, used.ru_utime + used.ru_stime, own, used.ru_maxrss / 1e3)


def peak_memory(pid: int) -> float:
    """Peak resident memory of a process so far, MB; 0 if it has ended."""
    status = Path(f"/proc/{pid}/status").read_text()
    lines = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return float(lines[0].split()[1]) / 1e3 if lines else 0.0


def make_project(folder: Path, sequences: int) -> None:
    """Copy the project and write a data set of sequences that are all alike."""
    for part in ("config", "rules", "scripts", "workflow", "src"):
        shutil.copytree(REPOSITORY / part, folder / part)
    shutil.copy(REPOSITORY / "environment.yml", folder)
    data = {"ROOT": DATA, "K": 8, "CROP_SIZE": 32, "CLIP_LEN": 2}
    settings = {"DATA": data, "TRAIN": {"PROGRESSIVE": []}}
    write_json(folder / "many.yaml", {"SETTINGS": settings})  # YAML holds JSON
    first = folder / DATA / "train" / FIRST
    frames = np.random.default_rng(0).integers(0, 256, (7, 32, 32, 3), dtype=np.uint8)
    write_sequence(first, frames, frames_per_exposure=3)
    for split, name in list(names(sequences))[1:]:
        shutil.copytree(first, folder / DATA / split / name)


def names(sequences: int) -> Iterator[tuple[str, str]]:
    """Split and name of every sequence."""
    for number in range(sequences):
        yield "test" if number % 10 == 1 else "train", f"s{number:05d}"


def write_manifests(folder: Path, sequences: int, frames: int) -> None:
    """Ingest and build the first sequence; write the manifests of all as if they were like it."""
    root = folder / DATA
    ingested = folder / RESULTS / "ingest/train" / f"{FIRST}.json"
    version = source_version(root, FIRST, "train", ingested)
    found = ingest_sequence(root, "train", FIRST, blur_dir="blur", source_version=version)
    write_json(ingested, found)
    stored = build_store(root, ingested, 8, folder / RESULTS / "k8/train" / f"{FIRST}.json")
    found["frames"] = [dict(found["frames"][0], name=f"{n:06d}") for n in range(frames)]
    stored["frames"] = [f"{n:06d}" for n in range(frames)]
    for split, name in names(sequences):
        for stage, manifest in (("ingest", found), ("k8", stored)):
            write_quickly(folder / RESULTS / stage / split / f"{name}.json", manifest, split, name)


def write_quickly(path: Path, manifest: dict[str, Any], split: str, name: str) -> None:
    """Write a manifest for another sequence, without waiting for the disk."""
    text = json.dumps(manifest, indent=1)
    for old, new in ((f"train/{FIRST}", f"{split}/{name}"), (FIRST, name)):
        text = text.replace(old, new)
    text = text.replace('"split": "train"', f'"split": "{split}"')
    if manifest.get("files"):  # the gate knows sequences with equal pictures
        text = text.replace('"digest": "', f'"digest": "{name}')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def plan_rows(name: str, cost: Cost) -> list[Row]:
    """What a plan took."""
    return [
        (f"{name}: CPU time", cost.cpu, "s"),
        (f"{name}: by the clock", cost.clock, "s"),
        (f"{name}: peak memory", cost.largest, "MB"),
    ]


def measure_many(sequences: int, frames: int) -> list[Row]:
    """Plans, and everything that looks at all sequences at once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_project(folder, sequences)
        dry = ("--cores", "1", "--dry-run", "--quiet", "rules", "--", *TARGETS)
        snakemake(folder, "--cores", "1", str(RESULTS / "survey.json"))
        plan = snakemake(folder, *dry)
        jobs = int(plan.printed.split("\ntotal")[1].split()[0])
        write_manifests(folder, sequences, frames)
        merged = snakemake(folder, "--cores", "1", "--", *TARGETS)
        done = snakemake(folder, *dry)
        if "Nothing to be done" not in done.printed:
            raise SystemExit(done.printed)
        rows: list[Row] = [("sequences", sequences, ""), ("jobs planned", jobs, "")]
        rows += plan_rows("plan, nothing ingested", plan)
        rows += plan_rows("plan, everything done", done)
        rows.append(("gate to statistics: peak memory of Snakemake", merged.own_memory, "MB"))
        return [*rows, *measure_programs(folder)]


def measure_programs(folder: Path) -> list[Row]:
    """The programs that look at all manifests, for all sequences and for a quarter of them."""
    ingested = ("--ingested", str(RESULTS / "ingest"))
    whole = read_json(folder / RESULTS / "survey.json")
    rows: list[Row] = []
    for part in (len(whole["sequences"]) // 4, len(whole["sequences"])):
        write_json(folder / "survey.json", {**whole, "sequences": whole["sequences"][-part:]})
        for program, arguments in (
            ("accept", ["--survey", "survey.json", *ingested, "--output", "accepted.json"]),
            (
                "alignment_table",
                ["--survey", "survey.json", *ingested, "--table", "a.csv", "--plot", "a.svg"],
            ),
            (
                "dataset_statistics",
                [
                    *("--accepted", "accepted.json", "--stores", str(RESULTS / "k8")),
                    *("--bins", "8", "--dataset", "many", "--output", "dataset.json"),
                ],
            ),
        ):
            cost = measure(folder, f"scripts/{program}.py", *arguments)
            rows.append((f"{program}, {part} sequences: CPU time", cost.cpu, "s"))
            rows.append((f"{program}, {part} sequences: peak memory", cost.largest, "MB"))
    return rows


def measure_ingestion(sequences: int) -> list[Row]:
    """From raw files to dataset.json, with a process for every sequence and stage."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_project(folder, sequences)
        # Pictures that are alike would be refused as copies of one another.
        for number, (split, sequence) in enumerate(names(sequences)):
            frames = np.random.default_rng(number).integers(0, 256, (7, 32, 32, 3), dtype=np.uint8)
            shutil.rmtree(folder / DATA / split / sequence)
            write_sequence(folder / DATA / split / sequence, frames, frames_per_exposure=3)
        cost = snakemake(folder, "--cores", "2", "--", *TARGETS)
    title = f"workflow, {sequences} sequences"
    return [
        (f"{title}: CPU time for each", cost.cpu / sequences, "s"),
        (f"{title}: peak memory of Snakemake", cost.own_memory, "MB"),
        (f"{title}: peak memory of the largest process", cost.largest, "MB"),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sequences", type=int, default=2000)
    parser.add_argument("--frames", type=int, default=100, help="frames in each manifest")
    parser.add_argument("--ingest", type=int, nargs="*", default=[], help="numbers of sequences")
    parser.add_argument("--output", type=Path, help="folder for scale.csv")
    arguments = parser.parse_args()
    rows = measure_many(arguments.sequences, arguments.frames)
    for number in arguments.ingest:
        rows += measure_ingestion(number)
    for name, value, unit in rows:
        print(f"{name:60} {value:10.1f} {unit}")
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        with (arguments.output / "scale.csv").open("w", newline="") as stream:
            table = csv.writer(stream)
            table.writerow(["figure", "value", "unit"])
            table.writerows((name, f"{value:.4g}", unit) for name, value, unit in rows)


if __name__ == "__main__":
    run(main)
