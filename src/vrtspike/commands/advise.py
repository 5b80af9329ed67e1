"""Tell which preset fits this machine and this data: memory, hours and disk.

Every preset of the configuration is weighed by counted and measured tables and a short probe of
this machine; --gpu asks for a machine with GPUs that are elsewhere.
"""

from __future__ import annotations

import argparse
import sys

from vrtspike.cli import add_configuration, positive_int, positive_number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    add_configuration(parser)
    parser.add_argument("--gpu", help="for a machine with such GPUs: A6000, 4090, A100, H100, H200")
    parser.add_argument("--gpus", type=positive_int, default=1, help="how many, with --gpu")
    parser.add_argument(
        "--hours", type=positive_number, default=336.0, help="that a training may take at most"
    )
    parser.add_argument(
        "--no-probe", action="store_true", help="measure nothing, take the table's figures"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the advice; 1 if nothing fits, else 0.

    Raises:
        ConfigError: if the configuration is wrong.
        RunError: if there is no such GPU in the table.
    """
    from dataclasses import replace

    from vrtspike.machine.advice_lines import advice_lines
    from vrtspike.machine.advise import advise
    from vrtspike.machine.hardware import named_gpu, this_machine
    from vrtspike.machine.plan import read_plan
    from vrtspike.machine.speed import measure_speed

    plan = read_plan(arguments.configfile, arguments.config)
    machine = this_machine()
    if arguments.gpu is not None:
        machine = replace(machine, gpu=named_gpu(arguments.gpu, arguments.gpus))
    elif plan.settings.GPUS == 0:
        machine = replace(machine, gpu=None)
    speed = measure_speed(
        machine,
        probe=not arguments.no_probe,
        note=lambda text: print(text, file=sys.stderr, flush=True),
    )
    advice = advise(plan, machine, speed, arguments.hours)
    print("\n".join(advice_lines(advice)))
    return 0 if advice.command is not None else 1
