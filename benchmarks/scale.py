"""What many sequences cost the programs that look at all of them at once.

python benchmarks/scale.py --sequences 2000 [--output benchmarks/results]

The programs (gate, alignment table, statistics) run by themselves, with manifests of `--frames`
frames each, made from one that was ingested.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measured_figures import write_figures
from vrtspike.deblurring.data.gate.ingest import ingest_sequence
from vrtspike.deblurring.data.manifests import SURVEY
from vrtspike.deblurring.data.raw.layouts.registry import find_sequence
from vrtspike.deblurring.data.raw.versions import source_version
from vrtspike.deblurring.data.simulation.demo import SCENES, make_demo_data
from vrtspike.deblurring.data.store.build import build_store
from vrtspike.io.files import write_json
from vrtspike.system.cli import positive_int, run

REPOSITORY = Path(__file__).resolve().parent.parent
DATA = "data/many"
RESULTS = Path("results/data/many")
FIRST = SCENES[0].name
"""The one sequence that is ingested; those of the survey are like it."""
Row = tuple[str, float, str]


@dataclass(frozen=True)
class Cost:
    """What a program took, the processes that it started included."""

    cpu: float
    """Seconds of all processes."""
    largest: float
    """Peak of the largest process, MB."""


def measure(folder: Path, *arguments: str) -> Cost:
    """Run Python in a copy of the project."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    process = subprocess.Popen([sys.executable, *arguments], cwd=folder, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{arguments[0]} ended with {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3)


def copy_project(folder: Path) -> None:
    """Copy what the programs are made of."""
    for part in ("config", "scripts", "src"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / part, folder / part, ignore=ignored)


def names(sequences: int) -> Iterator[tuple[str, str]]:
    """Split and name of every sequence."""
    for number in range(sequences):
        yield "test" if number % 10 == 1 else "train", f"s{number:05d}"


def write_manifests(folder: Path, sequences: int, frames: int) -> None:
    """Ingest and build the first sequence; write the manifests of all as if they were like it."""
    root = folder / DATA
    ingested = folder / RESULTS / "ingest/train" / f"{FIRST}.json"
    files = find_sequence(root, "train", FIRST, "blur")
    found = ingest_sequence(root, files, "blur")
    found |= {"source_version": source_version(root, files, "blur", ingested), "recipe": ""}
    write_json(ingested, found)
    stored = build_store(root, ingested, 8, folder / RESULTS / "k8/train" / f"{FIRST}.json")
    # The gate knows frames with equal pictures.
    first = found["frames"][0]
    found["frames"] = [dict(first, name=f"{n:06d}", picture=f"{FIRST}-{n}") for n in range(frames)]
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
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def measure_programs(folder: Path, sequences: int) -> list[Row]:
    """The programs that look at all manifests, for all sequences and for a quarter of them."""
    ingested = ("--ingested", str(RESULTS / "ingest"))
    found = [{"split": split, "name": name, "frames": 2} for split, name in names(sequences)]
    survey = {"schema": SURVEY.schema, "root": DATA, "layout": "", "spikes": True, "excluded": {}}
    rows: list[Row] = []
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
                    *("--dataset", "many", "--output", "dataset.json"),
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
    parser.add_argument("--sequences", type=positive_int, default=2000)
    parser.add_argument("--frames", type=int, default=100, help="frames in each manifest")
    parser.add_argument("--output", type=Path, help="folder for scale.csv")
    arguments = parser.parse_args()
    rows: list[Row] = [("sequences", arguments.sequences, "")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_project(folder)
        make_demo_data(folder / DATA, height=64, width=96, exposures=2)
        write_manifests(folder, arguments.sequences, arguments.frames)
        rows += measure_programs(folder, arguments.sequences)
    for title, value, unit in rows:
        print(f"{title:60} {value:10.1f} {unit}")
    write_figures(rows, arguments.output, "scale")


if __name__ == "__main__":
    run(main)
