"""What a training depends on: machines, weights, and whether it begins anew."""

import functools
import json
import shlex

from snakemake.io import IOFile

from vrtspike.config.packages import check_packages
from vrtspike.launching.gpus import require_gpus
from vrtspike.launching.launch import require_machines
from vrtspike.monitoring.nvml import installed_gpus
from vrtspike.planning.devices import MachineShare
from vrtspike.planning.training import FORGOTTEN, retrained
from vrtspike.runs.identity import result_settings

SHARE = MachineShare(
    PLAN, workflow, lambda: len(require_gpus("auto", installed_gpus()))
)


def training_gpus(wildcards):
    """A counter for the scheduler; the launcher chooses the devices."""
    return SHARE.gpus(wildcards.preset)


def training_threads(wildcards):
    """The share of the cores of this machine."""
    return SHARE.threads("train", wildcards.preset)


def training_devices(wildcards, resources):
    """What of the counter the launcher cannot know: how many GPUs `auto` is."""
    if PLAN.settings.GPUS != "auto" or "gpu" not in resources.keys():
        return ""
    return f"--most-gpus {resources.gpu}" if resources.gpu else "--gpus 0"


GPUS = 1 if PLAN.settings.GPUS == "auto" else PLAN.settings.GPUS
NODES = PLAN.settings.NODES
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
        TRAINING_DEVICES["gres"] = f"gpu:{GPUS}"


@functools.cache
def find_machines():
    """Before a run on this machine computes anything: training will find the devices it needs."""
    # Without an executor Snakemake only tells about a plan or its results, such as a report.
    runs = workflow.executor_plugin and not (workflow.dryrun or workflow.touch)
    if runs and workflow.is_main_process and workflow.local_exec:
        require_machines(PLAN.settings.GPUS, NODES)
        SHARE.require_limit()


@functools.cache
def presets_to_retrain():
    """Those whose runs of other code are begun again: RETRAIN, --forcerun train_<preset>."""
    forced = workflow.dag_settings.forcerun
    asked = retrained(PLAN, ["train"] if workflow.dag_settings.forceall else forced)
    if asked and workflow.is_main_process:
        # Jobs on a cluster plan for themselves and know the configuration only.
        given = list(workflow.config_settings.config_args or ())
        key = f"RETRAIN={json.dumps(sorted(asked))}"
        workflow.config_settings.config_args = [*given, key]
    return asked


def is_forgotten(path):
    """Whether a result is there and Snakemake does not know how it was made."""
    if not workflow.is_main_process:
        return False  # jobs do what they are told, and have no right to ask
    forgotten = (
        Path(path).exists() and workflow.persistence.metadata(IOFile(path)) is None
    )
    if forgotten:
        NOTICES.add(FORGOTTEN.format(results=RESULTS))
    return forgotten


@user_errors()
def weights_before(wildcards):
    """The weights a preset learns from, trained or fetched before.

    What else a training cannot do without has to be there before anything is computed.
    """
    preset = wildcards.preset
    TRAININGS.require_files(preset, anew=preset in presets_to_retrain())
    if not TRAININGS.is_trained(preset):
        find_machines()
        check_packages(PLAN.preset(preset))
    weights = f"{TRAININGS.result(preset)}/weights.safetensors"
    if preset in presets_to_retrain():
        make_again(weights)
    elif is_forgotten(weights) and (change := TRAININGS.change(preset)):
        make_again(weights, change)
    elif not Path(weights).exists():
        # A training that was stopped may stand before figures of the one that it replaces.
        make_again(weights, "no result yet")
    elif notice := TRAININGS.code_notice(preset):
        NOTICES.add(notice)
    fetched = TRAININGS.fetched_before(preset)
    return [*TRAININGS.trained_before(preset), *map(ancient, fetched)]


@user_errors()
def given_weights(wildcards):
    """Changes with the contents of weights that the user gives."""
    return TRAININGS.weight_lines(wildcards.preset)


def anew(wildcards, resources):
    """Whether a run of other code is begun again; no reason by itself, like `configuration`."""
    return "--anew" if wildcards.preset in presets_to_retrain() else ""


def configuration(wildcards, resources):
    """Where programs find the same configuration again.

    It takes `resources` because Snakemake does not compare params that derive from them: what
    changes a result is compared key by key.
    """
    return shlex.join(["--configfile", *CONFIGFILES, "--config", json.dumps(OVERRIDES)])
