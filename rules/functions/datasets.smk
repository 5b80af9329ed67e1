"""The data that jobs are about, and when those that depend on them run."""


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
    path = str(PLAN.manifest(name))
    # Who has removed all data does not want them again for a result of the same.
    begun = any(map(any, map(Path(path).parent.glob, ("shares/*.json", "*.zarr"))))
    if not Path(path).exists() and (begun or TRAININGS.has_other_data(name)):
        # Snakemake makes nothing that is missing before a result that is there.
        make_again(path, "no result yet")
    if not find_problem(preset.TASK).OWN_STAGES:
        return checkpoints.prepare.get(prepared=Path(path).parent.name).output[0]
    RAW_DATA.require_spikes(name, preset)
    found = dict(dataset=VIDEOS.dataset(name).name, bins=preset.DATA.K)
    return checkpoints.statistics.get(**found).output[0]


def settled(*presets):
    """The datasets of presets, for what lies behind trainings; only the order counts.

    When a checkpoint has run, Snakemake decides again about the jobs that depend on it directly.
    Others would stay due where a dataset comes out as it was and nothing is trained.

    Args:
        presets: their names; without any, the preset that a job is about.
    """

    def datasets(wildcards):
        found = [dataset_of_preset(name) for name in presets or [wildcards.preset]]
        return [ancient(path) for path in dict.fromkeys(found)]

    return datasets
