"""Sequences to stores: frames and spike counts, chunked for crops."""


include: "functions/voxelize.smk"


rule voxelize:
    """Write the stores of a share's sequences, a manifest beside each, and all their digests."""
    input:
        ingested=ingested_before,
        accepted=accepted_before,
    output:
        "<results>/data/{dataset}/k{bins}/shares/{share}.json",
    log:
        "<logs>/voxelize/{dataset}/k{bins}/{share}.log",
    benchmark:
        "<benchmarks>/voxelize/{dataset}/k{bins}/{share}.tsv"
    threads: sequences_of_share
    resources:
        mem_mb=share_memory,
    params:
        *code("voxelize.py"),
        root=lambda wildcards: dataset_of(wildcards).root,
        ingested=subpath(input.ingested, ancestor=2),
        stores=subpath(output[0], ancestor=2),
        asked=stores_asked,
    shell:
        # A process for each of several sequences: they need no threads of their own.
        "OMP_NUM_THREADS=1 python scripts/voxelize.py --root {params.root:q}"
        " --accepted {input.accepted:q} --ingested {params.ingested:q} --stores {params.stores:q}"
        " --bins {wildcards.bins} --share {wildcards.share} --threads {threads}"
        " --asked {params.asked} --output {output:q} > {log:q} 2>&1"
