"""Inputs and params of evaluations, and of the demo."""

from vrtspike.analysis.evaluation_files import summary_damage
from vrtspike.workflow.benchmark_files import benchmark_files
from vrtspike.workflow.staleness import evaluation_overrides

# The last one is not trained: the bundled weights.
DEMO_PRESETS = ["demo", "light_demo", "general_demo"]
# The preset `reproduce` without its spikes is VRT itself.
PUBLISHED_VRT = "reproduce-without-spikes"


def backbones(wildcards):
    """Published weights of the metrics' networks."""
    preset = WORKFLOW.preset(wildcards.preset)
    files = find_problem(preset.TASK).evaluation_weights(preset)
    return [ancient(str(path)) for path in files.values()]


def damaged_summary(wildcards):
    """The fault of a summary that is not as the evaluation wrote it; empty without one."""
    return summary_damage(Path(RESULTS, "evaluate", wildcards.preset, "summary.json"))


def test_options(wildcards, resources):
    """Options with the present TEST settings, which may differ from those of the training."""
    return evaluation_overrides(WORKFLOW.preset(wildcards.preset))


def evaluation_threads(wildcards):
    """The job's share of this machine's cores."""
    return DEVICES.threads(1, given_cores())


# A job of a cluster asks for none if the configuration wants none.
evaluation_gpus = 0 if WORKFLOW.settings.GPUS == 0 else 1


def demo_benchmarks(*presets):
    """The benchmarks of the demo's jobs; with `resources`, so that they do not cause reruns."""
    folder = Path(RESULTS, "benchmarks")
    return lambda wildcards, resources: benchmark_files(folder, presets)


@user_errors()
def published_vrt(wildcards):
    """VRT's weights; they and the frames must exist before anything is computed."""
    # Imported here, because it imports plotting.
    from vrtspike.evaluation.published import (
        require_published_frames,
        require_published_weights,
        vrt_on_gopro,
    )

    preset = DEBLURRING.preset(PUBLISHED_VRT)
    require_published_weights(preset)
    require_published_frames(preset, "blur", vrt_on_gopro())
    return ancient(preset.MODEL.VRT.PRETRAINED)
