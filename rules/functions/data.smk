"""Inputs and params of the rules before training."""

from pathlib import Path

from vrtspike.data.manifests import ACCEPTED, DATASET, INGEST_SHARD, STORE_SHARD
from vrtspike.deblurring.planning.damage import inputs_version, shard_damage
from vrtspike.deblurring.planning.options import (
    gate_options,
    simulated_sequence,
    store_options,
)
from vrtspike.deblurring.planning.preset_data import (
    statistics_wildcards,
    unused_data_notes,
)


@user_errors()
def dataset_of(wildcards):
    """The data set of a job."""
    return NEEDED_PRESETS.data_source(wildcards.dataset)


@user_errors()
def options_of_stores(wildcards):
    """The options of a job's stores, as JSON."""
    preset = NEEDED_PRESETS.preset_with(wildcards.dataset)
    options = store_options(DEBLURRING, preset, int(wildcards.bins))
    return options.model_dump_json()


@user_errors()
def options_of_gate(wildcards):
    """The options of the gate of a job's data set, as JSON."""
    preset = NEEDED_PRESETS.preset_with(wildcards.dataset)
    options = gate_options(DEBLURRING, preset, int(wildcards.bins))
    return options.model_dump_json()


def dataset_manifest(wildcards):
    """The manifest of the data set of the job's preset."""
    return dataset_of_preset(wildcards.preset)


@user_errors()
def dataset_of_preset(name):
    """The manifest of a preset's data set, after its checkpoint has run."""
    if WORKFLOW.is_prepared(name):
        folder = WORKFLOW.manifest(name).parent.name
        return checkpoints.prepare.get(prepared=folder).output[0]
    need_preset(name)
    END_MESSAGES.add(*unused_data_notes(DEBLURRING, name))
    wildcards = statistics_wildcards(DEBLURRING, RAW_DATA, name)
    return checkpoints.statistics.get(**wildcards).output[0]


def need_preset(name):
    """Note that a target needs a preset, and check that its data have a name of their own."""
    # Jobs of a cluster plan for themselves, and do not know which presets are needed.
    NEEDED_PRESETS.add(name, others_may_differ=SNAKEMAKE.runs_locally)


rerun_damaged_checks = rerun_damaged(
    "data/{dataset}/ingest/shards/{shard}.json",
    INGEST_SHARD,
    ["data/{dataset}/alignment.csv"],
    shard_damage(Path(RESULTS), "data/{dataset}/ingest", INGEST_SHARD),
)
MADE_OF_STORES = ["data/{dataset}/k{bins}/dataset.json"]
rerun_damaged_gate = rerun_damaged(
    "data/{dataset}/k{bins}/accepted.json", ACCEPTED, MADE_OF_STORES
)
rerun_damaged_stores = rerun_damaged(
    "data/{dataset}/k{bins}/shards/{shard}.json",
    STORE_SHARD,
    MADE_OF_STORES,
    shard_damage(Path(RESULTS), "data/{dataset}/k{bins}", STORE_SHARD),
)


@user_errors()
def source_of(wildcards):
    """The configured source of a simulated sequence."""
    return simulated_sequence(
        DEBLURRING.settings.SIMULATE, wildcards.split, wildcards.sequence
    )


def frames_version(wildcards):
    """A line with a digest of the frames of a simulated sequence."""
    folder = source_of(wildcards).FRAMES
    return inputs_version(f"frames in {folder}", folder)


@user_errors()
def raw_versions(wildcards):
    """Lines with digests of the raw files of a shard."""
    return DATA_SHARDS.raw_versions(dataset_of(wildcards), wildcards.shard)


@user_errors()
def ingest_shards(wildcards):
    """The results of all checks, by shard."""
    return DATA_SHARDS.files(dataset_of(wildcards), "ingest")


@user_errors()
def store_shards(wildcards):
    """The digests of all stores, by shard."""
    return DATA_SHARDS.files(dataset_of(wildcards), f"k{wildcards.bins}")


def shard_threads(wildcards):
    """One process per sequence of a shard; Snakemake limits it to --cores."""
    return DATA_SHARDS.threads(dataset_of(wildcards), wildcards.shard)


@user_errors()
def raw_files(wildcards):
    """The user's raw files; params with their digests detect changes."""
    return ancient_files(WORKFLOW.raw_files(preset_of_data(wildcards)))


def preset_of_data(wildcards):
    """One of the presets with these data."""
    return WORKFLOW.preset_by_data_folder[wildcards.prepared]
