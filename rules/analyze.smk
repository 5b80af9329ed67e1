"""Analysis of logs: time and memory of a run, and comparison of presets.

`snakemake analyze_performance_<preset>` (workflow/Snakefile) asks for the findings that rule
analyze_performance makes.

Uses functions/reports.smk and functions/trainings.smk.
"""


rule analyze_performance:
    """Tables, plots, ranked findings and a proposed preset from a run's logs."""
    input:
        rerun_damaged=rerun_damaged("performance/{preset}/findings.json"),
        run="<results>/train/{preset}/run.json",
        datasets=PRESET_INPUTS.datasets(lambda wildcards: [wildcards.preset]),
        logs=multiext("<results>/train/{preset}/", *LOGS),
    output:
        findings="<results>/performance/{preset}/findings.json",
        proposed="<results>/performance/{preset}/proposed.yaml",
        tables=multiext("<results>/performance/{preset}/", *PERFORMANCE_TABLES),
        loss=in_report("performance/{preset}/loss.svg", "Training"),
        validation=in_report(
            "performance/{preset}/metrics.svg", "Training", "validation"
        ),
        page=in_report("performance/{preset}/findings.html", "Performance"),
        time=in_report("performance/{preset}/time_per_section.svg", "Performance"),
    log:
        "<logs>/analyze_performance/{preset}.log",
    benchmark:
        "<benchmarks>/analyze_performance/{preset}.tsv"
    params:
        code=code_lines("analyze_performance.py"),
        source=subpath(input.run, parent=True),
        folder=subpath(output.findings, parent=True),
    shell:
        program("analyze_performance.py") + " --run {params.source:q}"
        " --output {params.folder:q} > {log:q} 2>&1"


rule compare:
    """Compare the presets in PRESETS: speed, memory, quality, settings."""
    input:
        **PRESET_INPUTS.evaluations(PRESETS),
        rerun_damaged=rerun_damaged("compare/table.csv"),
        logs=expand("<results>/train/{preset}/{log}", preset=PRESETS, log=LOGS),
    output:
        table="<results>/compare/table.csv",
        differences="<results>/compare/differences.csv",
        page=in_report("compare/table.html", "Comparison", "compare"),
    log:
        "<logs>/compare.log",
    benchmark:
        "<benchmarks>/compare.tsv"
    params:
        code=code_lines("compare.py"),
        runs=run_folders,
        folder=subpath(output.table, parent=True),
    shell:
        program("compare.py") + " --run {params.runs:q}"
        " --output {params.folder:q} > {log:q} 2>&1"
