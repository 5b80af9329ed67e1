"""What a training depends on: devices, weights, and whether a new run is begun."""

import json
import shlex

from snakemake.exceptions import WorkflowError

from vrtspike.cluster.gpus import require_gpus
from vrtspike.monitoring.nvml import installed_gpus
from vrtspike.workflow.local_devices import LocalDevices
from vrtspike.workflow.training import retrained

GPUS, NODES = PLAN.settings.GPUS, PLAN.settings.NODES
DEVICES = LocalDevices(
    GPUS, SNAKEMAKE, lambda: len(require_gpus("auto", installed_gpus()))
)


def given_cores():
    """What `--cores` says; pictures of a plan are drawn without."""
    try:
        return workflow.cores
    except WorkflowError:
        return ALL_CORES


def training_gpus(wildcards):
    """A counter for the scheduler; the launcher chooses the devices."""
    return DEVICES.gpus


def training_threads(wildcards):
    """Its part of the cores of this machine."""
    return DEVICES.threads(DEVICES.gpus, given_cores())


@user_errors()
def training_devices(wildcards, resources):
    """What of the counter the launcher cannot know."""
    return DEVICES.options(resources.gpu) if "gpu" in resources.keys() else ""


TRAINING_DEVICES = {"gpu": training_gpus}
if NODES > 1:
    # What the Slurm executor needs for one task a node, which the launcher starts by itself
    # (`mpi`), and as many GPUs on each; it would count tasks by GPUs otherwise.
    TRAINING_DEVICES = {
        "nodes": NODES,
        "tasks": NODES,
        "mpi": "srun",
        "tasks_per_gpu": 0,
    }
    if GPUS:
        TRAINING_DEVICES["gres"] = f"gpu:{1 if GPUS == 'auto' else GPUS}"

RETRAINED = retrained(PLAN)


@user_errors()
def input_weights(wildcards):
    """The weights a preset learns from, trained or fetched before.

    What else a training cannot do without has to be there before anything is computed.
    """
    preset = wildcards.preset
    TRAININGS.require_files(preset, retrain=preset in RETRAINED)
    change = "asked for" if preset in RETRAINED else TRAININGS.change(preset)
    weights = TRAININGS.result(preset) / "weights.safetensors"
    if change:
        SNAKEMAKE.force_rerun(str(weights), change)
    elif not weights.exists():
        # A training that was stopped may stand before figures of the one that it replaces.
        SNAKEMAKE.force_rerun(str(weights), "no result yet")
    elif notice := TRAININGS.code_notice(preset):
        NOTICES.add(notice)
    fetched = TRAININGS.downloaded_weights(preset)
    return [*TRAININGS.trained_weights(preset), *map(ancient, fetched)]


def retrain_option(wildcards, resources):
    """Whether a run of other code is set aside; no reason by itself, like `configuration`."""
    return "--retrain" if wildcards.preset in RETRAINED else ""


def configuration(wildcards, resources):
    """Where programs find the same configuration again.

    It takes `resources` because Snakemake does not compare params that derive from them: what
    changes a result is compared key by key.
    """
    return shlex.join(["--configfile", *CONFIGFILES, "--config", json.dumps(OVERRIDES)])
