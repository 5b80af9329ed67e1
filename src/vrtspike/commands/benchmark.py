"""The command ``vrtspike benchmark``: speed of training with changed keys."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from vrtspike.system.options import add_configuration, bounded_int, positive_int

FEWEST_TURNS = 3
"""Minimum number of pairs: with two, Student's interval is 4 times as wide as with three, 7 times
as wide as with five."""


def add_benchmark(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("preset", metavar="PRESET", help="name of the preset")
    parser.add_argument(
        "--against",
        nargs="+",
        required=True,
        metavar="KEY=VALUE",
        help="keys that are changed, such as TRAIN.PRECISION=32; config/README.md has all",
    )
    parser.add_argument(
        "--steps", type=positive_int, default=10, metavar="N", help="that are timed in a turn"
    )
    parser.add_argument(
        "--turns",
        type=lambda text: bounded_int(text, FEWEST_TURNS),
        default=5,
        metavar="N",
        help="of each of the two settings",
    )
    parser.add_argument(
        "--warm-up",
        type=positive_int,
        default=5,
        metavar="N",
        help="first steps of a turn, which are left out",
    )
    add_configuration(parser)


def run_benchmark(arguments: argparse.Namespace) -> None:
    """Measure whether changed keys make training faster on this machine.

    A few steps of the preset are trained with its own keys and with those of --against, in
    alternating turns, so that other load of the machine affects both. The result is the ratio of
    their step times with a confidence interval. Each turn is a training in a temporary folder; runs
    and results are not changed.
    """
    from vrtspike.analysis import benchmark
    from vrtspike.config.workflow_loading import load_project_config

    workflow = load_project_config(arguments.configfile, arguments.config)
    length = benchmark.BenchmarkLength(arguments.turns, arguments.steps, arguments.warm_up)
    show = partial(print, file=sys.stderr, flush=True)
    result = benchmark.compare_step_times(
        workflow, arguments.preset, arguments.against, length, show
    )
    print(result, end="")
