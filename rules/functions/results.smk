"""Inputs and params of evaluations."""

from pathlib import Path

from vrtspike.analysis.evaluation_files import summary_damage
from vrtspike.workflow.rule_options import evaluation_overrides

# The preset `reproduce` without its spikes is VRT itself.
PUBLISHED_VRT = "reproduce-without-spikes"


def backbones(wildcards):
    """Published weights of the metrics' networks."""
    return ancient_files(WORKFLOW.evaluation_weights(wildcards.preset))


def damaged_summary(wildcards):
    """The fault of a summary that is not as the evaluation wrote it; empty without one."""
    return summary_damage(Path(RESULTS, "evaluate", wildcards.preset, "summary.json"))


def test_options(wildcards, resources):
    """Options with the present TEST settings, which may differ from those of the training."""
    return evaluation_overrides(WORKFLOW.preset(wildcards.preset))


@user_errors()
def published_vrt(wildcards):
    """VRT's weights; they and the frames must exist before anything is computed."""
    # Imported here, because it imports plotting.
    from vrtspike.evaluation.paper_results import published_vrt_weights

    return ancient(published_vrt_weights(DEBLURRING.preset(PUBLISHED_VRT)))
