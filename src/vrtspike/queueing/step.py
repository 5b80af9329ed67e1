"""Become a program of a Slurm job, without the settings that its batch script has.

python -m vrtspike.queueing.step PROGRAM ARGUMENTS ...

What ``sbatch`` was given stands in its script's environment, where ``srun`` takes it for its own
options: the step would ask for GPUs or memory twice, or for what the job does not have.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

_KEPT = frozenset(
    (
        *("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CLUSTER_NAME", "SLURM_CONF"),
        *("SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST"),
    )
)
"""Which job it is, and how its controller is found."""


def without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what Slurm's programs would take for options.

    >>> without_settings({"SLURM_JOB_ID": "7", "SLURM_GPUS": "1", "HOME": "/root"})
    {'SLURM_JOB_ID': '7', 'HOME': '/root'}
    """
    return {
        name: value
        for name, value in environment.items()
        if name in _KEPT or not name.startswith(("SLURM_", "SRUN_", "SBATCH_"))
    }


def main() -> None:
    """Run the program in the place of this one."""
    program = sys.argv[1:]
    os.execvpe(program[0], program, without_settings(os.environ))


if __name__ == "__main__":
    main()
