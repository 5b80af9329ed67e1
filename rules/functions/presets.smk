"""Lists of presets, and their results as inputs.

Uses functions/data.smk.
"""

from itertools import chain
from pathlib import Path

from vrtspike.deblurring.planning.prepared_data import checked_files


def preset_of_job(wildcards):
    """The job's preset, as a list."""
    return [wildcards.preset]


@user_errors()
def seeds_of(*presets):
    """The trainings of presets with all seeds."""
    return [name for preset in presets for name in WORKFLOW.seeds(preset)]


def seeds_of_job(wildcards):
    """The trainings of the job's preset with all seeds."""
    return seeds_of(wildcards.preset)


def seeds_tables(*presets):
    """The tables of seeds, for presets with names seeds."""
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


def as_function(presets):
    """Names of presets, or a function of the wildcards, as a function of the wildcards."""
    return presets if callable(presets) else lambda wildcards: presets


def files_of(pattern, presets, **values):
    """A file of each preset, and each of further values, as an input function."""
    return lambda wildcards: expand(
        pattern, preset=as_function(presets)(wildcards), **values
    )


def after_datasets(presets):
    """The data sets of presets as inputs of rules behind trainings, only for the order.

    After a checkpoint, Snakemake evaluates again only the jobs that depend on it directly. Without
    this input, other jobs would stay due after an unchanged data set.

    Args:
        presets: names, or a function of the wildcards that returns them.
    """

    @user_errors()
    def datasets(wildcards):
        manifests = [
            dataset_of_preset(name) for name in as_function(presets)(wildcards)
        ]
        return [ancient(path) for path in dict.fromkeys(manifests)]

    return datasets


@user_errors()
def checked_data(wildcards):
    """The tables and gates of the data of the presets in PRESETS, or their prepared data."""
    checked = [
        checked_files(name, DEBLURRING, RAW_DATA, alone=SNAKEMAKE.runs_locally)
        for name in PRESETS
    ]
    return list(dict.fromkeys(chain.from_iterable(checked)))


def run_inputs(presets):
    """The runs of presets as inputs.

    Args:
        presets: names, or a function of the wildcards that returns them.
    """
    return dict(
        datasets=after_datasets(presets),
        runs=files_of("<results>/train/{preset}/run.json", presets),
    )


def evaluation_inputs(presets):
    """The runs and evaluations of presets as inputs."""
    return dict(
        **run_inputs(presets),
        evaluations=files_of("<results>/evaluate/{preset}/summary.json", presets),
    )


def parents(files):
    """The folders of files."""
    return [str(Path(file).parent) for file in files]


def run_folders(wildcards, input):
    """The folders of the compared runs."""
    return parents(input.runs)
