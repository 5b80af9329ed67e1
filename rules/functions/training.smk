"""Inputs and params of trainings, and the checks before the first job.

Uses functions/devices.smk.
"""

from pathlib import Path

from vrtspike.workflow.start_checks import begin_run
from vrtspike.workflow.training_staleness import retrained_names, training_inputs

RETRAINED = retrained_names(WORKFLOW)


@user_errors()
def input_weights(wildcards):
    """The weights that a training reads, trained or downloaded by other jobs.

    It also refuses missing files, and forces the rerun of stale trainings.
    """
    trained, downloaded = training_inputs(
        TRAININGS, wildcards.preset, RETRAINED, SNAKEMAKE.force_rerun, END_MESSAGES.add
    )
    return [*map(str, trained), *ancient_files(downloaded)]


def retrain_option(wildcards, resources):
    """The launcher's option for RETRAIN; with `resources`, as in `configuration`."""
    return "--retrain" if wildcards.preset in RETRAINED else ""


@user_errors()
def begin():
    """Wait for other Snakemakes, and check devices, before the first job."""
    begin_run(SNAKEMAKE, Path(RESULTS), GPUS, NODES)
