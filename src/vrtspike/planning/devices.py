"""How the jobs of one machine share its GPUs and its cores: who computes beside whom.

Snakemake counts GPUs and cores; what a job asks for is asked again just before it starts, when all
that is due is known. On a cluster the profile decides instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vrtspike.config.workflow import Workflow
from vrtspike.errors import RunError
from vrtspike.graphs import all_before

RULES = ("train", "evaluate")
"""Rules whose jobs compute on GPUs."""

EVERY_CORE = 1024
"""More than any machine has; Snakemake lowers it to ``--cores``, a profile replaces it."""


class MachineShare:
    """What a job gets of this machine.

    Args:
        plan: the configuration.
        workflow: Snakemake's.
        count: counts the GPUs that can be used here; asked once, when it matters.
    """

    def __init__(
        self,
        plan: Workflow,
        workflow: Any,  # noqa: ANN401 - Snakemake's
        count: Callable[[], int],
    ) -> None:
        self._gpus = plan.settings.GPUS
        self._workflow = workflow
        self._count = count
        self._limit: int | None = None

    @property
    def is_here(self) -> bool:
        """Whether jobs run on this machine, side by side."""
        workflow = self._workflow
        return bool(workflow.is_main_process and workflow.executor_plugin and workflow.local_exec)

    def gpus(self, preset: str) -> int:
        """GPUs of a training, for Snakemake to count; ``auto`` shares them with those beside it."""
        if self._gpus != "auto":
            return self._gpus
        if not self.is_here:
            return 1
        limit = self.limit()
        beside = [job for job in self._beside("train", preset) if job.rule.name == "train"]
        return max(1, limit // (1 + len(beside))) if limit else 0

    def threads(self, rule: str, preset: str) -> int:
        """Cores of a job: all, divided among those that compute at the same time on GPUs."""
        if not self.is_here:
            return EVERY_CORE
        each = self.gpus(preset) if rule == "train" else 1
        together = self.limit() // each if each else 0
        if together < 2:
            return EVERY_CORE
        return max(1, self._workflow.cores // min(1 + len(self._beside(rule, preset)), together))

    def limit(self) -> int:
        """GPUs that jobs may take at the same time: ``--resources gpu=N``, or all that are here."""
        if self._limit is None:
            given: int | None = self._workflow.global_resources.get("gpu").value
            self._limit = self._count() if given is None else given
            if given is None and self._limit:
                self._workflow.register_resource("gpu", self._limit)
        return self._limit

    def require_limit(self) -> None:
        """Make sure that a training may take its GPUs; Snakemake would lower them in silence.

        Raises:
            RunError: if ``--resources gpu=N`` is less.
        """
        if self.is_here and self._gpus != "auto" and self.limit() < self._gpus:
            raise RunError(
                f"--resources gpu={self.limit()} leaves less than the {self._gpus} GPUs that GPUS "
                "(config/config.yaml) gives a training; raise the one or lower the other"
            )

    def _beside(self, rule: str, preset: str) -> Sequence[Any]:
        """The other due jobs on GPUs that neither wait for a job nor are waited for by it."""
        dag = self._workflow.dag
        # Asked for the first time before it is known what is due: as if everything were.
        due = [job for job in list(dag.needrun_jobs()) or dag.jobs if job.rule.name in RULES]
        own = [job for job in due if (job.rule.name, job.wildcards.preset) == (rule, preset)]
        if not own:
            return ()
        before = {job: all_before(dag.dependencies, [job]) for job in due}
        related = {*own, *before[own[0]], *(job for job in due if own[0] in before[job])}
        return [job for job in due if job not in related]
