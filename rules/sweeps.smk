"""Comparison of trainings with several seeds (SEEDS), and of sweeps.

Uses functions/presets.smk and functions/report.smk.
"""


rule seeds:
    """Compare the seeds of a preset: each training, mean and standard deviation, curves."""
    input:
        **evaluation_inputs(seeds_of_job),
        assets=PLACES.assets,
    output:
        table="<results>/seeds/{preset}/table.csv",
        page=in_report("seeds/{preset}/table.html", "Seeds", "seeds"),
        curves=in_report("seeds/{preset}/curves.html", "Seeds", "seeds"),
    log:
        "<logs>/seeds/{preset}.log",
    benchmark:
        "<benchmarks>/seeds/{preset}.tsv"
    wildcard_constraints:
        preset=one_of(WORKFLOW.presets_with_seeds),
    params:
        *code("seeds.py"),
        runs=run_folders,
        folder=subpath(output.table, parent=True),
    shell:
        program("seeds.py") + " --run {params.runs:q}"
        " --output {params.folder:q} > {log:q} 2>&1"


rule sweep:
    """Compare the presets of a sweep by validation: table, parallel coordinates, curves."""
    input:
        **run_inputs(swept_presets),
        assets=PLACES.assets,
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
        *code("sweep.py"),
        sweep=lambda wildcards: WORKFLOW.sweep(wildcards.sweep).place,
        runs=run_folders,
        folder=subpath(output.table, parent=True),
    shell:
        program("sweep.py") + " --sweep {params.sweep:q} --run {params.runs:q}"
        " --output {params.folder:q} > {log:q} 2>&1"
