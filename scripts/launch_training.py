"""Train a preset, or continue where its run stopped, and publish the result.

The run's state stays in RUNS/<preset>/<fingerprint>; the fingerprint names settings, data and
weights that enter, so a changed configuration starts a new run beside the old one; changed code
does not (--retrain). The exit status is 75 where the run was stopped (SIGTERM, SIGUSR1, SIGHUP,
Ctrl-C) and has saved its state: the same command continues it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from vrtspike.cluster.launch import gpus_option, launch
from vrtspike.system.cli import add_preset, run


def main() -> int:
    """Parse the arguments and launch."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_preset(parser)
    parser.add_argument("--dataset", type=Path, required=True, help="dataset manifest (JSON)")
    parser.add_argument("--output", type=Path, required=True, help="folder of the result")
    parser.add_argument("--runs", type=Path, help="folder of all runs (default: RUNS)")
    parser.add_argument(
        "--gpus", type=gpus_option, help="auto, or a number; 0: CPU (default: GPUS)"
    )
    parser.add_argument(
        "--most-gpus", type=int, metavar="N", help="that auto takes (default: all that are free)"
    )
    parser.add_argument(
        "--retrain",
        action="store_true",
        help="set a run of other code aside (<run folder>.1) and train it again",
    )
    parser.add_argument(
        "--log",
        type=Path,
        help="file for the full text, replaced; the terminal then shows progress, validations and "
        "warnings only (default: all on the terminal)",
    )
    program = Path(__file__).with_name("train.py")
    return launch(program, **vars(parser.parse_args()))


if __name__ == "__main__":
    run(main)
