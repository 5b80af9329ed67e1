"""Pretrained backbones for perceptual losses and LPIPS: fetched only when asked for."""


rule weights:
    """Fetch the backbones' published weights and verify them by SHA-256 (needs the internet)."""
    input:
        expand("{folder}/{file}", folder=WEIGHT_DIRS, file=WEIGHT_FILES),


rule fetch_weights:
    """Fetch one file of weights; a file with another SHA-256 than the published one is refused."""
    output:
        "{folder}/{file}",
    log:
        "<logs>/weights/{folder}/{file}.log",
    benchmark:
        "<benchmarks>/weights/{folder}/{file}.tsv"
    wildcard_constraints:
        folder=one_of(WEIGHT_DIRS),
        file=one_of(WEIGHT_FILES),
    conda:
        "../environment.yml"
    params:
        *code("fetch_weights.py"),
    shell:
        "python scripts/fetch_weights.py --output {output:q} > {log:q} 2>&1"
