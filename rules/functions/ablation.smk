"""Which runs an ablation compares."""

from vrtspike.config.ablation import derived_names


@user_errors()
def ablated_runs(wildcards):
    """Runs and evaluations of a preset, or of those named by PRESETS, and of their ablations."""
    presets = [*wildcards] or PLAN.settings.PRESETS
    names = [name for preset in presets for name in (preset, *derived_names(preset))]
    # What cannot be derived is told before anything is computed.
    for name in names:
        PLAN.preset(name)
    return {
        "runs": expand("<results>/train/{preset}/run.json", preset=names),
        "evaluations": expand("<results>/evaluate/{preset}/summary.json", preset=names),
    }
