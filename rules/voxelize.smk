"""Sequences to stores: frames and spike counts, chunked for crops.

Uses functions/data.smk.
"""

from vrtspike.data.manifests import STORE_SHARD
from vrtspike.workflow.job_resources import shard_memory


rule voxelize:
    """Write the stores of a shard's sequences, with a manifest each, and their digests."""
    input:
        ingested="<results>/data/{dataset}/ingest/shards/{shard}.json",
        accepted="<results>/data/{dataset}/k{bins}/accepted.json",
        rerun_damaged=rerun_damaged(
            "data/{dataset}/k{bins}/shards/{shard}.json",
            STORE_SHARD,
            ["data/{dataset}/k{bins}/dataset.json"],
            lambda wildcards: DATA_PLAN.shard_damage(
                wildcards.dataset, f"k{wildcards.bins}", wildcards.shard, STORE_SHARD
            ),
        ),
    output:
        "<results>/data/{dataset}/k{bins}/shards/{shard}.json",
    log:
        "<logs>/voxelize/{dataset}/k{bins}/{shard}.log",
    benchmark:
        "<benchmarks>/voxelize/{dataset}/k{bins}/{shard}.tsv"
    threads: lambda wildcards: DATA_PLAN.shard_threads(wildcards.dataset, wildcards.shard)
    resources:
        mem_mb=shard_memory,
    params:
        code=code_lines("voxelize.py"),
        root=lambda wildcards: data_source_of(wildcards).root,
        options=lambda wildcards: DATA_PLAN.store_options(
            wildcards.dataset, int(wildcards.bins)
        ).model_dump_json(),
        ingested=subpath(input.ingested, ancestor=2),
        stores=subpath(output[0], ancestor=2),
    shell:
        # One process per sequence, each with one thread.
        f"OMP_NUM_THREADS=1 {program('voxelize.py')}"
        " --root {params.root:q} --accepted {input.accepted:q}"
        " --ingested {params.ingested:q} --stores {params.stores:q} --options {params.options:q}"
        " --shard {wildcards.shard} --threads {threads}"
        " --output {output:q} > {log:q} 2>&1"
