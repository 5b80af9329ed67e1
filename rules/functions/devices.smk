"""Cores, GPUs and memory of jobs."""

from vrtspike.launching.gpus import usable_gpus
from vrtspike.workflow import job_resources

GPUS, NODES = WORKFLOW.settings.GPUS, WORKFLOW.settings.NODES
memory = job_resources.job_memory
shard_memory = job_resources.shard_memory
DEVICES = job_resources.LocalDevices(GPUS, SNAKEMAKE, lambda: len(usable_gpus()))


def evaluation_threads(wildcards):
    """The job's share of this machine's cores."""
    return DEVICES.threads(1)


def training_threads(wildcards):
    """The job's share of this machine's cores."""
    return DEVICES.threads(DEVICES.gpus)


@user_errors()
def training_devices(wildcards, resources):
    """The launcher's options on GPUs."""
    return DEVICES.options(resources.get("gpu"))
