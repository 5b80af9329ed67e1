"""Pretrained backbones for perceptual losses and LPIPS: fetched only when asked for."""

from vrtspike.workflow.local_devices import ALL_CORES
from vrtspike.io.pretrained import PUBLISHED, SOURCE

WEIGHT_FILES = sorted(PUBLISHED)
WEIGHT_DIRS = sorted({preset.WEIGHTS.DIR for preset in VIDEOS.presets.values()})


rule weights:
    """Fetch the backbones' published weights and verify them by SHA-256 (needs the internet)."""
    input:
        expand("{folder}/{file}", folder=WEIGHT_DIRS, file=WEIGHT_FILES),


rule fetch_weights:
    """Fetch one file of weights; a file with another SHA-256 than the published one is refused."""
    output:
        # A file that stands there is verified and kept, whatever made Snakemake ask for it.
        update("{folder}/{file}"),
    log:
        "<logs>/weights/{folder}/{file}.log",
    benchmark:
        "<benchmarks>/weights/{folder}/{file}.tsv"
    wildcard_constraints:
        folder=one_of(WEIGHT_DIRS),
        file=one_of(WEIGHT_FILES),
    # First of all, and alone: what cannot be fetched is told before anything is computed.
    priority: 1000
    retries: 0
    localrule: True
    threads: ALL_CORES
    params:
        # The published file has one content: no code changes it.
        source=PLAN.settings.WEIGHTS_URL or SOURCE,
    shell:
        "python scripts/fetch_weights.py --source {params.source:q} --output {output:q}"
        " > {log:q} 2>&1"
