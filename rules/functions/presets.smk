"""Lists of presets, and their results as inputs.

Uses functions/data.smk.
"""

from functools import partial
from pathlib import Path

from vrtspike.deblurring.planning.preset_data import checked_files
from vrtspike.workflow import preset_inputs


def preset_of_job(wildcards):
    """The job's preset, as a list."""
    return [wildcards.preset]


@user_errors()
def seeds_of(*presets):
    """The trainings of presets with all seeds."""
    return WORKFLOW.seeds(*presets)


def seeds_of_job(wildcards):
    """The trainings of the job's preset with all seeds."""
    return seeds_of(wildcards.preset)


def seeds_tables(*presets):
    """The tables of seeds of those presets that have several."""
    names = [preset for preset in presets if preset in WORKFLOW.presets_with_seeds]
    return expand("<results>/seeds/{preset}/table.csv", preset=names)


@user_errors()
def swept_presets(wildcards):
    """The trainings of a sweep with all seeds."""
    return seeds_of(*WORKFLOW.sweep(wildcards.sweep).members)


@user_errors()
def ablated_presets(wildcards):
    """The job's preset, or all in PRESETS, with their variants and all seeds."""
    return WORKFLOW.ablation_trainings([*wildcards] or PRESETS)


files_of = preset_inputs.files_of
after_datasets = partial(preset_inputs.after_datasets, dataset_of_preset)
run_inputs = partial(preset_inputs.run_inputs, dataset_of_preset)
evaluation_inputs = partial(preset_inputs.evaluation_inputs, dataset_of_preset)


@user_errors()
def checked_data(wildcards):
    """The tables and gates of the data of the presets in PRESETS, or their prepared data."""
    prepared = [name for name in PRESETS if WORKFLOW.is_prepared(name)]
    videos = [name for name in PRESETS if name not in prepared]
    for name in videos:
        need_preset(name)
    manifests = [str(WORKFLOW.manifest(name)) for name in prepared]
    return [*manifests, *checked_files(DEBLURRING, RAW_DATA, videos)]


def parents(files):
    """The folders of files."""
    return [str(Path(file).parent) for file in files]


def run_folders(wildcards, input):
    """The folders of the compared runs."""
    return parents(input.runs)
