"""What the jobs before training are about, and what they depend on."""

from vrtspike.deblurring.data.manifests import (
    ACCEPTED,
    DATASET,
    INGEST_SHARD,
    STORE_SHARD,
    SURVEY,
)
from vrtspike.deblurring.planning import (
    calibration_options,
    clip_options,
    frames_version,
    raw_file_options,
    recordings_version,
    sensor_option,
    simulated_sequence,
    simulation_options,
    split_options,
)
from vrtspike.workflow.local_devices import ALL_CORES
from vrtspike.workflow.staleness import PreparedData

PREPARED = PreparedData(PLAN)


def dataset_of(wildcards):
    """The dataset that a job is about: named itself, or that of the job's preset."""
    if "dataset" in wildcards.keys():
        return DATASETS[wildcards.dataset]
    return VIDEOS.dataset(wildcards.preset)


def dataset_manifest(wildcards):
    """The dataset of the job's preset; unchanged contents leave what depends on it as it is."""
    return dataset_of_preset(wildcards.preset)


@user_errors()
def dataset_of_preset(name):
    """The manifest of the dataset that a preset is trained on, when it has been made."""
    preset = PLAN.preset(name)
    if not find_problem(preset.TASK).OWN_STAGES:
        folder = PLAN.manifest(name).parent.name
        return checkpoints.prepare.get(prepared=folder).output[0]
    RAW_DATA.require_spikes(name, preset)
    found = dict(dataset=VIDEOS.dataset(name).name, bins=preset.DATA.NUM_VOXEL_BINS)
    return checkpoints.statistics.get(**found).output[0]


def damaged_checks(wildcards):
    """What is wrong with the manifests of a shard's sequences."""
    return SHARDS.damaged_checks(dataset_of(wildcards), wildcards.shard)


def damaged_stores(wildcards):
    """What is wrong with the stores of a shard's sequences."""
    bins = int(wildcards.bins)
    return SHARDS.damaged_stores(dataset_of(wildcards), bins, wildcards.shard)


rerun_damaged_checks = rerun_damaged(
    "data/{dataset}/ingest/shards/{shard}.json",
    INGEST_SHARD,
    ["data/{dataset}/alignment.csv"],
    damaged_checks,
)
MADE_OF_STORES = ["data/{dataset}/k{bins}/dataset.json"]
rerun_damaged_gate = rerun_damaged(
    "data/{dataset}/k{bins}/accepted.json", ACCEPTED, MADE_OF_STORES
)
rerun_damaged_stores = rerun_damaged(
    "data/{dataset}/k{bins}/shards/{shard}.json",
    STORE_SHARD,
    MADE_OF_STORES,
    damaged_stores,
)


@user_errors()
def source_of(wildcards):
    """The configured source of a simulated sequence."""
    return simulated_sequence(
        VIDEOS.settings.SIMULATE, wildcards.split, wildcards.sequence
    )


@user_errors()
def raw_versions(wildcards):
    """Lines that change with the raw files of a shard."""
    return SHARDS.raw_versions(dataset_of(wildcards), wildcards.shard)


@user_errors()
def shard_files(wildcards, folder):
    """The file of every shard of a data set in this folder."""
    shards = SHARDS.names(dataset_of(wildcards))
    return [
        f"{RESULTS}/data/{wildcards.dataset}/{folder}/shards/{n}.json" for n in shards
    ]


def ingest_shards(wildcards):
    """What the checks of all sequences found, shard by shard."""
    return shard_files(wildcards, "ingest")


def sequences_of_shard(wildcards):
    """A process for each sequence of a shard; Snakemake lowers it to the cores there are."""
    size = SHARDS.size(dataset_of(wildcards), wildcards.shard)
    return ALL_CORES if size is None else max(1, size)


def shard_memory(wildcards, threads):
    """Megabytes of a job on a shard: the largest frame and its store, for each process."""
    return 500 + 500 * threads


@user_errors()
def raw_files(wildcards):
    """The raw files that the user gives; their versions tell whether they changed."""
    return [ancient(str(path)) for path in PREPARED.files(wildcards.prepared)]


def preset_of_data(wildcards):
    """The preset that stands for all that share the data."""
    return PLAN.prepared[wildcards.prepared]


def data_settings(settings):
    """What decides these data."""
    return find_problem(settings.TASK).data_settings(settings)
