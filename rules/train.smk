"""Datasets to weights. A run's state lives in RUNS and is no rule's output: see the launcher."""


rule train:
    """Train a preset, or continue where its run stopped; publish weights and logs when done."""
    input:
        dataset=dataset_manifest,
        weights=input_weights,
    output:
        weights="<results>/train/{preset}/weights.safetensors",
        settings="<results>/train/{preset}/settings.json",
        run="<results>/train/{preset}/run.json",
        code="<results>/train/{preset}/code.json",
        statistics="<results>/train/{preset}/statistics.json",
        table="<results>/train/{preset}/metrics.csv",
        logs=multiext("<results>/train/{preset}/", *LOGS),
    log:
        "<logs>/train/{preset}.log",
    benchmark:
        "<benchmarks>/train/{preset}.tsv"
    threads: training_threads
    resources:
        **TRAINING_DEVICES,
        mem_mb=32000,
    params:
        # Neither settings nor code: the plan compares settings with those of the run, and changed
        # code retrains nothing by itself.
        configuration=configuration,
        retrain_option=retrain_option,
        devices=training_devices,
        folder=subpath(output.weights, parent=True),
    shell:
        # The full text goes to the log; the terminal shows what one waits for, and redraws it.
        "VRTSPIKE_CPUS={threads} python scripts/launch_training.py --preset {wildcards.preset}"
        " {params.configuration} {params.devices} {params.retrain_option}"
        " --dataset {input.dataset:q} --output {params.folder:q} --log {log:q} 2>> {log:q}"
