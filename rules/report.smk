"""The report page, and Snakemake's report.

Uses functions/reports.smk and functions/trainings.smk.
"""

from vrtspike.workflow.job_resources import job_memory

RESULTS_OF_PRESETS = results_of(PRESETS)


rule page:
    """The report page on the presets in PRESETS: pictures, metrics, curves, origin."""
    input:
        **page_inputs(PRESETS, RESULTS_OF_PRESETS),
        rerun_damaged=rerun_damaged("index.html"),
    output:
        "<results>/index.html",
    log:
        "<logs>/page.log",
    benchmark:
        "<benchmarks>/page.tsv"
    threads: 4
    resources:
        mem_mb=job_memory(4000),
    params:
        code=code_lines("report_page.py"),
        results=lambda wildcards: RESULTS,
        presets=reported_presets,
        folder=WORKFLOW_CONFIG.settings.PRESET_DIR,
    shell:
        program("report_page.py")
        + " --results {params.results:q} --presets {params.presets:q}"
        " --preset-dir {params.folder:q} --output {output:q} > {log:q} 2>&1"


use rule page as demo_page with:
    input:
        **page_inputs(presets_of_demo, results_of_demo),
        rerun_damaged=rerun_damaged("{demo}/index.html"),
    output:
        "<results>/{demo}/index.html",
    log:
        "<logs>/{demo}_page.log",
    benchmark:
        "<benchmarks>/{demo}_page.tsv"


rule report:
    """Snakemake's report on the presets in PRESETS, and the report page."""
    input:
        page="<results>/index.html",
        datasets=PRESET_INPUTS.datasets(PRESETS),
        captions=CAPTIONS,
        results=[*RESULTS_OF_PRESETS, *rules.compare.output, *seeds_tables(*PRESETS)],
    output:
        "<results>/report.html",
    log:
        "<logs>/report.log",
    benchmark:
        "<benchmarks>/report.tsv"
    retries: 0
    localrule: True
    params:
        options=report_options,
    shell:
        "snakemake {params.options} --report {output:q} -- {input.results:q} > {log:q} 2>&1"


use rule report as demo_report with:
    input:
        rerun_damaged=rerun_damaged("{demo}/report.html"),
        page="<results>/{demo}/index.html",
        datasets=PRESET_INPUTS.datasets(presets_of_demo),
        captions=CAPTIONS,
        results=results_of_demo,
    output:
        "<results>/{demo}/report.html",
    log:
        "<logs>/{demo}_report.log",
    benchmark:
        "<benchmarks>/{demo}_report.tsv"
    localrule: True
