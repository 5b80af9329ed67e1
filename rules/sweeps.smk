"""Comparison of the presets of a sweep.

`snakemake sweep_<sweep>` (workflow/Snakefile) asks for the table that rule sweep makes.

Uses functions/reports.smk and functions/trainings.smk.
"""


rule sweep:
    """Compare the presets of a sweep by validation: table, parallel coordinates, curves."""
    input:
        **PRESET_INPUTS.runs(swept_presets),
        assets=WORKFLOW_PATHS.assets,
    output:
        table="<results>/sweep/{sweep}/table.csv",
        page=in_report("sweep/{sweep}/table.html", "Sweeps", "sweep"),
        plot=in_report("sweep/{sweep}/parallel_coordinates.html", "Sweeps", "sweep"),
        curves=in_report("sweep/{sweep}/curves.html", "Sweeps", "sweep"),
    log:
        "<logs>/sweep/{sweep}.log",
    benchmark:
        "<benchmarks>/sweep/{sweep}.tsv"
    params:
        code=code_lines("sweep.py"),
        sweep=lambda wildcards: WORKFLOW_CONFIG.sweep(wildcards.sweep).path,
        runs=run_folders,
        folder=subpath(output.table, parent=True),
    shell:
        program("sweep.py") + " --sweep {params.sweep:q} --run {params.runs:q}"
        " --output {params.folder:q} > {log:q} 2>&1"
