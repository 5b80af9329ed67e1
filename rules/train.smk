"""Datasets to weights. A run's state lives in RUNS and is no rule's output: see the launcher."""


rule train:
    """Train a preset, or continue where its run stopped; publish weights and logs when done."""
    input:
        dataset=dataset_manifest,
        accepted=gate,
        teacher=teacher,
    output:
        weights="<results>/train/{preset}/weights.safetensors",
        settings="<results>/train/{preset}/settings.json",
        run="<results>/train/{preset}/run.json",
        table="<results>/train/{preset}/metrics.csv",
        logs=multiext(
            "<results>/train/{preset}/",
            "metrics.jsonl",
            "timing.jsonl",
            "memory.jsonl",
        ),
    log:
        "<logs>/train/{preset}.log",
    benchmark:
        "<benchmarks>/train/{preset}.tsv"
    conda:
        "../environment.yml"
    threads: EVERY_CORE
    resources:
        **TRAINING_DEVICES,
        mem_mb=32000,
    params:
        *code("launch_training.py", "train.py", neutral=OBSERVERS),
        *settings(result_settings),
        configuration=configuration,
        folder=subpath(output.weights, parent=True),
    shell:
        # The progress goes to the terminal, where it can be redrawn; messages also to the log. The
        # run's folder keeps all figures. tee outlives an interruption to write its end.
        "python scripts/launch_training.py --preset {wildcards.preset} {params.configuration}"
        " --dataset {input.dataset:q} --output {params.folder:q} 2> >(tee -i {log:q} >&2)"
