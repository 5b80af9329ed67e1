"""Download of pretrained backbones for perceptual losses and LPIPS."""

from vrtspike.io.backbone_weights import PUBLISHED, SOURCE
from vrtspike.workflow.job_resources import ALL_CORES
from vrtspike.workflow.rule_values import one_of

WEIGHT_FILES = sorted(PUBLISHED)
WEIGHT_DIRS = sorted(
    {preset.WEIGHTS.DIR for preset in DEBLURRING_CONFIG.presets.values()}
)


rule weights:
    """Download the backbones' published weights and verify their SHA-256."""
    input:
        expand("{folder}/{file}", folder=WEIGHT_DIRS, file=WEIGHT_FILES),


rule fetch_weights:
    """Download a file of weights; a file with another SHA-256 is refused."""
    output:
        # An existing file is verified and kept.
        update("{folder}/{file}"),
    log:
        "<logs>/weights/{folder}/{file}.log",
    benchmark:
        "<benchmarks>/weights/{folder}/{file}.tsv"
    wildcard_constraints:
        folder=one_of(WEIGHT_DIRS),
        file=one_of(WEIGHT_FILES),
    # First and alone, so that a failed download is reported before anything is computed.
    priority: 1000
    retries: 0
    localrule: True
    threads: ALL_CORES
    params:
        # No code: the published contents are fixed.
        source=WORKFLOW_CONFIG.settings.WEIGHTS_URL or SOURCE,
    shell:
        program("fetch_weights.py") + " --source {params.source:q} --output {output:q}"
        " > {log:q} 2>&1"
