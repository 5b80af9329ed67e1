"""Summary of the demo: means over the test sequences, warnings, and the time of each stage."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

from rich.console import Console

from vrtspike.analysis.stage_times import demo_summary
from vrtspike.io.files import atomic_write_text
from vrtspike.system.program import run_main

WIDTH = 100
REUSE = """
restore frames:  vrtspike restore {run} FRAMES --spikes SPIKES -o restored
give it away:    vrtspike pack {run} -o {name}_model
without PyTorch: vrtspike export {run} -o {name}.onnx
"""


def main() -> None:
    """Parse the arguments, print the summary and write it as text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--summaries", type=Path, nargs="+", required=True, help="summary.json of evaluations"
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
    parser.add_argument("--run", type=Path, help="result folder that the end says how to use")
    parser.add_argument("--output", type=Path, required=True, help="text file to write as well")
    arguments = parser.parse_args()
    summary = demo_summary(arguments.summaries, arguments.benchmarks, arguments.benchmark_folder)
    text = io.StringIO()
    Console(file=text, width=WIDTH).print(summary)
    if arguments.run is not None:
        text.write(REUSE.format(run=arguments.run, name=arguments.run.name))
    print(text.getvalue(), end="")
    atomic_write_text(arguments.output, text.getvalue())


if __name__ == "__main__":
    run_main(main)
