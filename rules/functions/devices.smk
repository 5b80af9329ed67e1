"""Cores, GPUs and memory of jobs."""

from snakemake.exceptions import WorkflowError

from vrtspike.cluster.gpus import usable_gpus
from vrtspike.workflow.local_devices import (
    ALL_CORES,
    LocalDevices,
    resources_of_nodes,
)

GPUS, NODES = WORKFLOW.settings.GPUS, WORKFLOW.settings.NODES
DEVICES = LocalDevices(GPUS, SNAKEMAKE, lambda: len(usable_gpus()))


def given_cores():
    """The value of `--cores`; without it (`--dag`) all cores."""
    try:
        return workflow.cores
    except WorkflowError:
        return ALL_CORES


def memory(megabytes):
    """Memory of a job in megabytes; a retry asks for more."""
    return lambda wildcards, attempt: megabytes * attempt


def evaluation_threads(wildcards):
    """The job's share of this machine's cores."""
    return DEVICES.threads(1, given_cores())


# A job of a cluster asks for none if the configuration wants none.
EVALUATION_GPUS = 0 if GPUS == 0 else 1


def training_gpus(wildcards):
    """The number of GPUs, for the scheduler; the launcher chooses the devices."""
    return DEVICES.gpus


def training_threads(wildcards):
    """The job's share of this machine's cores."""
    return DEVICES.threads(DEVICES.gpus, given_cores())


@user_errors()
def training_devices(wildcards, resources):
    """The launcher's options on GPUs."""
    return DEVICES.options(resources.gpu) if "gpu" in resources.keys() else ""


TRAINING_DEVICES = (
    {"gpu": training_gpus} if NODES == 1 else resources_of_nodes(NODES, GPUS)
)
