"""Data sets: the manifest of a preset's data, and inputs and params of the rules before training."""

from vrtspike.data.manifests import ACCEPTED, INGEST_SHARD, STORE_SHARD
from vrtspike.deblurring.planning.options import (
    inputs_version,
    raw_folder_json,
    simulated_sequence,
)


@user_errors()
def manifest_of_preset(preset):
    """The manifest of a preset's data set, after its checkpoint has run."""
    if WORKFLOW_CONFIG.is_prepared(preset):
        folder = WORKFLOW_CONFIG.manifest(preset).parent.name
        return checkpoints.prepare.get(prepared=folder).output[0]
    wildcards = DATA_PLAN.manifest_wildcards(preset)
    return checkpoints.statistics.get(**wildcards).output[0]


def manifest_of_job(wildcards):
    """The manifest of the data set of the job's preset."""
    return manifest_of_preset(wildcards.preset)


@user_errors()
def checked_data(wildcards):
    """The tables and acceptances of the data of the presets in PRESETS, or their prepared data."""
    prepared = [name for name in PRESETS if WORKFLOW_CONFIG.is_prepared(name)]
    videos = [name for name in PRESETS if name not in prepared]
    manifests = [str(WORKFLOW_CONFIG.manifest(name)) for name in prepared]
    return [*manifests, *DATA_PLAN.checked_files(videos)]


def data_source_of(wildcards):
    """The data set of a job."""
    return DATA_PLAN.data_source(wildcards.dataset)


def raw_folder_options(wildcards):
    """The folder of a job's raw files."""
    return raw_folder_json(data_source_of(wildcards))


def store_options_json(wildcards):
    """The options of a job's stores."""
    options = DATA_PLAN.store_options(wildcards.dataset, int(wildcards.bins))
    return options.model_dump_json()


def accept_options_json(wildcards):
    """The options of the acceptance of a job's data set."""
    options = DATA_PLAN.accept_options(wildcards.dataset, int(wildcards.bins))
    return options.model_dump_json()


def ingest_shards(wildcards):
    """The results of all checks, by shard."""
    return DATA_PLAN.shard_files(wildcards.dataset, "ingest")


def store_shards(wildcards):
    """The digests of all stores, by shard."""
    return DATA_PLAN.shard_files(wildcards.dataset, f"k{wildcards.bins}")


def shard_threads(wildcards):
    """One process per sequence of a shard; Snakemake limits it to --cores."""
    return DATA_PLAN.shard_threads(wildcards.dataset, wildcards.shard)


rerun_damaged_checks = rerun_damaged(
    "data/{dataset}/ingest/shards/{shard}.json",
    INGEST_SHARD,
    ["data/{dataset}/alignment.csv"],
    lambda wildcards: DATA_PLAN.shard_damage(
        wildcards.dataset, "ingest", wildcards.shard, INGEST_SHARD
    ),
)
STORE_DEPENDENTS = ["data/{dataset}/k{bins}/dataset.json"]
rerun_damaged_acceptance = rerun_damaged(
    "data/{dataset}/k{bins}/accepted.json", ACCEPTED, STORE_DEPENDENTS
)
rerun_damaged_stores = rerun_damaged(
    "data/{dataset}/k{bins}/shards/{shard}.json",
    STORE_SHARD,
    STORE_DEPENDENTS,
    lambda wildcards: DATA_PLAN.shard_damage(
        wildcards.dataset, f"k{wildcards.bins}", wildcards.shard, STORE_SHARD
    ),
)


@user_errors()
def simulation_source(wildcards):
    """The configured source of a simulated sequence."""
    return simulated_sequence(
        DEBLURRING_CONFIG.settings.SIMULATE, wildcards.split, wildcards.sequence
    )


def frames_version(wildcards):
    """A line with a digest of the frames of a simulated sequence."""
    folder = simulation_source(wildcards).FRAMES
    return inputs_version(f"frames in {folder}", folder)


def preset_of_data(wildcards):
    """One of the presets with the prepared data of a job."""
    return WORKFLOW_CONFIG.preset_by_data_folder[wildcards.prepared]


@user_errors()
def raw_files(wildcards):
    """The user's raw files; params with their digests detect changes."""
    return ancient_files(WORKFLOW_CONFIG.raw_files(preset_of_data(wildcards)))
