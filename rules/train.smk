"""Training. The state of a run is in RUNS and not an output of this rule (launching/launch.py).

`snakemake train_<preset>` (workflow/Snakefile) asks for the weights that rule train makes.

Uses functions/data.smk and functions/trainings.smk.
"""

from vrtspike.workflow.job_resources import job_memory


rule train:
    """Train a preset, or continue its run; publish weights and logs at the end."""
    input:
        dataset=manifest_of_job,
        weights=input_weights,
    output:
        # Kept if this job fails; the launcher replaces the whole folder at the end.
        weights=update("<results>/train/{preset}/weights.safetensors"),
        settings=update("<results>/train/{preset}/settings.json"),
        run=update("<results>/train/{preset}/run.json"),
        code=update("<results>/train/{preset}/code.json"),
        statistics=update("<results>/train/{preset}/statistics.json"),
        table=update("<results>/train/{preset}/metrics.csv"),
        logs=update(multiext("<results>/train/{preset}/", *LOGS)),
    log:
        "<logs>/train/{preset}.log",
    benchmark:
        "<benchmarks>/train/{preset}.tsv"
    threads: lambda wildcards: DEVICES.threads(DEVICES.gpus)
    resources:
        **DEVICES.training_resources(NODES),
        mem_mb=job_memory(32000),
    params:
        # Not settings and code: input_weights compares the settings with those of the run, and
        # changed code causes no new training.
        configuration=configuration,
        retrain_option=retrain_option,
        devices=lambda wildcards, resources: DEVICES.options(resources.get("gpu")),
        folder=subpath(output.weights, parent=True),
    shell:
        # All messages go to the log; the terminal shows progress.
        "VRTSPIKE_CPUS={threads} "
        + program("launch_training.py")
        + " --preset {wildcards.preset}"
        " {params.configuration} {params.devices} {params.retrain_option}"
        " --dataset {input.dataset:q} --output {params.folder:q} --log {log:q} 2>> {log:q}"
