"""What the programs cost that look at all sequences at once: gate, alignment table, statistics.

python benchmarks/scale.py --sequences 2000 [--output benchmarks/results]

They run by themselves, with manifests of `--frames` frames each, made from one that was ingested.
What the workflow costs with many sequences, benchmarks/sequences.py measures.
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
from vrtspike.deblurring.data.gate.ingest import ingest_sequence
from vrtspike.deblurring.data.manifests import SURVEY
from vrtspike.deblurring.data.raw.versions import source_version
from vrtspike.deblurring.data.simulation.sequence import write_sequence
from vrtspike.deblurring.data.store.build import build_store
from vrtspike.files import write_json

REPOSITORY = Path(__file__).resolve().parent.parent
DATA = "data/many"
RESULTS = Path("results/data/many")
CONFIG = "many.yaml"
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


def copy_project(folder: Path) -> None:
    """Copy the project, with a configuration for tiny sequences."""
    for part in ("config", "rules", "scripts", "workflow", "src"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / part, folder / part, ignore=ignored)
    shutil.copy(REPOSITORY / "environment.yml", folder)
    data = {"ROOT": DATA, "K": 8, "CROP_SIZE": 32, "CLIP_LEN": 2}
    settings = {"DATA": data, "TRAIN": {"PROGRESSIVE": []}}
    write_json(folder / CONFIG, {"SETTINGS": settings})  # YAML holds JSON


def write_tiny(folder: Path, number: int) -> None:
    """Write a sequence of two frames; each number has pictures of its own."""
    frames = np.random.default_rng(number).integers(0, 256, (7, 32, 32, 3), dtype=np.uint8)
    write_sequence(folder, frames, frames_per_exposure=3)


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


def measure_programs(folder: Path, sequences: int) -> list[Row]:
    """The programs that look at all manifests, for all sequences and for a quarter of them."""
    ingested = ("--ingested", str(RESULTS / "ingest"))
    found = [{"split": split, "name": name, "frames": 2} for split, name in names(sequences)]
    survey = {"schema": SURVEY.schema, "root": DATA, "layout": "", "spikes": True, "excluded": {}}
    rows: list[Row] = [("sequences", sequences, "")]
    for part in (sequences // 4, sequences):
        write_json(folder / "survey.json", {**survey, "sequences": found[-part:]})
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sequences", type=int, default=2000)
    parser.add_argument("--frames", type=int, default=100, help="frames in each manifest")
    parser.add_argument("--output", type=Path, help="folder for scale.csv")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy_project(Path(folder))
        write_tiny(Path(folder) / DATA / "train" / FIRST, 0)
        write_manifests(Path(folder), arguments.sequences, arguments.frames)
        rows = measure_programs(Path(folder), arguments.sequences)
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
