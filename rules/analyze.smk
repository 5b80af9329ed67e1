"""Logs to findings: where a run's time and memory went, and how presets compare."""


rule analyze_performance:
    """Tables, plots and ranked findings from a run's logs, and the preset they suggest."""
    input:
        restored=restored("performance/{preset}/findings.json"),
        run="<results>/train/{preset}/run.json",
        settled=settled(),
        logs=multiext(
            "<results>/train/{preset}/",
            "metrics.jsonl",
            "timing.jsonl",
            "memory.jsonl",
        ),
    output:
        findings="<results>/performance/{preset}/findings.json",
        proposed="<results>/performance/{preset}/proposed.yaml",
        tables=multiext(
            "<results>/performance/{preset}/",
            "findings.csv",
            "timing.csv",
            "throughput.csv",
            "memory.csv",
            "metrics.csv",
        ),
        loss=report(
            "<results>/performance/{preset}/loss.svg",
            caption="../workflow/report/loss.rst",
            category="Training",
            labels={"preset": "{preset}", "result": "loss"},
        ),
        validation=report(
            "<results>/performance/{preset}/metrics.svg",
            caption="../workflow/report/validation.rst",
            category="Training",
            labels={"preset": "{preset}", "result": "validation"},
        ),
        page=report(
            "<results>/performance/{preset}/findings.html",
            caption="../workflow/report/findings.rst",
            category="Performance",
            labels={"preset": "{preset}", "result": "findings"},
        ),
        time=report(
            "<results>/performance/{preset}/time_per_section.svg",
            caption="../workflow/report/time.rst",
            category="Performance",
            labels={"preset": "{preset}", "result": "time per section"},
        ),
        throughput=report(
            "<results>/performance/{preset}/throughput.svg",
            caption="../workflow/report/throughput.rst",
            category="Performance",
            labels={"preset": "{preset}", "result": "throughput"},
        ),
        memory=report(
            "<results>/performance/{preset}/memory.svg",
            caption="../workflow/report/memory.rst",
            category="Performance",
            labels={"preset": "{preset}", "result": "memory"},
        ),
    log:
        "<logs>/analyze_performance/{preset}.log",
    benchmark:
        "<benchmarks>/analyze_performance/{preset}.tsv"
    params:
        *code("analyze_performance.py", uses=SHOWN),
        source=subpath(input.run, parent=True),
        folder=subpath(output.findings, parent=True),
    shell:
        "python scripts/analyze_performance.py --train {params.source:q}"
        " --output {params.folder:q} > {log:q} 2>&1"


rule compare:
    """The presets named by PRESETS side by side: speed, memory, quality, and how they differ."""
    input:
        restored=restored("compare/table.csv"),
        settled=settled(*PLAN.settings.PRESETS),
        runs=expand("<results>/train/{preset}/run.json", preset=PLAN.settings.PRESETS),
        logs=expand(
            "<results>/train/{preset}/{log}.jsonl",
            preset=PLAN.settings.PRESETS,
            log=["metrics", "timing", "memory"],
        ),
        evaluations=expand(
            "<results>/evaluate/{preset}/summary.json", preset=PLAN.settings.PRESETS
        ),
    output:
        table="<results>/compare/table.csv",
        differences="<results>/compare/differences.csv",
        page=report(
            "<results>/compare/table.html",
            caption="../workflow/report/compare.rst",
            category="Comparison",
            labels={"result": "table"},
        ),
        loss=report(
            "<results>/compare/loss.svg",
            caption="../workflow/report/compare_loss.rst",
            category="Comparison",
            labels={"result": "loss"},
        ),
        validation=report(
            "<results>/compare/validation.svg",
            caption="../workflow/report/compare_validation.rst",
            category="Comparison",
            labels={"result": "validation"},
        ),
    log:
        "<logs>/compare.log",
    benchmark:
        "<benchmarks>/compare.tsv"
    params:
        *code("compare.py", uses=SHOWN),
        runs=run_folders,
        folder=subpath(output.table, parent=True),
    shell:
        "python scripts/compare.py --train-dirs {params.runs:q}"
        " --output {params.folder:q} > {log:q} 2>&1"
