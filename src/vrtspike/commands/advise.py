"""The command ``vrtspike advise``: a preset for this machine and this data."""

from __future__ import annotations

import argparse

from vrtspike.system.errors import ConfigError
from vrtspike.system.options import add_configuration, positive_int, positive_number


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
