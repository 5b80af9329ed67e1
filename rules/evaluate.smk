"""Weights to figures: the test split restored at full size."""


rule evaluate:
    """Restore the test split: PSNR and SSIM per frame and sequence, and pictures beside each other."""
    input:
        weights="<results>/train/{preset}/weights.safetensors",
        settings="<results>/train/{preset}/settings.json",
        dataset=dataset_manifest,
    output:
        frames=report(
            "<results>/evaluate/{preset}/frames.csv",
            caption="../workflow/report/frames.rst",
            category="Metrics",
            labels={"preset": "{preset}", "table": "per frame"},
        ),
        sequences=report(
            "<results>/evaluate/{preset}/sequences.csv",
            caption="../workflow/report/sequences.rst",
            category="Metrics",
            labels={"preset": "{preset}", "table": "per sequence"},
        ),
        summary="<results>/evaluate/{preset}/summary.json",
        pictures=report(
            directory("<results>/evaluate/{preset}/pictures"),
            patterns=["{picture}.png"],
            caption="../workflow/report/picture.rst",
            category="Pictures",
            labels={"preset": "{preset}", "picture": "{picture}"},
        ),
    log:
        "<logs>/evaluate/{preset}.log",
    benchmark:
        "<benchmarks>/evaluate/{preset}.tsv"
    conda:
        "../environment.yml"
    threads: EVERY_CORE
    resources:
        gpu=1,
        mem_mb=16000,
    params:
        *code("evaluate.py"),
        *settings(evaluation_settings),
        folder=subpath(output.summary, parent=True),
    shell:
        "python scripts/evaluate.py --weights {input.weights:q} --settings {input.settings:q}"
        " --dataset {input.dataset:q} --output {params.folder:q} > {log:q} 2>&1"
