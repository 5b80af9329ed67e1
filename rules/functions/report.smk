"""What people are shown, and how it stands in Snakemake's report."""

import re
import shlex

CAPTIONS = sorted(str(path) for path in Path("workflow/report").glob("*.rst"))
PERFORMANCE_TABLES = [
    f"{name}.csv" for name in ("findings", "timing", "throughput", "memory", "metrics")
]
# The digest of code does not cover them.
PAGE_ASSETS = sorted(
    str(path) for path in Path("src/vrtspike/reporting/assets").iterdir()
)


def in_report(file, category, caption=None, **labels):
    """A file in Snakemake's report, labelled by its wildcards and by what it is.

    Args:
        file: below the results.
        category: of the report.
        caption: name of the text in workflow/report; None: that of the file.
        labels: further ones, or others.
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
    """Tables and plots of the alignment of what these presets train on."""
    known = [preset for preset in presets if preset in VIDEOS.presets]
    names = sorted({VIDEOS.dataset(preset).name for preset in known})
    return expand(
        "<results>/data/{dataset}/alignment.{kind}", dataset=names, kind=["csv", "svg"]
    )


def results_of(presets):
    """All that is shown of presets: evaluations, performance, alignment of their data."""
    return [
        *expand(rules.evaluate.output, preset=presets),
        *expand(rules.analyze_performance.output, preset=presets),
        *alignments(presets),
    ]


def page_inputs(presets):
    """All that a page on presets is made of, as inputs."""
    return dict(
        **trained(presets),
        assets=PAGE_ASSETS,
        logs=expand("<results>/train/{preset}/metrics.csv", preset=presets),
        results=results_of(presets),
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
