"""The complete workflow on generated data."""


rule demo:
    """Generate data, train two models on it, evaluate these and general, and print a table."""
    input:
        datasets=after_datasets(DEMO_PRESETS),
        summaries=expand(
            "<results>/evaluate/{preset}/summary.json", preset=DEMO_PRESETS
        ),
        report="<results>/demo/report.html",
    output:
        "<results>/demo/summary.txt",
    log:
        "<logs>/demo.log",
    benchmark:
        "<benchmarks>/demo.tsv"
    retries: 0
    localrule: True
    params:
        *code("demo_summary.py"),
        benchmarks=demo_benchmarks(*DEMO_PRESETS),
        folder=f"{RESULTS}/benchmarks",
        reuse=["--run", f"{RESULTS}/train/light_demo"],
    shell:
        program("demo_summary.py") + " --summaries {input.summaries:q}"
        " --benchmarks {params.benchmarks:q} --benchmark-folder {params.folder:q}"
        " {params.reuse:q} --output {output:q} > {log:q} 2>&1"


use rule demo as sst_demo with:
    input:
        datasets=after_datasets(["sst_demo"]),
        summaries="<results>/evaluate/sst_demo/summary.json",
        report="<results>/sst_demo/report.html",
    output:
        "<results>/sst_demo/summary.txt",
    log:
        "<logs>/sst_demo.log",
    benchmark:
        "<benchmarks>/sst_demo.tsv"
    localrule: True
    params:
        benchmarks=demo_benchmarks("sst_demo"),
        folder=f"{RESULTS}/benchmarks",
        reuse=[],
