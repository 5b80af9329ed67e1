"""What the report shows, and how it calls Snakemake."""

import shlex

CAPTIONS = sorted(str(path) for path in Path("workflow/report").glob("*.rst"))


def alignments(presets):
    """Tables and plots of the alignment of what these presets train on."""
    known = [preset for preset in presets if preset in PLAN.presets]
    names = sorted({PLAN.dataset(preset).name for preset in known})
    return expand(
        "<results>/data/{dataset}/alignment.{kind}", dataset=names, kind=["csv", "svg"]
    )


def nested_call(wildcards, resources):
    """Options that make a Snakemake within a rule see the same workflow."""
    options = ["--snakefile", workflow.main_snakefile, "--cores", "1", "--nolock"]
    if OVERLAYS:
        options += ["--configfile", *OVERLAYS]
    if workflow.config_settings.config_args:
        options += ["--config", *workflow.config_settings.config_args]
    return shlex.join(options)
