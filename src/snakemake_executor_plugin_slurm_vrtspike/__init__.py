"""Slurm for unattended workflows: ``executor: slurm-vrtspike``.

Every call of Snakemake imports this package, even if Snakemake's own Slurm plugin is missing or of
an unsuitable version. In this case only runs that select this executor end, with a message.
"""

from importlib.metadata import version

from packaging.version import Version
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings

from vrtspike.system.errors import install_advice
from vrtspike.system.user_environment import set_default_user

PLUGIN_NAME = "snakemake-executor-plugin-slurm"
LOWEST_VERSION = "2.8"
"""The lowest version of the plugin."""
set_default_user()  # this is read before Snakemake asks for a home

try:
    if Version(installed := version(PLUGIN_NAME)) < Version(LOWEST_VERSION):
        raise ImportError(f"{installed} is installed, {LOWEST_VERSION} or newer is needed")
    # A plugin may lack ExecutorSettings, so that the fallback below has none.
    from snakemake_executor_plugin_slurm import ExecutorSettings as ExecutorSettings
    from snakemake_executor_plugin_slurm import common_settings

    from snakemake_executor_plugin_slurm_vrtspike.executor import Executor
except ImportError as error:
    _FAULT = str(error)
    common_settings = CommonSettings(
        non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False
    )

    class Executor(RemoteExecutor):  # type: ignore[no-redef]
        """Ends a run before anything is computed."""

        def __new__(cls, *arguments: object) -> "Executor":
            """Raise a message for the user."""
            raise WorkflowError(
                f"the profile submits jobs through {PLUGIN_NAME}, which is not installed or does "
                f"not fit ({_FAULT}); {install_advice('slurm')}"
            )


__all__ = ["Executor", "common_settings"]
