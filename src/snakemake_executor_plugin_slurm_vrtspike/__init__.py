"""Slurm for workflows that nobody watches: ``executor: slurm-vrtspike``.

The jobs are submitted by Snakemake's Slurm plugin; asked for, and ended, by what stands here. All
Snakemake calls import this package, also where the Slurm plugin is not installed.
"""

from importlib import import_module
from importlib.util import find_spec

_module = import_module(
    f"{__name__}.absent"
    if find_spec("snakemake_executor_plugin_slurm") is None
    else f"{__name__}.executor"
)
Executor = _module.Executor
ExecutorSettings = _module.ExecutorSettings
common_settings = _module.common_settings
