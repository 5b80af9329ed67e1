"""Commands of ``vrtspike`` about this machine: what it lacks, what fits, what is faster."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from vrtspike.system.errors import ConfigError
from vrtspike.system.options import add_configuration, bounded_int, positive_int, positive_number

FEWEST_TURNS = 3
"""Minimum number of pairs: with two, Student's interval is 4 times as wide as with three, 7 times
as wide as with five."""


add_doctor = add_configuration


def run_doctor(arguments: argparse.Namespace) -> int:
    """Check that this machine and this configuration are ready, and show how to fix problems.

    Checks Python, packages, GPU and its compiler, shared memory and disk; in the project's folder
    also configuration, data and weights of the presets in PRESETS. It distinguishes what is missing
    (○) from what is broken (✗); the exit status is 1 if something is broken. Nothing is changed.
    """
    from vrtspike.commands.doctor.checks import all_checks, show_checks

    checks = all_checks(arguments.configfile, arguments.config)
    is_sound = show_checks(checks, lambda line: print(line, flush=True))
    return 0 if is_sound else 1


def add_advise(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_configuration(parser)
    parser.add_argument("--gpu", help="for a machine with such GPUs: A6000, 4090, A100, H100, H200")
    parser.add_argument("--gpus", type=positive_int, help="how many, with --gpu; without: 1")
    parser.add_argument(
        "--hours", type=positive_number, default=336.0, help="that a training may take at most"
    )


def run_advise(arguments: argparse.Namespace) -> int:
    """Recommend a preset for this machine and this data, by memory, hours and disk.

    Estimates come from tables of counted costs, and from the data sheet of the GPU or a short
    measurement on this machine; --gpu estimates for another machine's GPUs.
    """
    if arguments.gpus is not None and arguments.gpu is None:
        raise ConfigError(
            f"--gpus {arguments.gpus}: says how many there are of the GPUs that --gpu names; add "
            "--gpu, or leave --gpus out for those of this machine"
        )
    from vrtspike.config.workflow_loading import load_project_config
    from vrtspike.deblurring.advice import hardware, recommendation

    workflow = load_project_config(arguments.configfile, arguments.config)
    gpu = None if workflow.settings.GPUS == 0 else hardware.find_gpus()
    if arguments.gpu is not None:
        gpu = hardware.named_gpu(arguments.gpu, arguments.gpus or 1)
    advice = recommendation.advise_on_machine(workflow, hardware.this_machine(gpu), arguments.hours)
    print("\n".join(advice.lines))
    return 0 if advice.command is not None else 1


def add_memory(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "run_path", type=Path, metavar="RUN", help="folder of the run, or name of its preset"
    )


def run_memory(arguments: argparse.Namespace) -> None:
    """Show the memory of a running training's processes, and of the machine.

    RUN is the run's folder (runs/<preset>/<fingerprint>), or a preset, for its latest run. RSS
    counts shared pages in each process; PSS divides them among the processes.
    """
    from vrtspike.analysis.run_memory import memory_lines
    from vrtspike.runs.selection import find_run

    print("\n".join(memory_lines(find_run(arguments.run_path))))


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
    print(
        benchmark.run_benchmark(workflow, arguments.preset, arguments.against, length, show), end=""
    )
