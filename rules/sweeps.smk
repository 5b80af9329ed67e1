"""Families of presets side by side: of other seeds (SEEDS), and of a sweep's values."""


rule seeds:
    """The trainings of a preset that differ in their seed: each, mean and spread."""
    input:
        runs=seeded("<results>/train/{model}/run.json"),
        evaluations=seeded("<results>/evaluate/{model}/summary.json"),
        settled=settled(),
    output:
        table="<results>/seeds/{preset}/table.csv",
        page=report(
            "<results>/seeds/{preset}/table.html",
            caption="../workflow/report/seeds.rst",
            category="Seeds",
            labels={"preset": "{preset}"},
        ),
    log:
        "<logs>/seeds/{preset}.log",
    benchmark:
        "<benchmarks>/seeds/{preset}.tsv"
    wildcard_constraints:
        preset=one_of(PLAN.seeded),
    params:
        *code("seeds.py", uses=SHOWN),
        runs=run_folders,
        folder=subpath(output.table, parent=True),
    shell:
        "python scripts/seeds.py --train-dirs {params.runs:q}"
        " --output {params.folder:q} > {log:q} 2>&1"


rule sweep:
    """The presets of a sweep side by side by their validation: table, parallel coordinates."""
    input:
        runs=swept_runs,
        settled=settled_sweep,
    output:
        table="<results>/sweep/{sweep}/table.csv",
        page=report(
            "<results>/sweep/{sweep}/table.html",
            caption="../workflow/report/sweep.rst",
            category="Sweeps",
            labels={"sweep": "{sweep}", "result": "table"},
        ),
        plot=report(
            "<results>/sweep/{sweep}/parallel_coordinates.html",
            caption="../workflow/report/sweep.rst",
            category="Sweeps",
            labels={"sweep": "{sweep}", "result": "parallel coordinates"},
        ),
    log:
        "<logs>/sweep/{sweep}.log",
    benchmark:
        "<benchmarks>/sweep/{sweep}.tsv"
    params:
        *code("sweep.py", uses=SHOWN),
        sweep=lambda wildcards: PLAN.sweep(wildcards.sweep).place,
        runs=run_folders,
        folder=subpath(output.table, parent=True),
    shell:
        "python scripts/sweep.py --sweep {params.sweep:q} --train-dirs {params.runs:q}"
        " --output {params.folder:q} > {log:q} 2>&1"
