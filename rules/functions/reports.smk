"""Inputs and params of the report page, of Snakemake's report and of the demos.

Uses functions/trainings.smk.
"""

from pathlib import Path

from vrtspike.workflow.rule_values import (
    DEMOS,
    benchmark_files,
    files_of,
    nested_call,
    report_item,
)

CAPTIONS = WORKFLOW_PATHS.captions
PERFORMANCE_TABLES = [
    f"{name}.csv" for name in ("findings", "timing", "throughput", "memory")
]


def in_report(file, category, caption=None, **labels):
    """A file below the results in Snakemake's report, see `report_item`."""
    item = report_item(file, caption, **labels)
    return report(f"<results>/{file}", category=category, **item)


def pictures_in_report(folder):
    """Every picture of a folder below the results in Snakemake's report."""
    return report(
        directory(f"<results>/{folder}"),
        patterns=["{picture}.png"],
        caption="../workflow/report/picture.rst",
        category="Pictures",
        labels={"preset": "{preset}", "frame": "{picture}"},
    )


def results_of(presets):
    """Results of presets for reports: evaluations, performance, alignment of their data sets."""
    datasets = DEBLURRING_CONFIG.dataset_names_of(presets)
    return [
        *expand(rules.evaluate.output, preset=presets),
        *expand(rules.analyze_performance.output, preset=presets),
        *expand(
            "<results>/data/{dataset}/alignment.{kind}",
            dataset=datasets,
            kind=["csv", "svg"],
        ),
    ]


def presets_of_demo(wildcards):
    """The presets of the job's demo."""
    return DEMOS[wildcards.demo]


def results_of_demo(wildcards):
    """Results of the presets of the job's demo."""
    return results_of(presets_of_demo(wildcards))


def page_inputs(presets, results):
    """All inputs of a report page.

    Args:
        presets: names, or a function of the wildcards that returns them.
        results: their results, or a function of the wildcards that returns them.
    """
    return dict(
        **PRESET_INPUTS.runs(presets),
        assets=WORKFLOW_PATHS.assets,
        logs=files_of("<results>/train/{preset}/{log}", presets, log=LOGS),
        results=results,
    )


def reported_presets(wildcards, input):
    """The names of the reported runs."""
    return [Path(folder).name for folder in parent_folders(input.runs)]


def report_options(wildcards, resources):
    """Options of the Snakemake that makes the report."""
    return nested_call(SNAKEMAKE.snakefile, OVERLAYS, SNAKEMAKE.config_arguments)


def demo_benchmarks(wildcards, resources):
    """The benchmarks of a demo's jobs; with `resources`, so that they do not cause reruns."""
    return benchmark_files(Path(RESULTS, "benchmarks"), presets_of_demo(wildcards))
