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
        *code("demo_summary.py", uses=METRICS),
        task="deblurring",
        benchmarks=demo_benchmarks,
        folder=f"{PLAN.settings.RESULTS}/benchmarks",
    shell:
        # The terminal shows it at the end, once.
        "python scripts/demo_summary.py --sequences {input.sequences:q}"
        " --benchmarks {params.benchmarks:q} --benchmark-folder {params.folder:q}"
        " --task {params.task} --output {output:q} > {log:q} 2>&1"


use rule demo as sst_demo with:
    input:
        settled=settled("sst_demo"),
        sequences="<results>/evaluate/sst_demo/sequences.csv",
        report="<results>/sst_demo/report.html",
    output:
        "<results>/sst_demo/summary.txt",
    log:
        "<logs>/sst_demo.log",
    benchmark:
        "<benchmarks>/sst_demo.tsv"
    localrule: True
    params:
        task="sst",
        benchmarks=sst_demo_benchmarks,
        folder=f"{PLAN.settings.RESULTS}/benchmarks",
