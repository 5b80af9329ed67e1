"""Comparison of the trainings of a preset with several seeds (SEEDS).

Uses functions/reports.smk and functions/trainings.smk.
"""

from vrtspike.workflow.rule_values import one_of


rule seeds:
    """Compare the seeds of a preset: each training, mean and standard deviation, curves."""
    input:
        **PRESET_INPUTS.evaluations(lambda wildcards: seeds_of(wildcards.preset)),
        assets=WORKFLOW_PATHS.assets,
    output:
        table="<results>/seeds/{preset}/table.csv",
        page=in_report("seeds/{preset}/table.html", "Seeds", "seeds"),
        curves=in_report("seeds/{preset}/curves.html", "Seeds", "seeds"),
    log:
        "<logs>/seeds/{preset}.log",
    benchmark:
        "<benchmarks>/seeds/{preset}.tsv"
    wildcard_constraints:
        preset=one_of(WORKFLOW_CONFIG.presets_with_seeds),
    params:
        code=code_lines("seeds.py"),
        runs=run_folders,
        folder=subpath(output.table, parent=True),
    shell:
        program("seeds.py") + " --run {params.runs:q}"
        " --output {params.folder:q} > {log:q} 2>&1"
