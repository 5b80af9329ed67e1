"""What stands in where Snakemake's Slurm plugin is not installed: a message that says so."""

from __future__ import annotations

from typing import NoReturn

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings

from snakemake_executor_plugin_slurm_vrtspike.settings import AbsentSettings as ExecutorSettings

__all__ = ["Executor", "ExecutorSettings", "common_settings"]

common_settings = CommonSettings(
    non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False
)


class Executor(RemoteExecutor):
    """Ends the run before anything is computed."""

    def __new__(cls, *arguments: object) -> NoReturn:
        """Raise a message for the user."""
        raise WorkflowError(
            "the profile submits jobs through snakemake-executor-plugin-slurm, which is not "
            "installed: pip install 'vrtspike[slurm]', or -r requirements.lock"
        )
