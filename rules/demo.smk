"""The whole way on generated data."""


rule demo:
    """Generate data, train, evaluate and report on it; end with a table of the results."""
    input:
        "<results>/demo/summary.txt",


rule demo_summary:
    """Print what the demo reached, and how long each stage took."""
    input:
        sequences="<results>/evaluate/demo/sequences.csv",
        report="<results>/demo/report.html",
    output:
        "<results>/demo/summary.txt",
    log:
        "<logs>/demo_summary.log",
    benchmark:
        "<benchmarks>/demo_summary.tsv"
    localrule: True
    conda:
        "../environment.yml"
    params:
        *code("demo_summary.py"),
        benchmarks=f"{PLAN.settings.RESULTS}/benchmarks",
    shell:
        "python scripts/demo_summary.py --sequences {input.sequences:q} --report {input.report:q}"
        " --benchmarks {params.benchmarks:q} --output {output:q} 2> {log:q}"
