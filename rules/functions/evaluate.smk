"""What an evaluation depends on besides weights and data."""

from vrtspike.planning.options import evaluation_overrides
from vrtspike.runs.identity import evaluation_settings


def backbones(wildcards):
    """Published weights that a metric reads."""
    preset = PLAN.preset(wildcards.preset)
    files = find_problem(preset.TASK).evaluation_weights(preset)
    return [ancient(str(path)) for path in files.values()]


def overrides(wildcards, resources):
    """Today's TEST settings for weights that were trained under other ones."""
    return evaluation_overrides(PLAN.preset(wildcards.preset))


def evaluation_threads(wildcards):
    """The share of the cores of this machine."""
    return SHARE.threads("evaluate", wildcards.preset)
