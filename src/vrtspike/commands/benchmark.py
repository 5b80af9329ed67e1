"""Measure whether changed keys make training faster on this machine.

A few steps of the preset are trained as it is and with the keys of --against, in turns, so that
what else the machine does meets both. The ratio of their step times is told with its spread. Each
turn is a training of its own in a temporary folder; runs and results stay as they are.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vrtspike.cli import add_configuration, positive_int

if TYPE_CHECKING:
    from vrtspike.config.workflow import Workflow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument("preset", metavar="PRESET", help="name of the preset")
    parser.add_argument(
        "--against",
        nargs="+",
        required=True,
        metavar="KEY=VALUE",
        help="keys that are changed, such as TRAIN.CUDA_GRAPH=off; config/README.md has all",
    )
    parser.add_argument(
        "--steps", type=positive_int, default=10, metavar="N", help="that are timed in a turn"
    )
    parser.add_argument(
        "--turns", type=_several, default=5, metavar="N", help="of each of the two settings"
    )
    parser.add_argument(
        "--warm-up",
        type=positive_int,
        default=5,
        metavar="N",
        help="first steps of a turn, which are left out",
    )
    add_configuration(parser)
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="of what is printed"
    )
    parser.add_argument("-o", "--output", type=Path, help="file that it is also written to")


def _several(text: str) -> int:
    number = int(text)
    if number < 2:
        # One pair of turns says nothing about how much turns differ.
        raise argparse.ArgumentTypeError(f"found {text}, expected 2 or more")
    return number


def run(arguments: argparse.Namespace) -> None:
    """Train in turns and print what came out.

    Raises:
        ConfigError: if a key is wrong, or both settings are the same.
        RunError: if the data are not prepared, or a training fails.
    """
    import json
    import sys
    from dataclasses import replace

    from vrtspike.benchmarking.benchmark import run_benchmark
    from vrtspike.benchmarking.report import benchmark_json, benchmark_text
    from vrtspike.benchmarking.short_runs import against
    from vrtspike.benchmarking.turns import Length
    from vrtspike.files import atomic_write_text
    from vrtspike.machine.plan import read_plan

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    plan, preset = read_plan(arguments.configfile, arguments.config), arguments.preset
    before = plan.preset(preset)
    after = against(before, arguments.against)
    changed = replace(plan, presets={**plan.presets, preset: after})
    found = run_benchmark(
        preset,
        (before, after),
        (_dataset(plan, preset), _dataset(changed, preset)),
        Length(arguments.turns, arguments.steps, arguments.warm_up),
        plan.settings.GPUS,
        tell,
    )
    shown = benchmark_text(found)
    if arguments.format == "json":
        shown = json.dumps(benchmark_json(found), indent=1) + "\n"
    print(shown, end="", flush=True)
    if arguments.output is not None:
        atomic_write_text(arguments.output, shown)
        tell(f"written to {arguments.output}")


def _dataset(plan: Workflow, preset: str) -> Path:
    """The manifest of the prepared data.

    Raises:
        RunError: if they are not prepared.
    """
    from vrtspike.errors import RunError

    path = plan.manifest(preset)
    if not path.is_file():
        raise RunError(
            f"{path}: no such file, the data of preset {preset} are not prepared; make them: "
            f"snakemake --cores 2 {path}"
        )
    return path
