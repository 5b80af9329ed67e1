"""Uses of Snakemake beyond its documented interface, with the reasons.

Tested with Snakemake 9.19, the lowest version allowed, and 9.27 by a real run
(``tests/workflow/test_snakemake_internals.py``). Everything else goes through rules, params, input
functions, profiles, hooks (``onstart``) and the interface for loggers.

A Snakefile learns about itself and its run by ``config``, ``workflow.basedir``,
``workflow.source_path`` and ``workflow.cores`` alone. Each use below says what is missing there.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vrtspike.system.errors import ConfigError
from vrtspike.workflow.messages import RERUN_REASON, RULE_NAMES


class DueJob(NamedTuple):
    """A job of a plan.

    Attributes:
        rule: name of its rule.
        wildcards: values of its wildcards by name.
        outputs: paths of its outputs.
    """

    rule: str
    wildcards: dict[str, str]
    outputs: tuple[str, ...]


def _make_no_copy(persistence: object, path: Path) -> None:
    """Replace ``backup_output``: jobs change no output in place, so that no copy is needed."""


def _is_kept(persistence: object, path: Path) -> bool:
    """Replace ``restore_output``: return whether an output exists after a job that failed."""
    return path.exists()


def _log(text: str, facts: Mapping[str, object]) -> None:
    """Log a message of this workflow, with facts for the project's log handler."""
    from snakemake.logging import logger

    logger.info(text, extra=dict(facts))


