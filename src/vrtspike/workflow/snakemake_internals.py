"""All that this project uses of Snakemake beyond its documented interface, with the reasons.

Tried with Snakemake 9.19, the lowest version allowed, and 9.27 by a real run
(``tests/workflow/test_snakemake_internals.py``). Everything else goes through rules, params, input
functions, profiles, hooks (``onstart``) and the interface for loggers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from vrtspike.workflow.messages import log_rerun_reason


class Job(NamedTuple):
    """A job of a plan."""

    rule: str
    wildcards: dict[str, str]
    outputs: tuple[str, ...]


class SnakemakeInternals:
    """What the Snakefile's ``workflow`` tells that no documented name does.

    Args:
        workflow: the global of that name in a Snakefile.
    """

    def __init__(self, workflow: Any) -> None:  # noqa: ANN401 - it has no published type
        self._workflow = workflow

    @property
    def is_main(self) -> bool:
        """Whether this is no job of a cluster, which reads the Snakefile for itself alone.

        Such a job has no right to decide what is stale, and need not look at raw files.
        """
        return bool(self._workflow.is_main_process)

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing will run, so that a plan has to name faults itself."""
        return bool(self._workflow.dryrun)

    @property
    def runs_locally(self) -> bool:
        """Whether jobs run on this machine and share its devices."""
        return bool(self.is_main and self._workflow.local_exec)

    @property
    def config_arguments(self) -> list[str]:
        """``--config`` as it was typed; ``config`` holds numbers within mappings as strings."""
        return list(self._workflow.config_settings.config_args or ())

    def force_rerun(self, path: str, reason: str) -> None:
        """Run the job that makes a file, whether it seems stale or not.

        Snakemake makes nothing that is missing, or damaged, before a result that is there; it has
        no public way for an input function to say otherwise.
        """
        if self.is_main:
            self._workflow.dag.forcefiles.add(path)
            log_rerun_reason(path, reason)

    def due_jobs(self) -> list[Job]:
        """The jobs that will run; all of the plan while that is not known yet.

        No resource function is told which jobs will run beside its own.
        """
        dag = self._workflow.dag
        return [
            Job(job.rule.name, dict(job.wildcards.items()), tuple(map(str, job.output)))
            for job in list(dag.needrun_jobs()) or dag.jobs
        ]

    def files(self) -> set[str]:
        """What the jobs of the plan read and write, whether they will run or not."""
        jobs = self._workflow.dag.jobs
        return {file for job in jobs for file in map(str, (*job.input, *job.output))}
