"""What the report shows, and how it calls Snakemake."""

import shlex

CAPTIONS = sorted(str(path) for path in Path("workflow/report").glob("*.rst"))
# The digest of code does not cover them.
PAGE_ASSETS = sorted(
    str(path) for path in Path("src/vrtspike/reporting/assets").iterdir()
)


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
    options = ["--snakefile", workflow.main_snakefile, "--cores", "1", "--nolock"]
    if OVERLAYS:
        options += ["--configfile", *OVERLAYS]
    if workflow.config_settings.config_args:
        options += ["--config", *workflow.config_settings.config_args]
    return shlex.join(options)
