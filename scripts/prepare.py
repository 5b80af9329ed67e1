"""Prepare the data of a preset whose task has no rules of its own."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.config.tasks import defines, find_task
from vrtspike.config.workflow_loading import load_workflow
from vrtspike.config.yaml_documents import read_overrides
from vrtspike.system.errors import ConfigError
from vrtspike.system.options import add_preset
from vrtspike.system.program import run


def main() -> None:
    """Parse the arguments and prepare."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_preset(parser)
    parser.add_argument("--output", type=Path, required=True, help="manifest to write (JSON)")
    arguments = parser.parse_args()
    workflow = load_workflow(arguments.configfile, read_overrides(arguments.config).tree)
    settings = workflow.preset(arguments.preset)
    task = find_task(settings.TASK)
    if not defines(task, "prepare"):
        raise ConfigError(
            f"--preset {arguments.preset}: TASK is {settings.TASK}, whose data are made by its own "
            f"rules; run: snakemake --cores 1 train_{arguments.preset}"
        )
    task.prepare(settings, arguments.output, lambda text: print(text, flush=True))


if __name__ == "__main__":
    run(main)
