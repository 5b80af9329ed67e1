"""All that this project uses of Snakemake beyond its documented interface, with the reasons.

Tried with Snakemake 9.19, the lowest version allowed, and 9.27 by a real run
(``tests/workflow/test_snakemake_internals.py``). Everything else goes through rules, params, input
functions, profiles, hooks (``onstart``) and the interface for loggers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from vrtspike.workflow.messages import tell_reason


class Job(NamedTuple):
    """A job of a plan."""

    rule: str
    wildcards: dict[str, str]
    inputs: frozenset[str]
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
    def runs_here(self) -> bool:
        """Whether jobs run on this machine and share its devices."""
        return bool(self.is_main and self._workflow.local_exec)

    @property
    def config_arguments(self) -> list[str]:
        """``--config`` as it was typed; ``config`` holds numbers within mappings as strings."""
        return list(self._workflow.config_settings.config_args or ())

    @property
    def forced_rules(self) -> frozenset[str]:
        """Rules of ``--forcerun``: ``train_<preset>`` has no output of its own to force."""
        settings = self._workflow.dag_settings
        return frozenset(["train"] if settings.forceall else map(str, settings.forcerun))

    def make_again(self, path: str, reason: str) -> None:
        """Run the job that makes a file, whether it seems stale or not.

        Snakemake makes nothing that is missing, or damaged, before a result that is there; it has
        no public way for an input function to say otherwise.
        """
        if self.is_main:
            self._workflow.dag.forcefiles.add(path)
            tell_reason(path, reason)

    def due_jobs(self) -> list[Job]:
        """The jobs that will run; all of the plan while that is not known yet.

        No resource function is told which jobs will run beside its own.
        """
        dag = self._workflow.dag
        return list(_described(list(dag.needrun_jobs()) or dag.jobs))


def _described(jobs: Sequence[Any]) -> Iterator[Job]:
    for job in jobs:
        wildcards = {str(name): str(value) for name, value in job.wildcards.items()}
        inputs, outputs = frozenset(map(str, job.input)), tuple(map(str, job.output))
        yield Job(job.rule.name, wildcards, inputs, outputs)
