"""Raw files to manifests: survey, checks of each sequence, and acceptance of the data set.

Uses functions/data.smk and functions/reports.smk.
"""

from vrtspike.data.manifests import ACCEPTED, INGEST_SHARD, SURVEY
from vrtspike.deblurring.planning.options import raw_folder_json
from vrtspike.workflow.job_resources import shard_memory


rule survey:
    """Find the sequences below a data root; faults are listed for the rule accept."""
    input:
        lambda wildcards: data_source_of(wildcards).sources,
        rerun_damaged=rerun_damaged(
            "data/{dataset}/survey.json", SURVEY, ["data/{dataset}/alignment.csv"]
        ),
    output:
        "<results>/data/{dataset}/survey.json",
    log:
        "<logs>/survey/{dataset}.log",
    benchmark:
        "<benchmarks>/survey/{dataset}.tsv"
    retries: 0
    localrule: True
    params:
        code=code_lines("survey.py"),
        options=lambda wildcards: raw_folder_json(data_source_of(wildcards)),
        splits=lambda wildcards: [
            data_source_of(wildcards).train_split,
            data_source_of(wildcards).test_split,
        ],
        names_version=lambda wildcards: DATA_PLAN.names_version(wildcards.dataset),
    shell:
        program("survey.py")
        + " --options {params.options:q} --dataset-name {wildcards.dataset}"
        " --splits {params.splits:q} --output {output:q} > {log:q} 2>&1"


rule ingest:
    """Check the sequences of a shard completely; each gets a manifest, faults included."""
    input:
        survey="<results>/data/{dataset}/survey.json",
        rerun_damaged=rerun_damaged(
            "data/{dataset}/ingest/shards/{shard}.json",
            INGEST_SHARD,
            ["data/{dataset}/alignment.csv"],
            lambda wildcards: DATA_PLAN.shard_damage(
                wildcards.dataset, "ingest", wildcards.shard, INGEST_SHARD
            ),
        ),
    output:
        "<results>/data/{dataset}/ingest/shards/{shard}.json",
    log:
        "<logs>/ingest/{dataset}/{shard}.log",
    benchmark:
        "<benchmarks>/ingest/{dataset}/{shard}.tsv"
    threads: lambda wildcards: DATA_PLAN.shard_threads(wildcards.dataset, wildcards.shard)
    resources:
        mem_mb=shard_memory,
    params:
        code=code_lines("ingest.py"),
        options=lambda wildcards: raw_folder_json(data_source_of(wildcards)),
        folder=subpath(output[0], ancestor=2),
        versions=lambda wildcards: DATA_PLAN.raw_versions(
            wildcards.dataset, wildcards.shard
        ),
    shell:
        # One process per sequence, each with one thread.
        f"OMP_NUM_THREADS=1 {program('ingest.py')}"
        " --options {params.options:q}"
        " --survey {input.survey:q} --ingested {params.folder:q} --shard {wildcards.shard}"
        " --threads {threads} --output {output:q} > {log:q} 2>&1"


rule alignment:
    """Alignment: the centre of each exposure, and the correlation of spikes and sharp frame."""
    input:
        rerun_damaged=rerun_damaged(
            "data/{dataset}/alignment.csv",
            later_results=["data/{dataset}/k*/accepted.json"],
        ),
        shards=lambda wildcards: DATA_PLAN.shard_files(wildcards.dataset, "ingest"),
        survey="<results>/data/{dataset}/survey.json",
    output:
        table=in_report("data/{dataset}/alignment.csv", "Data", result="table"),
        plot=in_report("data/{dataset}/alignment.svg", "Data", result="plot"),
    log:
        "<logs>/alignment/{dataset}.log",
    benchmark:
        "<benchmarks>/alignment/{dataset}.tsv"
    retries: 0
    localrule: True
    params:
        code=code_lines("alignment_table.py"),
        folder=subpath(input.survey, parent=True),
    shell:
        program("alignment_table.py")
        + " --survey {input.survey:q} --ingested {params.folder:q}/ingest"
        " --table {output.table:q} --plot {output.plot:q} > {log:q} 2>&1"


rule accept:
    """Accept the data set if no sequence has a fault; else list all faults, or exclude them."""
    input:
        rerun_damaged=rerun_damaged(
            "data/{dataset}/k{bins}/accepted.json",
            ACCEPTED,
            ["data/{dataset}/k{bins}/dataset.json"],
        ),
        shards=lambda wildcards: DATA_PLAN.shard_files(wildcards.dataset, "ingest"),
        survey="<results>/data/{dataset}/survey.json",
        # Before the error, because it shows the faults.
        alignment="<results>/data/{dataset}/alignment.csv",
    output:
        "<results>/data/{dataset}/k{bins}/accepted.json",
    log:
        "<logs>/accept/{dataset}/k{bins}.log",
    benchmark:
        "<benchmarks>/accept/{dataset}/k{bins}.tsv"
    retries: 0
    localrule: True
    params:
        code=code_lines("accept.py"),
        options=lambda wildcards: DATA_PLAN.accept_options(
            wildcards.dataset, int(wildcards.bins)
        ).model_dump_json(),
        folder=subpath(input.survey, parent=True),
    shell:
        # Accepted and excluded sequences are shown on the terminal, too.
        program("accept.py")
        + " --survey {input.survey:q} --ingested {params.folder:q}/ingest"
        " --options {params.options:q} --output {output:q} 2> {log:q}"
        " | tee -a {log:q} >&2"


rule check_data:
    """Check the data of the presets in PRESETS and show their alignment; nothing is trained."""
    input:
        checked_data,
