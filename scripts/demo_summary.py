"""What the demo reached (PSNR and SSIM per test sequence) and how long each stage took."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

from rich.console import Console

from vrtspike.analysis.stage_times import demo_summary
from vrtspike.cli import run
from vrtspike.files import atomic_write_text
from vrtspike.problems import DEFAULT, PROBLEMS, find_problem

WIDTH = 100


def main() -> None:
    """Parse the arguments, print the summary and write it as text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sequences", type=Path, required=True, help="sequences.csv of the evaluation"
    )
    parser.add_argument(
        "--benchmarks",
        type=Path,
        nargs="*",
        default=[],
        help="Snakemake's benchmark files of the demo's jobs",
    )
    parser.add_argument(
        "--benchmark-folder", type=Path, required=True, help="folder of all benchmark files"
    )
    parser.add_argument("--task", default=DEFAULT, choices=PROBLEMS, help="problem of the demo")
    parser.add_argument("--output", type=Path, required=True, help="text file to write as well")
    arguments = parser.parse_args()
    summary = demo_summary(
        arguments.sequences,
        arguments.benchmarks,
        arguments.benchmark_folder,
        find_problem(arguments.task).METRICS.values(),
    )
    Console().print(summary)
    text = io.StringIO()
    Console(file=text, width=WIDTH).print(summary)
    atomic_write_text(arguments.output, text.getvalue())


if __name__ == "__main__":
    run(main)
