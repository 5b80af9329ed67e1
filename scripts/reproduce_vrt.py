"""Evaluate VRT's published weights under its own protocol and compare with the published result."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.config.workflow_loading import load_workflow_config
from vrtspike.config.yaml_documents import parse_config_words
from vrtspike.deblurring_settings import require_deblurring_settings
from vrtspike.evaluation.reproduction import reproduce_vrt
from vrtspike.io.files import atomic_write_text
from vrtspike.launching.gpus import DEVICE_NAMES, acquire_device
from vrtspike.system.options import add_preset
from vrtspike.system.program import run_main
from vrtspike.system.progress_bar import progress_bar

VERDICT = "verdict.txt"


def main() -> None:
    """Parse the arguments, evaluate, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_preset(parser)
    parser.add_argument("--output", type=Path, required=True, help="folder for the results")
    parser.add_argument("--device", choices=DEVICE_NAMES, default="auto", help="where to compute")
    arguments = parser.parse_args()
    workflow = load_workflow_config(arguments.configfile, parse_config_words(arguments.config).tree)
    settings = require_deblurring_settings(workflow.settings_of(arguments.preset), arguments.preset)
    with acquire_device(arguments.device) as device, progress_bar("reproduce VRT") as progress:
        verdict = reproduce_vrt(settings, arguments.output, device, progress)
    atomic_write_text(arguments.output / VERDICT, f"{verdict}\n")
    print(verdict)


if __name__ == "__main__":
    run_main(main)
