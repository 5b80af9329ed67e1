"""Trainings and their results: lists of presets, inputs and params of rules on these.

Uses functions/data.smk.
"""

from pathlib import Path

from vrtspike.analysis.evaluation_files import summary_damage
from vrtspike.workflow.rule_values import PresetInputs, evaluation_overrides
from vrtspike.workflow.start_checks import begin_run

# The preset `reproduce` without its spikes is VRT itself.
PUBLISHED_VRT = "reproduce-without-spikes"


@user_errors()
def begin():
    """Wait for other Snakemakes, and check devices, before the first job."""
    begin_run(SNAKEMAKE, Path(RESULTS), GPUS, NODES)


def input_weights(wildcards):
    """The weights that a training reads, trained or downloaded by other jobs.

    It also refuses missing files, and forces the rerun of stale trainings.
    """
    plan = TRAINING_PLANNER.plan(wildcards.preset)
    if plan.rerun_reason:
        SNAKEMAKE.force_rerun(str(plan.result), plan.rerun_reason)
    if plan.message is not None:
        EXIT_MESSAGES.add(plan.message)
    trained = TRAINING_PLANNER.weights(wildcards.preset, "trained").values()
    downloaded = TRAINING_PLANNER.weights(wildcards.preset, "downloaded").values()
    return [*map(str, trained), *ancient_files(downloaded)]


def retrain_option(wildcards, resources):
    """The launcher's option for RETRAIN; with `resources`, as in `configuration`."""
    return "--retrain" if wildcards.preset in TRAINING_PLANNER.retrained else ""


def backbones(wildcards):
    """Published weights of the metrics' networks."""
    return ancient_files(WORKFLOW_CONFIG.evaluation_weights(wildcards.preset))


def damaged_summary(wildcards):
    """The fault of a summary that is not as the evaluation wrote it; empty without one."""
    return summary_damage(Path(RESULTS, "evaluate", wildcards.preset, "summary.json"))


def evaluation_options(wildcards, resources):
    """Options with the present TEST settings, which may differ from those of the training."""
    return evaluation_overrides(WORKFLOW_CONFIG.settings_of(wildcards.preset))


@user_errors()
def published_vrt(wildcards):
    """VRT's weights; they and the frames must exist before anything is computed."""
    # Imported here, because it imports plotting.
    from vrtspike.evaluation.paper_results import published_vrt_weights

    return ancient(published_vrt_weights(DEBLURRING_CONFIG.settings_of(PUBLISHED_VRT)))


@user_errors()
def seeds_of(*presets):
    """The trainings of presets with all seeds."""
    return WORKFLOW_CONFIG.seeds(*presets)


def seeds_tables(*presets):
    """The tables of seeds of those presets that have several."""
    names = [
        preset for preset in presets if preset in WORKFLOW_CONFIG.presets_with_seeds
    ]
    return expand("<results>/seeds/{preset}/table.csv", preset=names)


@user_errors()
def swept_presets(wildcards):
    """The trainings of a sweep with all seeds."""
    return seeds_of(*WORKFLOW_CONFIG.sweep(wildcards.sweep).members)


@user_errors()
def ablated_presets(wildcards):
    """The job's preset, or all in PRESETS, with their variants and all seeds."""
    return WORKFLOW_CONFIG.ablation_trainings([*wildcards] or PRESETS)


PRESET_INPUTS = PresetInputs(manifest_of_preset)


def parent_folders(files):
    """The folders of files."""
    return [str(Path(file).parent) for file in files]


def run_folders(wildcards, input):
    """The folders of the compared runs."""
    return parent_folders(input.runs)
