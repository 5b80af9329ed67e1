"""The report page, and Snakemake's report."""


rule page:
    """The report page on the presets in PRESETS: pictures, figures, curves, origin."""
    input:
        **page_inputs(PRESETS),
        rerun_damaged=rerun_damaged("index.html"),
    output:
        "<results>/index.html",
    log:
        "<logs>/page.log",
    benchmark:
        "<benchmarks>/page.tsv"
    threads: 4
    resources:
        mem_mb=memory(4000),
    params:
        *code("report_page.py"),
        results=results_folder,
        presets=reported_presets,
        folder=WORKFLOW.settings.PRESET_DIR,
    shell:
        program("report_page.py")
        + " --results {params.results:q} --presets {params.presets:q}"
        " --preset-dir {params.folder:q} --output {output:q} > {log:q} 2>&1"


use rule page as demo_page with:
    input:
        **page_inputs(DEMO_PRESETS),
        rerun_damaged=rerun_damaged("demo/index.html"),
    output:
        "<results>/demo/index.html",
    log:
        "<logs>/demo_page.log",
    benchmark:
        "<benchmarks>/demo_page.tsv"


rule report:
    """Snakemake's report on the presets in PRESETS, and the report page."""
    input:
        page="<results>/index.html",
        datasets=after_datasets(PRESETS),
        captions=CAPTIONS,
        results=[*results_of(PRESETS), *rules.compare.output, *seeds_tables(*PRESETS)],
    output:
        "<results>/report.html",
    log:
        "<logs>/report.log",
    benchmark:
        "<benchmarks>/report.tsv"
    retries: 0
    localrule: True
    params:
        options=nested_call,
    shell:
        "snakemake {params.options} --report {output:q} -- {input.results:q} > {log:q} 2>&1"


use rule page as sst_demo_page with:
    input:
        **page_inputs(["sst_demo"]),
        rerun_damaged=rerun_damaged("sst_demo/index.html"),
    output:
        "<results>/sst_demo/index.html",
    log:
        "<logs>/sst_demo_page.log",
    benchmark:
        "<benchmarks>/sst_demo_page.tsv"


use rule report as demo_report with:
    input:
        rerun_damaged=rerun_damaged("demo/report.html"),
        page="<results>/demo/index.html",
        datasets=after_datasets(DEMO_PRESETS),
        captions=CAPTIONS,
        results=results_of(DEMO_PRESETS),
    output:
        "<results>/demo/report.html",
    log:
        "<logs>/demo_report.log",
    benchmark:
        "<benchmarks>/demo_report.tsv"
    localrule: True


use rule report as sst_demo_report with:
    input:
        rerun_damaged=rerun_damaged("sst_demo/report.html"),
        page="<results>/sst_demo/index.html",
        datasets=after_datasets(["sst_demo"]),
        captions=CAPTIONS,
        results=results_of(["sst_demo"]),
    output:
        "<results>/sst_demo/report.html",
    log:
        "<logs>/sst_demo_report.log",
    benchmark:
        "<benchmarks>/sst_demo_report.tsv"
    localrule: True
