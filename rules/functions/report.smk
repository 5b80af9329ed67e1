"""Inputs of the report page and of Snakemake's report.

Uses functions/presets.smk.
"""

import re
import shlex
from pathlib import Path

from vrtspike.workflow.paths import snakefile_options

CAPTIONS = PLACES.captions
PERFORMANCE_TABLES = [
    f"{name}.csv" for name in ("findings", "timing", "throughput", "memory")
]


def in_report(file, category, caption=None, **labels):
    """A file in Snakemake's report, labelled by its wildcards and its name.

    Args:
        file: below the results.
        category: of the report.
        caption: name of the text in workflow/report; None: the name of the file.
        labels: further or replaced labels.
    """
    wildcards = {name: f"{{{name}}}" for name in re.findall(r"{(\w+)}", file)}
    result = Path(file).stem
    return report(
        f"<results>/{file}",
        caption=f"../workflow/report/{caption or result}.rst",
        category=category,
        labels={**wildcards, "result": result.replace("_", " "), **labels},
    )


def pictures_in_report(folder):
    """Every picture of a folder below the results in Snakemake's report."""
    return report(
        directory(f"<results>/{folder}"),
        patterns=["{picture}.png"],
        caption="../workflow/report/picture.rst",
        category="Pictures",
        labels={"preset": "{preset}", "frame": "{picture}"},
    )


def alignments(presets):
    """Tables and plots of the alignment of the presets' data sets."""
    videos = [preset for preset in presets if preset in DEBLURRING.presets]
    names = sorted({DEBLURRING.dataset(preset).name for preset in videos})
    return expand(
        "<results>/data/{dataset}/alignment.{kind}", dataset=names, kind=["csv", "svg"]
    )


def results_of(presets):
    """Results of presets for reports: evaluations, performance, alignment."""
    return [
        *expand(rules.evaluate.output, preset=presets),
        *expand(rules.analyze_performance.output, preset=presets),
        *alignments(presets),
    ]


def results_for(presets):
    """The results of presets, or of those that a function of the wildcards returns."""
    return lambda wildcards: results_of(as_function(presets)(wildcards))


def page_inputs(presets):
    """All inputs of a report page on presets.

    Args:
        presets: names, or a function of the wildcards that returns them.
    """
    return dict(
        **run_inputs(presets),
        assets=PLACES.assets,
        logs=files_of("<results>/train/{preset}/{log}", presets, log=LOGS),
        results=results_for(presets),
    )


def results_folder(wildcards):
    """The folder of all results."""
    return RESULTS


def reported_presets(wildcards, input):
    """The names of the reported runs."""
    return [Path(folder).name for folder in parents(input.runs)]


def nested_call(wildcards, resources):
    """Options of a Snakemake within a rule, for the same configuration."""
    options = ["--cores", "1", "--nolock", *snakefile_options(SNAKEMAKE.snakefile)]
    if OVERLAYS:
        options += ["--configfile", *OVERLAYS]
    if SNAKEMAKE.config_arguments:
        options += ["--config", *SNAKEMAKE.config_arguments]
    return shlex.join(options)
