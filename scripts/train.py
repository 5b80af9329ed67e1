"""Train the run in a folder, or continue it.

scripts/launch_training.py makes the folder of a preset, takes free GPUs, starts this program and
publishes the result; snakemake does it for everything from raw data to the report. By hand, on as
many GPUs as divide the run's batches per step:

    torchrun --nproc-per-node 2 scripts/train.py --run-dir runs/<preset>/<fingerprint>

The folder contains settings.json, code.json (digests of the code), statistics.json (with which
inputs are standardised), run.json (environment, starts, status, metrics), metrics.jsonl,
tensorboard/, logs/ (time and memory), pictures/, checkpoints/, best.safetensors (of the best
validation) and at the end weights.safetensors.

SIGTERM, SIGUSR1, SIGHUP (a closed terminal) or Ctrl-C stop the run after the current step and save
its state. After a crash it continues from the last checkpoint (TRAIN.SAVE_EVERY_STEPS). The result
is always the same. Exit status: 0 finished, 75 stopped and saved (start again to continue), 2
invalid input, with a message, 1 a crash. A torchrun started by hand kills processes that have not
ended 30 seconds after a signal, and ends with 1; with --max-restarts N, set
TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from vrtspike.launching.signals import (
    exit_process,
    process_rank,
    report_status,
    restore_stop_signals,
)
from vrtspike.runs.identity import prepare_folder
from vrtspike.staleness.training_code import record_code
from vrtspike.system.errors import EXIT_USER_ERROR, UserError, first_few
from vrtspike.system.processes import stop_with_parent
from vrtspike.system.program import run_main


def main() -> int:
    """Parse the arguments, check the run, train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--run-dir", type=Path, required=True, help="folder of the run, with its settings.json"
    )
    arguments = parser.parse_args()
    restore_stop_signals()
    stop_with_parent()
    try:
        training_run = prepare_folder(arguments.run_dir)
        # PyTorch takes seconds to import; faults of the arguments are reported before.
        from vrtspike.training.run import train_preset

        record = partial(record_and_show_code, arguments.run_dir, training_run.settings.TASK)
        status = train_preset(training_run, arguments.run_dir, record)
    except UserError as error:
        rank = process_rank()
        process = f" (process {rank})" if rank else ""
        print(f"error{process}: {error}", file=sys.stderr)
        status = EXIT_USER_ERROR
    return report_status(status)


def record_and_show_code(folder: Path, task: str) -> list[str]:
    """Record the code of a new run; show and return the files that have changed since it began."""
    changed = record_code(folder, Path(__file__), task)
    if changed:
        print(f"code has changed since this run began: {first_few(changed)}")
    return changed


if __name__ == "__main__":
    run_main(main, exit_process)
