"""Data sets: the manifest of a preset's data, and inputs and params of the rules before training."""

from vrtspike.deblurring.planning.options import inputs_version, simulated_sequence


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
