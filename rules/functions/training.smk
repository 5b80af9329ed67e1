"""Inputs and params of trainings, and the checks before the first job.

Uses functions/devices.smk.
"""

from pathlib import Path

from vrtspike.workflow.start_checks import begin_run


@user_errors()
def input_weights(wildcards):
    """The weights that a training reads, trained or downloaded by other jobs.

    It also refuses missing files, and forces the rerun of stale trainings.
    """
    plan = TRAININGS.plan(wildcards.preset)
    if plan.rerun_reason:
        SNAKEMAKE.force_rerun(str(plan.result), plan.rerun_reason)
    if plan.note is not None:
        END_MESSAGES.add(plan.note)
    trained = TRAININGS.weights(wildcards.preset, "trained").values()
    downloaded = TRAININGS.weights(wildcards.preset, "downloaded").values()
    return [*map(str, trained), *ancient_files(downloaded)]


def retrain_option(wildcards, resources):
    """The launcher's option for RETRAIN; with `resources`, as in `configuration`."""
    return "--retrain" if wildcards.preset in TRAININGS.retrained else ""


@user_errors()
def begin():
    """Wait for other Snakemakes, and check devices, before the first job."""
    begin_run(SNAKEMAKE, Path(RESULTS), GPUS, NODES)
