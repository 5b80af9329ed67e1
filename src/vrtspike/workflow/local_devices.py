"""How the jobs of one machine share its GPUs and its cores.

Snakemake counts both; what a job asks for is asked again just before it starts, when all that is
due is known. On a cluster the profile decides instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from vrtspike.errors import RunError
from vrtspike.workflow.snakemake_internals import Job, SnakemakeInternals

RULES = ("train", "evaluate")
"""Rules whose jobs compute on GPUs."""

EVERY_CORE = 1024
"""More than any machine has; Snakemake lowers it to ``--cores``, a profile replaces it."""


class LocalDevices:
    """What a job gets of this machine.

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
    def _here(self) -> int:
        return self._count()

    def gpus(self, preset: str) -> int:
        """GPUs of a training, for Snakemake to count; ``auto`` shares them with those beside it."""
        if not isinstance(self._gpus, str):
            return self._gpus
        if not self._snakemake.runs_here:
            return 1
        beside = [job for job in self._beside("train", preset) if job.rule == "train"]
        return max(1, self._here // (1 + len(beside))) if self._here else 0

    def threads(self, rule: str, preset: str, cores: int) -> int:
        """Cores of a job: all, divided among those that compute at the same time.

        On a CPU, too: two small trainings side by side leave no core waiting for another.
        """
        if not self._snakemake.runs_here:
            return EVERY_CORE
        each = self.gpus(preset) if rule == "train" else 1
        together = self._here // each if each and self._here else cores
        if together < 2:
            return EVERY_CORE
        return max(1, cores // min(1 + len(self._beside(rule, preset)), together))

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

    def _beside(self, rule: str, preset: str) -> list[Job]:
        """The other due jobs on GPUs that neither wait for a job nor are waited for by it."""
        due = [job for job in self._snakemake.due_jobs() if job.rule in RULES]
        own = next((j for j in due if (j.rule, j.wildcards["preset"]) == (rule, preset)), None)
        if own is None:
            return []
        before = _waited_for(own, due)
        return [
            job for job in due if job not in (own, *before) and own not in _waited_for(job, due)
        ]


def _waited_for(job: Job, due: Sequence[Job]) -> list[Job]:
    """The due jobs whose results a job needs, at any distance."""
    found, waiting = list[Job](), [job]
    while waiting:
        needed = waiting.pop().inputs
        new = [other for other in due if other not in found and needed.intersection(other.outputs)]
        found += new
        waiting += new
    return found
