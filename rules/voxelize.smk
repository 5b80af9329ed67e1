"""Sequences to stores: frames and spike counts, chunked for crops."""


include: "functions/voxelize.smk"


rule voxelize:
    """Write one sequence's store (next to the manifest, same name) and the digest of its contents."""
    input:
        manifest=manifest_before,
        # Only the order counts: one sequence checked again concerns no other.
        accepted=ancient("<results>/data/{dataset}/k{bins}/accepted.json"),
    output:
        "<results>/data/{dataset}/k{bins}/{split}/{sequence}.json",
    log:
        "<logs>/voxelize/{dataset}/k{bins}/{split}/{sequence}.log",
    benchmark:
        "<benchmarks>/voxelize/{dataset}/k{bins}/{split}/{sequence}.tsv"
    resources:
        mem_mb=4000,
    params:
        *code("voxelize.py"),
        root=lambda wildcards: dataset_of(wildcards).root,
    shell:
        "python scripts/voxelize.py --root {params.root:q} --manifest {input.manifest:q}"
        " --bins {wildcards.bins} --output {output:q} > {log:q} 2>&1"
