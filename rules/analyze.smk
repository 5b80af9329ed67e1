"""Logs to findings: where a run's time and memory went, and how presets compare."""


rule analyze_performance:
    """Tables, plots and ranked findings from a run's logs, and the preset they suggest."""
    input:
        run="<results>/train/{preset}/run.json",
        logs=multiext(
            "<results>/train/{preset}/",
            "metrics.jsonl",
            "timing.jsonl",
            "memory.jsonl",
        ),
    output:
        findings="<results>/performance/{preset}/findings.json",
        proposed="<results>/performance/{preset}/proposed.yaml",
    log:
        "<logs>/analyze_performance/{preset}.log",
    benchmark:
        "<benchmarks>/analyze_performance/{preset}.tsv"
    conda:
        "../environment.yml"
    params:
        *code("analyze_performance.py"),
        source=subpath(input.run, parent=True),
        folder=subpath(output.findings, parent=True),
    shell:
        "python scripts/analyze_performance.py --train {params.source:q}"
        " --output {params.folder:q} > {log:q} 2>&1"
