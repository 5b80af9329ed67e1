"""Which runs an ablation compares."""


def ablated_presets(wildcards):
    """A preset, or those named by PRESETS, each followed by those of its ablation."""
    presets = [*wildcards] or PLAN.settings.PRESETS
    return [name for preset in presets for name in (preset, *PLAN.derived(preset))]


@user_errors()
def settled_ablation(wildcards):
    """The datasets of an ablation; only the order counts."""
    return settled(*ablated_presets(wildcards))(wildcards)


@user_errors()
def ablated_runs(wildcards):
    """Runs of a preset, or of those named by PRESETS, and of their ablations."""
    names = ablated_presets(wildcards)
    # What cannot be derived is told before anything is computed.
    for name in names:
        PLAN.preset(name)
    return expand("<results>/train/{preset}/run.json", preset=names)


def ablated_evaluations(wildcards):
    """The evaluations of the same."""
    names = ablated_presets(wildcards)
    return expand("<results>/evaluate/{preset}/summary.json", preset=names)
