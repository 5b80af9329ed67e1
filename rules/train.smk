"""Datasets to weights. A run's state lives in RUNS and is no rule's output: see the launcher."""


include: "functions/train.smk"


rule train:
    """Train a preset, or continue where its run stopped; publish weights and logs when done."""
    input:
        dataset=dataset_manifest,
        weights=weights_before,
    output:
        weights="<results>/train/{preset}/weights.safetensors",
        settings="<results>/train/{preset}/settings.json",
        run="<results>/train/{preset}/run.json",
        code="<results>/train/{preset}/code.json",
        statistics="<results>/train/{preset}/statistics.json",
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
    threads: training_threads
    resources:
        **TRAINING_DEVICES,
        mem_mb=32000,
    params:
        # No code: who renames a helper does not want to train for days again.
        *settings(result_settings),
        given=given_weights,
        configuration=configuration,
        anew=anew,
        devices=training_devices,
        folder=subpath(output.weights, parent=True),
    shell:
        # The full text goes to the log; the terminal shows what one waits for, and redraws it.
        "VRTSPIKE_CPUS={threads} python scripts/launch_training.py --preset {wildcards.preset}"
        " {params.configuration} {params.devices} {params.anew}"
        " --dataset {input.dataset:q} --output {params.folder:q} --log {log:q} 2>> {log:q}"
