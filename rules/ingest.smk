"""Raw files to manifests: what is there, whether it fits together, and one gate for all of it."""


include: "functions/ingest.smk"


checkpoint survey:
    """Find the sequences below a data root; those with faults are set aside for the gate."""
    input:
        generated,
    output:
        "<results>/data/{dataset}/survey.json",
    log:
        "<logs>/survey/{dataset}.log",
    benchmark:
        "<benchmarks>/survey/{dataset}.tsv"
    params:
        *code("survey.py"),
        raw_files=lambda wildcards: raw_file_options(dataset_of(wildcards)),
        splits=lambda wildcards: [
            dataset_of(wildcards).train_split,
            dataset_of(wildcards).val_split,
        ],
        found=lambda wildcards: RAW_DATA.found(dataset_of(wildcards)),
    shell:
        "python scripts/survey.py {params.raw_files} --dataset-name {wildcards.dataset}"
        " --splits {params.splits:q} --output {output:q} > {log:q} 2>&1"


rule ingest:
    """Check one sequence completely and write down what it consists of, faults included."""
    input:
        survey_before,
    output:
        "<results>/data/{dataset}/ingest/{split}/{sequence}.json",
    log:
        "<logs>/ingest/{dataset}/{split}/{sequence}.log",
    benchmark:
        "<benchmarks>/ingest/{dataset}/{split}/{sequence}.tsv"
    resources:
        mem_mb=2000,
    params:
        *code("ingest.py"),
        raw_files=lambda wildcards: raw_file_options(dataset_of(wildcards)),
        sensor=lambda wildcards: sensor_option(dataset_of(wildcards)),
        version=raw_version,
    shell:
        # With = a name may begin with a dash.
        "python scripts/ingest.py {params.raw_files} --split={wildcards.split:q}"
        " --sequence={wildcards.sequence:q} {params.sensor}"
        " --source-version {params.version} --output {output:q} > {log:q} 2>&1"


rule alignment:
    """Where each exposure lies in time, and how well its spikes show its sharp frame."""
    input:
        manifests=ingest_manifests,
        survey="<results>/data/{dataset}/survey.json",
    output:
        table=report(
            "<results>/data/{dataset}/alignment.csv",
            caption="../workflow/report/alignment.rst",
            category="Data",
            labels={"dataset": "{dataset}", "alignment": "table"},
        ),
        plot=report(
            "<results>/data/{dataset}/alignment.svg",
            caption="../workflow/report/alignment.rst",
            category="Data",
            labels={"dataset": "{dataset}", "alignment": "plot"},
        ),
    log:
        "<logs>/alignment/{dataset}.log",
    benchmark:
        "<benchmarks>/alignment/{dataset}.tsv"
    params:
        *code("alignment_table.py"),
        folder=subpath(input.survey, parent=True),
    shell:
        "python scripts/alignment_table.py --survey {input.survey:q} --ingested {params.folder:q}/ingest"
        " --table {output.table:q} --plot {output.plot:q} > {log:q} 2>&1"


checkpoint accept:
    """The gate: go on only if no sequence has a fault, else list all faults (or leave them out)."""
    input:
        # Made of all manifests. Named here one by one, thousands would take a tenth of a plan's time.
        alignment="<results>/data/{dataset}/alignment.csv",
        survey=survey_before_gate,
    output:
        "<results>/data/{dataset}/k{bins}/accepted.json",
    log:
        "<logs>/accept/{dataset}/k{bins}.log",
    benchmark:
        "<benchmarks>/accept/{dataset}/k{bins}.tsv"
    params:
        *code("accept.py"),
        on_error=lambda wildcards: dataset_of(wildcards).on_error,
        clips=lambda wildcards: clip_options(PLAN, wildcards.dataset),
        folder=subpath(input.survey, parent=True),
    shell:
        # What passed and what was left out also goes to the terminal; an error stands in the log,
        # which Snakemake shows.
        "python scripts/accept.py --survey {input.survey:q} --ingested {params.folder:q}/ingest"
        " --bins {wildcards.bins} {params.clips} --on-error {params.on_error}"
        " --output {output:q} 2> {log:q}"
        " | tee -a {log:q} >&2"
