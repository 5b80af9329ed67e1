"""Slurm for unattended workflows: ``executor: slurm-vrtspike``.

Every call of Snakemake imports this package, also where Snakemake's own Slurm plugin is missing or
of a version that does not fit: then only a run that asks for this executor ends, with a message.
"""

from typing import NoReturn

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings

from vrtspike.system.surroundings import fill_surroundings

fill_surroundings()  # this is read before Snakemake asks for a home

try:
    from snakemake_executor_plugin_slurm_vrtspike.executor import (
        Executor,
        ExecutorSettings,
        common_settings,
    )
except ImportError as error:
    _FAULT = str(error)
    common_settings = CommonSettings(
        non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False
    )

    class Executor(RemoteExecutor):  # type: ignore[no-redef]
        """Ends a run before anything is computed."""

        def __new__(cls, *arguments: object) -> NoReturn:
            """Raise a message for the user."""
            raise WorkflowError(
                "the profile submits jobs through snakemake-executor-plugin-slurm, which is not "
                f"installed or does not fit ({_FAULT}): pip install 'vrtspike[slurm]'"
            )


__all__ = ["Executor", "ExecutorSettings", "common_settings"]
