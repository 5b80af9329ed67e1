"""How the jobs of one machine share its GPUs and its cores.

Snakemake counts both; what a job asks for is asked again just before it starts, when all that is
due is known. On a cluster the profile decides instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from vrtspike.errors import RunError
from vrtspike.workflow.snakemake_internals import SnakemakeInternals

ALL_CORES = 1024
"""More than any machine has; Snakemake lowers it to ``--cores``, a profile replaces it."""


class LocalDevices:
    """What a job gets of this machine: its part, where several presets are due.

    Args:
        gpus: GPUS of the configuration.
        snakemake: tells which jobs are due.
        count: counts the GPUs that can be used here; asked once, when it matters.
    """

    def __init__(
        self, gpus: int | str, snakemake: SnakemakeInternals, count: Callable[[], int]
    ) -> None:
        self._gpus, self._snakemake, self._count = gpus, snakemake, count

    @cached_property
    def _local_gpus(self) -> int:
        return self._count()

    @property
    def _presets(self) -> int:
        due = (job for job in self._snakemake.due_jobs() if job.rule in ("train", "evaluate"))
        return len({job.wildcards["preset"] for job in due}) or 1

    @property
    def gpus(self) -> int:
        """GPUs of a training, for Snakemake to count; ``auto`` shares them among the presets."""
        if not isinstance(self._gpus, str):
            return self._gpus
        if not self._snakemake.runs_locally:
            return 1
        return max(1, self._local_gpus // self._presets) if self._local_gpus else 0

    def threads(self, gpus: int, cores: int) -> int:
        """Cores of a job: all, divided among the presets that compute at the same time.

        On a CPU, too: two small trainings side by side leave no core waiting for another.

        Args:
            gpus: of the job.
            cores: that Snakemake was given.
        """
        if not self._snakemake.runs_locally:
            return ALL_CORES
        together = self._local_gpus // gpus if gpus and self._local_gpus else cores
        return max(1, cores // max(1, min(self._presets, together)))

    def options(self, granted: int) -> str:
        """What of a training's GPUs its launcher has to be told.

        Args:
            granted: by Snakemake, which lowers what is asked for to ``--resources gpu=N``.

        Raises:
            RunError: if that is less than GPUS.
        """
        if isinstance(self._gpus, str):
            return f"--most-gpus {granted}" if granted else "--gpus 0"
        if granted < self._gpus:
            raise RunError(
                f"--resources gpu={granted} leaves less than the {self._gpus} GPUs that GPUS "
                "(config/config.yaml) gives a training; raise the one or lower the other"
            )
        return ""
