"""Everything with a caption, in one file that needs no network."""


include: "functions/report.smk"


rule report:
    """One self-contained HTML file on the presets named by PRESETS."""
    input:
        captions=CAPTIONS,
        results=[
            *expand(rules.evaluate.output, preset=PLAN.settings.PRESETS),
            *expand(rules.analyze_performance.output, preset=PLAN.settings.PRESETS),
            *rules.compare.output,
            *alignments(PLAN.settings.PRESETS),
        ],
    output:
        "<results>/report.html",
    log:
        "<logs>/report.log",
    benchmark:
        "<benchmarks>/report.tsv"
    localrule: True
    params:
        options=nested_call,
    shell:
        "snakemake {params.options} --report {output:q} -- {input.results:q} > {log:q} 2>&1"


use rule report as demo_report with:
    input:
        captions=CAPTIONS,
        results=[
            *expand(rules.evaluate.output, preset="demo"),
            *expand(rules.analyze_performance.output, preset="demo"),
            *alignments(["demo"]),
        ],
    output:
        "<results>/demo/report.html",
    log:
        "<logs>/demo_report.log",
    benchmark:
        "<benchmarks>/demo_report.tsv"
    localrule: True
