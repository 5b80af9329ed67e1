"""Evaluate trained weights on the test split: metrics per frame and sequence, and pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.config.tasks import find_task
from vrtspike.launching.gpus import DEVICE_NAMES, acquire_device
from vrtspike.runs.evaluation_job import EvaluationJob
from vrtspike.runs.published import read_published
from vrtspike.system.options import HelpFormatter
from vrtspike.system.program import run_main
from vrtspike.system.progress_bar import progress_bar


def main() -> None:
    """Parse the arguments, evaluate, and print the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="weights.safetensors of a run")
    parser.add_argument(
        "--settings", type=Path, required=True, help="settings.json of the run, beside its run.json"
    )
    parser.add_argument("--dataset", type=Path, required=True, help="manifest of the data set")
    parser.add_argument("--output", type=Path, required=True, help="folder for the results")
    parser.add_argument(
        "--set",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="settings of the evaluation to replace, such as TEST.TILE.SIZE=128",
    )
    parser.add_argument("--device", choices=DEVICE_NAMES, default="auto", help="where to compute")
    arguments = parser.parse_args()
    identity = read_published(arguments.settings.parent).with_overrides(arguments.set)
    title = f"evaluate {identity.name}"
    with acquire_device(arguments.device) as device, progress_bar(title) as progress:
        job = EvaluationJob(
            arguments.weights, identity, arguments.dataset, arguments.output, device, progress
        )
        lines = find_task(identity.settings.TASK).evaluate(job)
    print("\n".join(lines))


if __name__ == "__main__":
    run_main(main)
