"""Ablations: presets compared with variants that lack one part (for deblurring: spikes).

`snakemake ablation_<preset>` (workflow/Snakefile) asks for the table that rule ablation_of_preset
makes, and its report.

Uses functions/reports.smk and functions/trainings.smk.
"""

from vrtspike.workflow.rule_values import one_of


rule ablation:
    """Compare the presets in PRESETS with their variants: table and report."""
    input:
        "<results>/ablation/table.csv",
        "<results>/ablation/report.html",


rule ablation_of_preset:
    """Compare a preset with its variants: metrics and their differences."""
    input:
        **PRESET_INPUTS.evaluations(ablated_presets),
    output:
        table="<results>/ablation/{preset}/table.csv",
        page=in_report("ablation/{preset}/table.html", "Ablation", "ablation"),
    log:
        "<logs>/ablation/{preset}.log",
    benchmark:
        "<benchmarks>/ablation/{preset}.tsv"
    wildcard_constraints:
        preset=one_of(WORKFLOW_CONFIG.presets_with_ablation),
    params:
        code=code_lines("ablation.py"),
        runs=run_folders,
        folder=subpath(output.table, parent=True),
    shell:
        program("ablation.py") + " --run {params.runs:q}"
        " --output {params.folder:q} > {log:q} 2>&1"


use rule ablation_of_preset as ablation_of_presets with:
    output:
        table="<results>/ablation/table.csv",
        page=in_report("ablation/table.html", "Ablation", "ablation", preset="all"),
    log:
        "<logs>/ablation.log",
    benchmark:
        "<benchmarks>/ablation.tsv"


use rule report as ablation_report_of_preset with:
    input:
        datasets=PRESET_INPUTS.datasets(ablated_presets),
        captions=CAPTIONS,
        results="<results>/ablation/{preset}/table.html",
    output:
        "<results>/ablation/{preset}/report.html",
    log:
        "<logs>/ablation_report/{preset}.log",
    benchmark:
        "<benchmarks>/ablation_report/{preset}.tsv"
    wildcard_constraints:
        preset=one_of(WORKFLOW_CONFIG.presets_with_ablation),
    localrule: True


use rule report as ablation_report_of_presets with:
    input:
        datasets=PRESET_INPUTS.datasets(ablated_presets),
        captions=CAPTIONS,
        results="<results>/ablation/table.html",
    output:
        "<results>/ablation/report.html",
    log:
        "<logs>/ablation_report.log",
    benchmark:
        "<benchmarks>/ablation_report.tsv"
    localrule: True
