"""Make the data of a preset ready for training, where its problem has no rules of its own."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from vrtspike.cli import run
from vrtspike.config.workflow import load_workflow
from vrtspike.problems import find_problem


def main() -> None:
    """Parse the arguments and prepare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", required=True, help="name of a preset that uses the data")
    parser.add_argument(
        "--configfile",
        nargs="+",
        default=["config/config.yaml"],
        help="workflow configuration, later files win (default: config/config.yaml)",
    )
    parser.add_argument(
        "--config", type=json.loads, default={}, help="values laid over it, as a JSON mapping"
    )
    parser.add_argument("--output", type=Path, required=True, help="manifest to write (JSON)")
    arguments = parser.parse_args()
    plan = load_workflow(arguments.configfile, arguments.config)
    settings = plan.preset(arguments.preset)
    problem = find_problem(settings.TASK)
    problem.prepare(settings, arguments.output, lambda text: print(text, flush=True))


if __name__ == "__main__":
    run(main)
