"""The complete workflow on generated data.

Uses functions/reports.smk and functions/trainings.smk.
"""

from pathlib import Path

from vrtspike.workflow.rule_values import files_of, reuse_options


rule demo:
    """Generate data, train two models on it, evaluate these and general, and print a table."""
    input:
        "<results>/demo/summary.txt",


rule sst_demo:
    """Generate sea surface temperatures, train and evaluate on them, and print a table."""
    input:
        "<results>/sst_demo/summary.txt",


rule demo_summary:
    """Table of the results of a demo, and of the time it took."""
    input:
        datasets=PRESET_INPUTS.datasets(presets_of_demo),
        summaries=files_of("<results>/evaluate/{preset}/summary.json", presets_of_demo),
        report="<results>/{demo}/report.html",
    output:
        "<results>/{demo}/summary.txt",
    log:
        "<logs>/{demo}.log",
    benchmark:
        "<benchmarks>/{demo}.tsv"
    retries: 0
    localrule: True
    params:
        code=code_lines("demo_summary.py"),
        benchmarks=demo_benchmarks,
        folder=f"{RESULTS}/benchmarks",
        reuse=lambda wildcards: reuse_options(Path(RESULTS), wildcards.demo),
    shell:
        program("demo_summary.py") + " --summaries {input.summaries:q}"
        " --benchmarks {params.benchmarks:q} --benchmark-folder {params.folder:q}"
        " {params.reuse:q} --output {output:q} > {log:q} 2>&1"
