"""What the jobs on raw files depend on."""

from vrtspike.deblurring.data.manifests import ACCEPTED
from vrtspike.files import json_digest
from vrtspike.planning.devices import EVERY_CORE
from vrtspike.deblurring.planning.options import (
    clip_options,
    raw_file_options,
    sensor_option,
)
from vrtspike.deblurring.planning.shares import Shares

SHARES = Shares(VIDEOS, RAW_DATA, compares=ASKS, notice=NOTICES.add)


def share_files(dataset, folder):
    """The file of every share of a data set in this folder."""
    return [f"{folder}/shares/{share}.json" for share in SHARES.names(dataset)]


def generated(wildcards):
    """What must be generated before a dataset can be surveyed."""
    renew_damaged(f"{RESULTS}/data/{wildcards.dataset}/survey.json", SURVEY)
    return RAW_DATA.generated_before(dataset_of(wildcards))


def checks_asked(wildcards, resources=None):
    """All that a job on a share is told besides its sequences; what it was told stands in its file.

    Snakemake compares the same, but not behind an ancient input that is made again.
    """
    dataset = dataset_of(wildcards)
    told = [*code("ingest.py"), raw_file_options(dataset), sensor_option(dataset)]
    return json_digest(told)


@user_errors()
def survey_before(wildcards):
    """The survey, as what comes before the check of a share.

    In a folder that users fill only the order counts: files are compared one by one, and one
    sequence more concerns no other. Files that a job generates can only be compared after it.
    """
    folder = f"{RESULTS}/data/{wildcards.dataset}"
    dataset = dataset_of(wildcards)
    standing = SHARES.ingest_standing(dataset, wildcards.share, checks_asked(wildcards))
    if standing.reason:
        make_again(f"{folder}/ingest/shares/{wildcards.share}.json", standing.reason)
    path = f"{folder}/survey.json"
    return path if standing.due or dataset.kind != "raw" else ancient(path)


def survey_before_gate(wildcards):
    """The survey, which the gate takes the faults of names from."""
    folder = f"{RESULTS}/data/{wildcards.dataset}"
    renew_damaged(f"{folder}/k{wildcards.bins}/accepted.json", ACCEPTED)
    return f"{folder}/survey.json"


@user_errors()
def ingest_shares(wildcards):
    """What the checks of all sequences found, share by share."""
    folder = f"{RESULTS}/data/{wildcards.dataset}/ingest"
    return share_files(dataset_of(wildcards), folder)


def sequences_of_share(wildcards):
    """A process for each sequence of a share; Snakemake lowers it to the cores there are."""
    size = SHARES.size(dataset_of(wildcards), wildcards.share)
    return EVERY_CORE if size is None else max(1, size)


def share_memory(wildcards, threads):
    """Megabytes of a job on a share: the largest frame and its store, for each process."""
    return 500 + 500 * threads
