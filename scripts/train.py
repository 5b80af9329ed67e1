r"""Train the run in a folder, as one of the processes that torchrun starts.

    torchrun --nproc-per-node 1 scripts/train.py --run-dir runs/my_run \
        --preset config/presets/demo.yaml --dataset results/data/demo/k32/dataset.json

starts a run; without --preset the folder's settings.json is read and the run continues from its
last checkpoint. SIGTERM, SIGUSR1 or Ctrl-C end it between two steps with everything saved: the exit
status is then 75, and the same command continues. scripts/launch_training.py does all this for
presets by name, takes free GPUs, and publishes the result.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from vrtspike.cli import run
from vrtspike.errors import EXIT_USER_ERROR, UserError
from vrtspike.training.launch import OBSERVERS, process_number, report_status
from vrtspike.training.run_folder import prepare_folder
from vrtspike.training.signals import stop_with_parent


def main() -> int:
    """Parse the arguments, settle what is computed, train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run-dir", type=Path, required=True, help="folder of the run")
    parser.add_argument("--preset", type=Path, help="preset file of a new run")
    parser.add_argument("--dataset", type=Path, help="dataset manifest of a new run")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="replaces a key of the preset, such as TRAIN.BATCH_SIZE=2; may be repeated",
    )
    arguments = parser.parse_args()
    stop_with_parent()
    try:
        prepare_folder(
            arguments.run_dir,
            preset=arguments.preset,
            dataset=arguments.dataset,
            overrides=arguments.set,
            program=Path(__file__),
            neutral=OBSERVERS,
        )
        # Imported here: PyTorch takes seconds, a wrong argument should not.
        from vrtspike.training.session import run_session

        status = run_session(arguments.run_dir)
    except UserError as error:
        number = process_number()
        print(f"error{f' (process {number})' if number else ''}: {error}", file=sys.stderr)
        status = EXIT_USER_ERROR
    return report_status(status)


if __name__ == "__main__":
    run(main)
