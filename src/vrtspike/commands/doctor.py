"""The command ``vrtspike doctor``: readiness of this machine and this configuration."""

from __future__ import annotations

import argparse

from vrtspike.system.options import add_configuration

add_doctor = add_configuration


def run_doctor(arguments: argparse.Namespace) -> int:
    """Check that this machine and this configuration are ready, and show how to fix problems.

    Checks Python, packages, GPU and its compiler, shared memory and disk; in the project's folder
    also configuration, data and weights of the presets in PRESETS. It distinguishes what is missing
    (○) from what is broken (✗); the exit status is 1 if something is broken. Nothing is changed.
    """
    from vrtspike.commands.readiness.checks import all_checks, show_checks

    checks = all_checks(arguments.configfile, arguments.config)
    is_sound = show_checks(checks, lambda line: print(line, flush=True))
    return 0 if is_sound else 1
