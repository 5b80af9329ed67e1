"""Evaluation of trained weights on the test split.

`snakemake evaluate_<preset>` (workflow/Snakefile) asks for the summary that rule evaluate makes.

Uses functions/data.smk, functions/reports.smk and functions/trainings.smk.
"""

from vrtspike.workflow.job_resources import job_memory


rule evaluate:
    """Evaluate on the test split: metrics per frame and sequence, pictures, examples."""
    input:
        rerun_damaged=rerun_damaged(
            "evaluate/{preset}/summary.json", damage=damaged_summary
        ),
        weights="<results>/train/{preset}/weights.safetensors",
        settings="<results>/train/{preset}/settings.json",
        dataset=manifest_of_job,
        backbones=backbones,
    output:
        summary="<results>/evaluate/{preset}/summary.json",
        tables=multiext("<results>/evaluate/{preset}/", "frames.csv", "sequences.csv"),
        page=in_report("evaluate/{preset}/metrics.html", "Metrics"),
        examples=directory("<results>/evaluate/{preset}/examples"),
        pictures=pictures_in_report("evaluate/{preset}/pictures"),
    log:
        "<logs>/evaluate/{preset}.log",
    benchmark:
        "<benchmarks>/evaluate/{preset}.tsv"
    threads: lambda wildcards: DEVICES.threads(1)
    resources:
        gpu=DEVICES.evaluation_gpus,
        mem_mb=job_memory(16000),
    params:
        code=task_code_lines("evaluate.py"),
        settings=setting_lines("evaluate.py"),
        overrides=evaluation_options,
        folder=subpath(output.summary, parent=True),
    shell:
        # The progress bar goes to the terminal, all else to the log.
        "VRTSPIKE_SCREEN=3 VRTSPIKE_CPUS={threads} "
        + program("evaluate.py")
        + " --weights {input.weights:q}"
        " --settings {input.settings:q} --dataset {input.dataset:q} {params.overrides}"
        " --output {params.folder:q} 3>&2 > {log:q} 2>&1"
