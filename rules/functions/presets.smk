"""Families of presets, and what is read of each of their members."""


def preset_of_job(wildcards):
    """The preset that a job is about, as a list of presets."""
    return [wildcards.preset]


@user_errors()
def seeds_of(*presets):
    """The trainings of presets, with all their seeds."""
    return [name for preset in presets for name in PLAN.seeds(preset)]


def seeds_of_job(wildcards):
    """The trainings of a job's preset."""
    return seeds_of(wildcards.preset)


def seeds_tables(*presets):
    """The tables of those presets that have several seeds."""
    known = [preset for preset in presets if preset in PLAN.seeded]
    return expand("<results>/seeds/{preset}/table.csv", preset=known)


@user_errors()
def swept_presets(wildcards):
    """The trainings of a sweep, with all their seeds."""
    return seeds_of(*PLAN.sweep(wildcards.sweep).members)


@user_errors()
def ablated_presets(wildcards):
    """A preset, or those named by PRESETS, each with those of its ablation and all seeds."""
    presets = [*wildcards] or PRESETS
    names = seeds_of(
        *(n for preset in presets for n in (preset, *PLAN.derived(preset)))
    )
    # What cannot be derived is told before anything is computed.
    for name in names:
        PLAN.preset(name)
    return names


def of_job(presets):
    """Names of presets as a function of the wildcards, which they may be already."""
    return presets if callable(presets) else lambda wildcards: presets


def of_each(pattern, presets):
    """A file of each of these presets, as an input."""
    return lambda wildcards: expand(pattern, preset=of_job(presets)(wildcards))


def after_datasets(presets):
    """The datasets of presets, for what lies behind trainings; only the order counts.

    When a checkpoint has run, Snakemake decides again about the jobs that depend on it directly.
    Others would stay due where a dataset comes out as it was and nothing is trained.

    Args:
        presets: their names, or a function of the wildcards that tells them.
    """

    @user_errors()
    def datasets(wildcards):
        found = [dataset_of_preset(name) for name in of_job(presets)(wildcards)]
        return [ancient(path) for path in dict.fromkeys(found)]

    return datasets


def trained(presets):
    """The runs of presets, as inputs, once the data behind them are settled.

    Args:
        presets: their names, or a function of the wildcards that tells them.
    """
    return dict(
        datasets=after_datasets(presets),
        runs=of_each("<results>/train/{preset}/run.json", presets),
    )


def evaluated(presets):
    """The runs of presets and their evaluations, as inputs."""
    return dict(
        **trained(presets),
        evaluations=of_each("<results>/evaluate/{preset}/summary.json", presets),
    )


def parents(files):
    """The folders of files."""
    return [str(Path(file).parent) for file in files]


def run_folders(wildcards, input):
    """The folders of the compared runs."""
    return parents(input.runs)
