"""Prepare the data of a preset whose task has no rules of its own."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.config.tasks import find_task, has_part
from vrtspike.config.workflow_loading import load_workflow_config
from vrtspike.config.yaml_documents import parse_config_words
from vrtspike.system.errors import ConfigError
from vrtspike.system.options import add_preset
from vrtspike.system.program import run_main


def main() -> None:
    """Parse the arguments and prepare."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_preset(parser)
    parser.add_argument("--output", type=Path, required=True, help="manifest to write (JSON)")
    arguments = parser.parse_args()
    workflow = load_workflow_config(arguments.configfile, parse_config_words(arguments.config).tree)
    settings = workflow.settings_of(arguments.preset)
    task = find_task(settings.TASK)
    if not has_part(task, "prepare"):
        raise ConfigError(
            f"--preset {arguments.preset}: TASK is {settings.TASK}, whose data are made by its own "
            f"rules; run: snakemake --cores 1 train_{arguments.preset}"
        )
    task.prepare(settings, arguments.output, lambda text: print(text, flush=True))


if __name__ == "__main__":
    run_main(main)