class SnakemakeInternals:
    """Access to undocumented parts of the Snakefile's global ``workflow``.

    Args:
        workflow: the global of that name in a Snakefile.
    """

    def __init__(self, workflow: Any) -> None:  # noqa: ANN401 - it has no published type
        self._workflow = workflow
        self._rerun_reasons: dict[str, str] = {}

    def make_termination_safe(self) -> None:
        """Have Snakemake's handler of SIGTERM run in a thread; call it before the scheduler exists.

        The handler (``JobScheduler.exit_gracefully``, 9.19 to 9.27) takes a lock and a semaphore.
        Python runs handlers in the main thread; if the signal arrives while the scheduler holds one
        of them there, the process waits for ever. Snakemake installs the handler after the last
        hook that a job's Snakemake offers.

        To remove when
        ``test_sigterm_while_the_scheduler_holds_its_lock_ends_the_run`` passes without this on
        every version allowed: the handler then takes no lock of the main thread.
        """
        from snakemake.scheduling.job_scheduler import JobScheduler

        handle = JobScheduler.exit_gracefully
        if getattr(handle, "is_safe", False):
            return  # a Snakefile may be read twice in one process

        def handle_in_thread(scheduler: Any, *signal: object) -> None:  # noqa: ANN401
            # threading.Thread would wait for the thread, and so perhaps for a lock.
            _thread.start_new_thread(handle, (scheduler, *signal))

        handle_in_thread.is_safe = True  # type: ignore[attr-defined]
        JobScheduler.exit_gracefully = handle_in_thread

    def keep_results_of_failed_jobs(self) -> None:
        """Leave outputs flagged with ``update`` as they are when their job fails, without copies.

        The programs of these jobs replace the outputs only on success. Snakemake would copy them
        before a job, and back after a failure (``FileBackupMixin``, 9.19 to 9.27, since
        https://github.com/snakemake/snakemake/pull/3833): with a new date, which makes later
        results stale, and truncated on a full disk. On a cluster the job's own Snakemake uses up
        the copy, so that the main one removes the files.

        To remove when ``test_an_output_of_a_failed_job_is_not_touched`` passes without this on
        every version allowed, also on a cluster: Snakemake then offers such outputs without a copy.
        """
        from snakemake.persistence import FileBackupMixin

        FileBackupMixin.backup_output = _make_no_copy
        FileBackupMixin.restore_output = _is_kept

    @property
    def rules_folder(self) -> str:
        """Folder, or address, of the file that is being read, such as ``rules/common.smk``.

        For a URL, ``workflow.source_path`` returns a cached copy, which is not a project folder.
        """
        return str(self._workflow.current_basedir)

    @property
    def snakefile(self) -> str:
        """Path of the main Snakefile, which is another one if this workflow is a module of it.

        ``workflow.basedir`` is its folder, without its name.
        """
        return str(self._workflow.main_snakefile)

    @property
    def is_module(self) -> bool:
        """True if this workflow is a module of another one, which its Snakefile is not told."""
        return not self._workflow.modifier.is_main_snakefile()

    def require_read_config(self, config: Mapping[str, Any]) -> None:
        """Reject values that a module is given and that are in no file, nor in ``--config``.

        ``config`` is that of the module; the main Snakefile's, to compare with, is not accessible.

        Args:
            config: Snakemake's configuration of this workflow.

        Raises:
            ConfigError: if the configuration differs from the main Snakefile's.
        """
        if not self.is_module or not self._workflow.modifier.skip_configfile:
            return
        main = self._workflow.modifier_stack[0].globals["config"]
        if config != main:
            raise ConfigError(
                f"{self.snakefile}: the module has a config of its own, which is not read: found "
                f"{dict(config)}; write config: config there, and these values into "
                "config/config.yaml or a file that configfile: names"
            )

    def begin_module(self, begin: Callable[[], None]) -> None:
        """Have a function called before the first job of the workflow that this one is a module of.

        Snakemake runs ``onstart`` of a module only if one of the main Snakefile calls it. Without
        that call, the checks before the first job would be skipped in silence. An ``onstart`` of
        the main Snakefile after the module takes the place of this one.

        To remove when Snakemake runs ``onstart`` of every module.
        """
        start = self._workflow._onstart

        def start_both(log: str) -> None:
            begin()
            start(log)

        self._workflow._onstart = start_both

    @property
    def is_main(self) -> bool:
        """True if this process plans the workflow; False in a cluster job's Snakemake.

        A cluster job must not decide what is stale, and need not read raw files. Its Snakefile is
        not told that it plans a single job.
        """
        return bool(self._workflow.is_main_process)

    @property
    def is_dry_run(self) -> bool:
        """True in a dry run, whose plan must report errors of the data itself.

        ``onstart`` is not called in a dry run, but only after the plan.
        """
        return bool(self._workflow.dryrun)

    @property
    def runs_locally(self) -> bool:
        """True if jobs run on this machine and share its devices.

        Resource functions are not told the executor.
        """
        return bool(self.is_main and self._workflow.local_exec)

    @property
    def cores(self) -> int | None:
        """Value of ``--cores``; None without it, as with ``--dag``."""
        from snakemake.exceptions import WorkflowError

        try:
            return int(self._workflow.cores)
        except WorkflowError:
            return None

    @property
    def config_arguments(self) -> list[str]:
        """``--config`` as typed; Snakemake's ``config`` has strings for numbers in mappings."""
        return list(self._workflow.config_settings.config_args or ())

    def log_rule_names(self) -> None:
        """Log the names of the rules so far, for suggestions (``MessageRewriter``).

        The interface for loggers has no list of rules.

        To remove when it has one.
        """
        if self.is_main:
            names = [rule.name for rule in self._workflow.rules]
            text = f"{len(names)} targets; snakemake --list explains them"
            _log(text, {RULE_NAMES: names})

    @property
    def disabled_triggers(self) -> list[str]:
        """Kinds of changes that this project relies on and that ``rerun-triggers`` leaves out.

        Options of a user's profile also apply, so the command line alone is not sufficient.
        Before the plan begins, none is known.
        """
        if self._workflow.dag_settings is None:
            return []
        enabled = {str(trigger) for trigger in self._workflow.rerun_triggers}
        return [name for name in ("mtime", "params", "input", "code") if name not in enabled]

    def force_rerun(self, path: str, reason: str) -> None:
        """Force the job that makes a file to run.

        Snakemake does not make missing or damaged files again if later results exist, and none of
        its triggers can say so. A param or input that names the damage would change again once the
        job has run, and make the job stale a second time. The date of a marker file would be
        written by every plan, also by a dry run. ``--forcerun`` is read before the plan, whose jobs
        are known only when their input functions are called: these call this function.

        To remove when a rule can state that its output is damaged, or when Snakemake makes missing
        outputs again although later results exist.
        """
        if not self.is_main:
            return
        self._workflow.dag.forcefiles.add(path)
        if self._rerun_reasons.get(path) != reason:  # a plan asks many times
            self._rerun_reasons[path] = reason
            _log(f"{path}: {reason}", {RERUN_REASON: (path, reason)})

    def due_jobs(self) -> list[DueJob]:
        """Return the jobs that will run; all jobs of the plan while that is unknown.

        Snakemake passes no such list to resource functions.
        """
        dag = self._workflow.dag
        return [
            DueJob(job.rule.name, dict(job.wildcards.items()), tuple(map(str, job.output)))
            for job in list(dag.needrun_jobs()) or dag.jobs
        ]

    def files(self) -> set[str]:
        """Return inputs and outputs of all jobs of the plan, due or not.

        ``--summary`` lists outputs alone, and only instead of a run.
        """
        jobs = self._workflow.dag.jobs
        return {str(file) for job in jobs for file in (*job.input, *job.output)}
