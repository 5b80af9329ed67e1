"""The whole way on generated data."""


include: "functions/demo.smk"


rule demo:
    """Generate data, train, evaluate and report on it; end with a table of the results."""
    input:
        settled=settled("demo"),
        sequences="<results>/evaluate/demo/sequences.csv",
        report="<results>/demo/report.html",
    output:
        "<results>/demo/summary.txt",
    log:
        "<logs>/demo.log",
    benchmark:
        "<benchmarks>/demo.tsv"
    localrule: True
    params:
        *code("demo_summary.py"),
        benchmarks=demo_benchmarks,
        folder=f"{PLAN.settings.RESULTS}/benchmarks",
    shell:
        # The terminal shows it at the end, once.
        "python scripts/demo_summary.py --sequences {input.sequences:q}"
        " --benchmarks {params.benchmarks:q} --benchmark-folder {params.folder:q}"
        " --output {output:q} > {log:q} 2>&1"
