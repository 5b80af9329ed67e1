"""What the jobs on raw files depend on."""

from vrtspike.data.manifests import ACCEPTED
from vrtspike.planning.options import clip_options, raw_file_options, sensor_option


def generated(wildcards):
    """What must be generated before a dataset can be surveyed."""
    renew_damaged(f"{RESULTS}/data/{wildcards.dataset}/survey.json", SURVEY)
    return RAW_DATA.generated_before(dataset_of(wildcards))


def survey_before(wildcards):
    """The survey, as what comes before the check of a sequence.

    In a folder that users fill only the order counts: files are compared one by one, and one
    sequence more concerns no other. Files that a job generates can only be compared after it.
    """
    path = f"{RESULTS}/data/{wildcards.dataset}/survey.json"
    return ancient(path) if dataset_of(wildcards).kind == "raw" else path


def survey_before_gate(wildcards):
    """The survey, which the gate takes the faults of names from."""
    folder = f"{RESULTS}/data/{wildcards.dataset}"
    renew_damaged(f"{folder}/k{wildcards.bins}/accepted.json", ACCEPTED)
    return f"{folder}/survey.json"


def ingest_manifests(wildcards):
    """The ingest manifest of every sequence."""
    name = wildcards.dataset
    return manifests(name, f"{RESULTS}/data/{name}/ingest")


def raw_version(wildcards):
    """Changes when a sequence's raw files change, not when they are touched."""
    return RAW_DATA.version(dataset_of(wildcards), wildcards.split, wildcards.sequence)
