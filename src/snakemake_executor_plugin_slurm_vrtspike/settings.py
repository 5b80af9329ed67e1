"""Our settings of the executor, which Snakemake turns into options."""

# No annotations from the future: Snakemake takes the types themselves.
from dataclasses import dataclass, field

from snakemake_interface_executor_plugins.settings import ExecutorSettingsBase


@dataclass
class MemorySettings(ExecutorSettingsBase):
    """What a job asks for that has run out of memory."""

    memory_limit_mb: int = field(
        default=0,
        metadata={
            "help": "Most memory (MB) that a job asks for which has run out of less: it asks for "
            "twice as much each time. 0 sets no limit; sbatch refuses what no node has."
        },
    )


@dataclass
class AbsentSettings(MemorySettings):
    """The settings that the profile names, where the Slurm plugin is not installed."""

    init_seconds_before_status_checks: int = field(
        default=0, metadata={"help": "Needs snakemake-executor-plugin-slurm."}
    )
