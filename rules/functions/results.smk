"""Inputs and params of evaluations."""

from pathlib import Path

from vrtspike.analysis.evaluation_files import summary_damage
from vrtspike.config.tasks import find_task
from vrtspike.workflow.staleness import evaluation_overrides

# The preset `reproduce` without its spikes is VRT itself.
PUBLISHED_VRT = "reproduce-without-spikes"


def backbones(wildcards):
    """Published weights of the metrics' networks."""
    preset = WORKFLOW.preset(wildcards.preset)
    files = find_task(preset.TASK).evaluation_weights(preset)
    return [ancient(str(path)) for path in files.values()]


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
    from vrtspike.evaluation.paper_results import (
        require_published_frames,
        require_published_weights,
        vrt_on_gopro,
    )

    preset = DEBLURRING.preset(PUBLISHED_VRT)
    require_published_weights(preset)
    require_published_frames(preset, "blur", vrt_on_gopro())
    return ancient(preset.MODEL.VRT.PRETRAINED)
