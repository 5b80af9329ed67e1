"""Check that this machine and this configuration are ready, and tell how to mend what is not.

Looks at Python, packages, GPU and driver, compiler, memory and disk; in the project's folder also
at configuration, data and weights of the presets named by PRESETS. The exit status is 1 if
something is broken. Nothing is changed.
"""

from __future__ import annotations

import argparse

from vrtspike.cli import add_configuration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    add_configuration(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print a line per check; 1 if something is broken, else 0."""
    from vrtspike.machine.doctor import all_checks, show_checks

    checks = all_checks(arguments.configfile, arguments.config)
    broken = show_checks(checks, lambda line: print(line, flush=True))
    if broken:
        print(f"{broken} of these {'is' if broken == 1 else 'are'} broken")
    return 1 if broken else 0
