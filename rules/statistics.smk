"""Stores to a data set: its sequences, the statistics of its training split, its digest.

Uses functions/data.smk.
"""

from vrtspike.data.manifests import DATASET


# A checkpoint, so that a data set with an unchanged digest does not cause new trainings.
checkpoint statistics:
    """Merge the histograms of all stores into the mean and deviation of the training split."""
    input:
        rerun_damaged=rerun_damaged(
            "data/{dataset}/k{bins}/dataset.json",
            DATASET,
            ["data/{dataset}/k{bins}/shards/*.json", "data/{dataset}/k{bins}/*.zarr"],
        ),
        shards=lambda wildcards: DATA_PLAN.shard_files(
            wildcards.dataset, f"k{wildcards.bins}"
        ),
        accepted="<results>/data/{dataset}/k{bins}/accepted.json",
    output:
        "<results>/data/{dataset}/k{bins}/dataset.json",
    log:
        "<logs>/statistics/{dataset}/k{bins}.log",
    benchmark:
        "<benchmarks>/statistics/{dataset}/k{bins}.tsv"
    retries: 0
    localrule: True
    params:
        code=code_lines("dataset_statistics.py"),
        train_split=lambda wildcards: data_source_of(wildcards).train_split,
    shell:
        program("dataset_statistics.py") + " --accepted {input.accepted:q}"
        " --dataset {wildcards.dataset} --train-split {params.train_split:q}"
        " --output {output:q} > {log:q} 2>&1"
