"""Resources, inputs and params of trainings."""

import json
import shlex

from snakemake.exceptions import WorkflowError

from vrtspike.cluster.gpus import usable_gpus
from vrtspike.workflow.local_devices import LocalDevices
from vrtspike.workflow.training import retrained
from vrtspike.workflow.training_inputs import training_inputs

GPUS, NODES = WORKFLOW.settings.GPUS, WORKFLOW.settings.NODES
DEVICES = LocalDevices(GPUS, SNAKEMAKE, lambda: len(usable_gpus()))


def given_cores():
    """The value of `--cores`; without it (`--dag`) all cores."""
    try:
        return workflow.cores
    except WorkflowError:
        return ALL_CORES


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


TRAINING_DEVICES = {"gpu": training_gpus}
if NODES > 1:
    # The Slurm executor must allocate one task per node, which the launcher starts itself (`mpi`),
    # and GPUs per node; otherwise it derives the number of tasks from the GPUs.
    TRAINING_DEVICES = {
        "nodes": NODES,
        "tasks": NODES,
        "mpi": "srun",
        "tasks_per_gpu": 0,
    }
    if GPUS:
        TRAINING_DEVICES["gres"] = f"gpu:{1 if GPUS == 'auto' else GPUS}"

RETRAINED = retrained(WORKFLOW)


@user_errors()
def input_weights(wildcards):
    """The weights that a training reads, trained or downloaded by other jobs.

    It also refuses missing files, and forces the rerun of stale trainings.
    """
    files = training_inputs(
        TRAININGS, wildcards.preset, RETRAINED, SNAKEMAKE.force_rerun, NOTICES.add
    )
    return [*files.trained, *map(ancient, files.downloaded)]


def retrain_option(wildcards, resources):
    """The launcher's option for RETRAIN; with `resources`, as in `configuration`."""
    return "--retrain" if wildcards.preset in RETRAINED else ""


def configuration(wildcards, resources):
    """Options that pass the configuration to a program.

    Snakemake does not compare params that take `resources`; other params have the keys that change
    results.
    """
    return shlex.join(["--configfile", *CONFIGFILES, "--config", json.dumps(OVERRIDES)])


@user_errors()
def begin():
    """Wait for other Snakemakes, and check devices, before the first job."""
    begin_run(SNAKEMAKE, Path(RESULTS), GPUS, NODES)
