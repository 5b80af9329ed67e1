"""What evaluations depend on, and which results are shown together."""

import shlex

from vrtspike.runs.identity import evaluation_settings
from vrtspike.workflow.staleness import evaluation_overrides

CAPTIONS = sorted(str(path) for path in Path("workflow/report").glob("*.rst"))
DEMO_PRESETS = ["demo", "light_demo"]
# The digest of code does not cover them.
PAGE_ASSETS = sorted(
    str(path) for path in Path("src/vrtspike/reporting/assets").iterdir()
)
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


def parents(files):
    """The folders of files."""
    return [str(Path(file).parent) for file in files]


def run_folders(wildcards, input):
    """The folders of the compared runs."""
    return parents(input.runs)


def ablated_presets(wildcards):
    """A preset, or those named by PRESETS, each with those of its ablation and all seeds."""
    presets = [*wildcards] or PLAN.settings.PRESETS
    return seeds_of(
        *(name for preset in presets for name in (preset, *PLAN.derived(preset)))
    )


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


def alignments(presets):
    """Tables and plots of the alignment of what these presets train on."""
    known = [preset for preset in presets if preset in VIDEOS.presets]
    names = sorted({VIDEOS.dataset(preset).name for preset in known})
    return expand(
        "<results>/data/{dataset}/alignment.{kind}", dataset=names, kind=["csv", "svg"]
    )


def results_folder(wildcards):
    """Where a page finds everything by name."""
    return RESULTS


def reported_presets(wildcards, input):
    """The runs that a page is on."""
    return [Path(folder).name for folder in parents(input.runs)]


def nested_call(wildcards, resources):
    """Options that make a Snakemake within a rule see the same workflow."""
    options = ["--cores", "1", "--nolock"]
    if OVERLAYS:
        options += ["--configfile", *OVERLAYS]
    if SNAKEMAKE.config_arguments:
        options += ["--config", *SNAKEMAKE.config_arguments]
    return shlex.join(options)


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
