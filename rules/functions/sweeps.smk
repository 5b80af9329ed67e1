"""Families of presets: those of several seeds, and those of a sweep."""

@user_errors()
def seeds_of(*presets):
    """The trainings of presets, with all their seeds."""
    return [name for preset in presets for name in PLAN.seeds(preset)]


def seeded(pattern):
    """A file of each training of a job's preset."""
    return lambda wildcards: expand(pattern, model=seeds_of(wildcards.preset))


@user_errors()
def swept_runs(wildcards):
    """The runs of a sweep, with all their seeds."""
    members = seeds_of(*PLAN.sweep(wildcards.sweep).members)
    return expand("<results>/train/{model}/run.json", model=members)


@user_errors()
def settled_sweep(wildcards):
    """The datasets of a sweep; only the order counts."""
    return settled(*PLAN.sweep(wildcards.sweep).members)(wildcards)


def seeds_tables(*presets):
    """The tables of those presets that have several seeds."""
    known = [preset for preset in presets if preset in PLAN.seeded]
    return expand("<results>/seeds/{preset}/table.csv", preset=known)
