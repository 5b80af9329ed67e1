"""What many tiny sequences cost the workflow: jobs, time, plans, memory, and what a change costs.

python benchmarks/sequences.py --sequences 200 [--output benchmarks/results]

So many sequences of two frames go from raw files to dataset.json with ``--cores 2``. Plans are
timed before, with everything done, and with one raw file changed.
"""

from __future__ import annotations

import argparse
import csv
import re
import tempfile
from pathlib import Path

from scale import CONFIG, DATA, RESULTS, Cost, Row, copy_project, measure, names, write_tiny

from vrtspike.cli import positive_int, run

TARGET = str(RESULTS / "k8/dataset.json")
DRY = ("--dry-run", "--quiet", "rules")


def make_project(folder: Path, sequences: int) -> None:
    """Copy the project, and write a data set of tiny sequences."""
    copy_project(folder)
    for number, (split, name) in enumerate(names(sequences)):
        write_tiny(folder / DATA / split / name, number)


def snakemake(folder: Path, *arguments: str) -> Cost:
    """Run Snakemake in a copy of the project; options for a cluster are welcome."""
    return measure(folder, "-m", "snakemake", "--configfile", CONFIG, *arguments)


def jobs(printed: str) -> int:
    """How many jobs of ``ingest`` and ``voxelize`` a dry run tells of; it counts them twice."""
    table = printed.partition("\ntotal ")[0]
    planned = re.findall(r"^(?:ingest|voxelize) +(\d+)$", table, re.MULTILINE)
    return sum(map(int, planned))


def rows_of(title: str, cost: Cost) -> list[Row]:
    """What a run of Snakemake took."""
    return [
        (f"{title}: by the clock", cost.clock, "s"),
        (f"{title}: CPU time", cost.cpu, "s"),
        (f"{title}: peak memory of Snakemake", cost.own_memory, "MB"),
    ]


def measure_project(folder: Path, cores: int) -> list[Row]:
    """Plan, run, plan, change one file, plan and run again."""
    dry = (*DRY, "--cores", str(cores), "--", TARGET)
    wet = ("--cores", str(cores), "--", TARGET)
    plan = snakemake(folder, *dry)
    rows: list[Row] = [("jobs of ingest and voxelize", jobs(plan.printed), "")]
    rows += rows_of("plan, nothing done", plan)
    rows += rows_of("raw files to dataset.json", snakemake(folder, *wet))
    done = snakemake(folder, *dry)
    if "Nothing to be done" not in done.printed:
        raise SystemExit(done.printed)
    rows += rows_of("plan, everything done", done)
    changed = next((folder / DATA / "train").glob("*/spike/*.dat"))
    contents = changed.read_bytes()
    changed.write_bytes(bytes([contents[0] ^ 1]) + contents[1:])
    return [*rows, *rows_of("one file changed", snakemake(folder, *wet))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sequences", type=positive_int, default=200)
    parser.add_argument("--cores", type=positive_int, default=2)
    parser.add_argument("--output", type=Path, help="folder for sequences_<number>.csv")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        make_project(Path(name), arguments.sequences)
        rows = [
            ("sequences", arguments.sequences, ""),
            *measure_project(Path(name), arguments.cores),
        ]
    for title, value, unit in rows:
        print(f"{title:50} {value:10.1f} {unit}")
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        path = arguments.output / f"sequences_{arguments.sequences}.csv"
        with path.open("w", newline="") as stream:
            table = csv.writer(stream)
            table.writerow(["figure", "value", "unit"])
            table.writerows((title, f"{value:.4g}", unit) for title, value, unit in rows)


if __name__ == "__main__":
    run(main)
