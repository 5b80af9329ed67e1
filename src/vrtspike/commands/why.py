"""The command ``vrtspike why``: reasons why stages would run."""

from __future__ import annotations

import argparse
import os
import subprocess

from vrtspike.system.errors import RunError
from vrtspike.system.home import require_project
from vrtspike.workflow.plan_view import SUMMARY_ONLY_VARIABLE
from vrtspike.workflow.snakemake_call import snakemake_command


def add_why(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "targets", nargs=argparse.REMAINDER, metavar="TARGET", help="without any: all"
    )


def run_why(arguments: argparse.Namespace) -> None:
    """Show why stages would run, and how long they took last time.

    One line per stage that `snakemake TARGET` would run. Trained presets whose code has changed are
    also listed. Nothing is run. Options of snakemake follow the targets: vrtspike why all
    --configfile my.yaml
    """
    require_project()
    command = snakemake_command("--dry-run", *arguments.targets)
    completed = subprocess.run(command, env={**os.environ, SUMMARY_ONLY_VARIABLE: "1"}, check=False)
    if completed.returncode:
        raise RunError("Snakemake could not make a plan; see its message above")
