"""What evaluations depend on, and which results are shown together."""

from vrtspike.runs.identity import evaluation_settings
from vrtspike.workflow.staleness import evaluation_overrides

DEMO_PRESETS = ["demo", "light_demo"]
# The preset `reproduce` without its spikes is VRT itself.
PUBLISHED_VRT = "reproduce-without-spikes"


def backbones(wildcards):
    """Published weights that a metric reads."""
    preset = PLAN.preset(wildcards.preset)
    files = find_problem(preset.TASK).evaluation_weights(preset)
    return [ancient(str(path)) for path in files.values()]


def overrides(wildcards, resources):
    """Today's TEST settings for weights that were trained under other ones."""
    return evaluation_overrides(PLAN.preset(wildcards.preset))


def evaluation_threads(wildcards):
    """Its part of the cores of this machine."""
    return DEVICES.threads(1, given_cores())


def demo_benchmarks(name, *datasets):
    """What the demo's own jobs cost; no reason to run again, hence `resources`."""

    def benchmarks(wildcards, resources):
        folder = Path(RESULTS, "benchmarks")
        named = [
            pattern
            for each in (name, *datasets)
            for pattern in (f"{each}*.tsv", f"*/{each}.tsv", f"*/{each}/*.tsv")
        ]
        own = {folder / f"{name}.tsv"}
        return sorted(
            {str(path) for each in named for path in folder.glob(each)}
            - set(map(str, own))
        )

    return benchmarks


@user_errors()
def published_vrt(wildcards):
    """The file of weights; it and the frames have to be there before anything is computed."""
    # Imports what draws, which no other plan needs.
    from vrtspike.deblurring.analysis.published import (
        require_published_frames,
        require_published_weights,
        vrt_on_gopro,
    )

    settings = VIDEOS.preset(PUBLISHED_VRT)
    weights = require_published_weights(settings)
    require_published_frames(settings, "blur", vrt_on_gopro())
    return ancient(str(weights))
