"""Train a preset, or continue its run, and publish the result.

The run's state is in RUNS/<preset>/<fingerprint>. The fingerprint depends on settings, data and
pretrained weights, so that a changed configuration starts a new run; changed code does not
(--retrain). The exit status is 75 where the run was stopped (SIGTERM, SIGUSR1, SIGHUP,
Ctrl-C) and has saved its state: the same command continues it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.config.yaml_documents import parse_config_words
from vrtspike.launching.launch import launch
from vrtspike.launching.machines import gpus_option
from vrtspike.system.options import add_preset, positive_int
from vrtspike.system.program import run_main


def main() -> int:
    """Parse the arguments and launch."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_preset(parser)
    parser.add_argument("--dataset", type=Path, required=True, help="manifest of the data set")
    parser.add_argument("--output", type=Path, required=True, help="folder of the result")
    parser.add_argument(
        "--gpus", type=gpus_option, help="auto, or a number; 0: CPU (default: GPUS)"
    )
    parser.add_argument(
        "--max-gpus",
        type=positive_int,
        metavar="N",
        help="upper limit for auto (default: all free ones)",
    )
    parser.add_argument(
        "--retrain",
        action="store_true",
        help="if the code has changed, rename the run (<run folder>.1) and train it again",
    )
    parser.add_argument(
        "--log",
        type=Path,
        help="file for all messages, replaced when training starts; the terminal then shows "
        "progress, validations and warnings only (default: all on the terminal)",
    )
    program = Path(__file__).with_name("train.py")
    options = vars(parser.parse_args())
    options["config"] = parse_config_words(options["config"]).tree
    return launch(program, **options)


if __name__ == "__main__":
    run_main(main)
