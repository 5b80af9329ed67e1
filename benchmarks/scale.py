"""Measure the programs that process all sequences at once, with many sequences.

python benchmarks/scale.py --sequences 2000 [--output benchmarks/results]

The programs (accept, alignment table, statistics) run by themselves, with manifests of `--frames`
frames each, copied from one that was ingested.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments import write_measurements
from vrtspike.data.checks.ingest import ingest_sequence
from vrtspike.data.checks.options import AcceptOptions
from vrtspike.data.data_source import RawFolder
from vrtspike.data.manifests import SURVEY, FrameEntry, IngestManifest
from vrtspike.data.raw.layouts.registry import find_sequence
from vrtspike.data.raw.versions import source_version
from vrtspike.data.simulation.demo import SCENES, make_demo_data
from vrtspike.data.store.writing import build_store
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import write_json
from vrtspike.io.manifests import SEAL
from vrtspike.system.options import HelpFormatter, positive_int
from vrtspike.system.program import run_main

REPOSITORY = Path(__file__).resolve().parent.parent
DATA = "data/many"
RESULTS = Path("results/data/many")
FIRST = SCENES[0].name
"""The one sequence that is ingested; those of the survey are copies of it."""
Row = tuple[str, float, str]

# Prints its own peak memory: the parent's would count for its children.
MEASURED = """
import runpy, sys, time
del sys.argv[0]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    if end.code:
        raise
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(time.process_time(), peak.split()[1])
"""


def measure(folder: Path, program: str, *arguments: str) -> tuple[float, float]:
    """Run a script in a folder; returns CPU seconds and peak memory in MB."""
    command = [sys.executable, "-c", MEASURED, f"{REPOSITORY}/scripts/{program}.py", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    output = subprocess.check_output(command, cwd=folder, env=environment, text=True)
    seconds, kilobytes = output.splitlines()[-1].split()
    return float(seconds), int(kilobytes) / 1e3


def names(sequences: int) -> Iterator[tuple[str, str]]:
    """Yield split and name of every sequence."""
    for index in range(sequences):
        yield "test" if index % 10 == 1 else "train", f"s{index:05d}"


def write_manifests(folder: Path, sequences: int, frames: int) -> None:
    """Ingest and build the first sequence; write copies of its manifests for all sequences."""
    root = folder / DATA
    ingested = folder / RESULTS / "ingest/train" / f"{FIRST}.json"
    files = find_sequence(RawFolder(root), f"train/{FIRST}")
    ingest_manifest: IngestManifest = {
        **ingest_sequence(root, files),
        "source_version": source_version(root, files, ingested),
        "recipe": "",
    }
    write_json(ingested, ingest_manifest)
    manifest = folder / RESULTS / "k8/train" / f"{FIRST}.json"
    stored = build_store(root, ingested, StoreOptions(bins=8), manifest)
    # Pictures differ, because acceptance refuses repeated ones.
    first = ingest_manifest["frames"][0]
    copies: list[FrameEntry] = []
    for index in range(frames):
        copies.append({**first, "name": f"{index:06d}", "picture": f"{FIRST}-{index}"})
    ingest_manifest["frames"] = copies
    stored["frames"] = [f"{index:06d}" for index in range(frames)]
    manifests: dict[str, Mapping[str, Any]] = {"ingest": ingest_manifest, "k8": stored}
    for split, name in names(sequences):
        for stage, contents in manifests.items():
            write_quickly(folder / RESULTS / stage / split / f"{name}.json", contents, split, name)


def write_quickly(path: Path, manifest: Mapping[str, Any], split: str, name: str) -> None:
    """Write a manifest for another sequence, without waiting for the disk."""
    # Without the digest of the entries, as in an earlier version.
    text = json.dumps({key: value for key, value in manifest.items() if key != SEAL}, indent=1)
    for old, new in ((f"train/{FIRST}", f"{split}/{name}"), (FIRST, name)):
        text = text.replace(old, new)
    text = text.replace('"split": "train"', f'"split": "{split}"')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def measure_programs(folder: Path, sequences: int) -> list[Row]:
    """Measure the programs that read all manifests."""
    ingested = ("--ingested", str(RESULTS / "ingest"))
    entries = [{"split": split, "name": name, "frames": 2} for split, name in names(sequences)]
    survey = {"schema": SURVEY.schema, "root": DATA, "layout": "", "spikes": True, "excluded": {}}
    write_json(folder / "survey.json", {**survey, "sequences": entries})
    surveyed = ("--survey", "survey.json", *ingested)
    accepted = ("--accepted", "accepted.json")
    requirements = AcceptOptions().model_dump_json()
    manifest = str(RESULTS / "k8/dataset.json")
    rows: list[Row] = []
    for program, *arguments in (
        ("accept", *surveyed, "--options", requirements, "--output", "accepted.json"),
        ("alignment_table", *surveyed, "--table", "a.csv", "--plot", "a.svg"),
        ("dataset_statistics", *accepted, "--dataset", "many", "--output", manifest),
    ):
        seconds, megabytes = measure(folder, program, *arguments)
        rows.append((f"{program}: CPU time", seconds, "s"))
        rows.append((f"{program}: peak memory", megabytes, "MB"))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--sequences", type=positive_int, default=2000, help="how many")
    parser.add_argument("--frames", type=int, default=100, help="frames in each manifest")
    parser.add_argument("--output", type=Path, help="folder for scale.csv")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_demo_data(folder / DATA, height=64, width=96, exposures=2)
        write_manifests(folder, arguments.sequences, arguments.frames)
        rows = measure_programs(folder, arguments.sequences)
    write_measurements([("sequences", arguments.sequences, ""), *rows], arguments.output, "scale")


if __name__ == "__main__":
    run_main(main)
