"""Raw files to a data set, for tasks without stages of their own (vrtspike.config.tasks).

Uses functions/data.smk.
"""

from vrtspike.staleness.params import data_damage, raw_file_lines
from vrtspike.workflow.job_resources import job_memory
from vrtspike.workflow.rule_values import one_of


# A checkpoint, so that data with an unchanged digest do not cause new trainings.
checkpoint prepare:
    """Prepare the data of tasks other than deblurring."""
    input:
        raw=raw_files,
        rerun_damaged=rerun_damaged(
            "data/{prepared}/dataset.json",
            damage=lambda wildcards: data_damage(
                WORKFLOW_CONFIG, preset_of_data(wildcards)
            ),
        ),
    output:
        "<results>/data/{prepared}/dataset.json",
    log:
        "<logs>/prepare/{prepared}.log",
    benchmark:
        "<benchmarks>/prepare/{prepared}.tsv"
    wildcard_constraints:
        prepared=one_of(WORKFLOW_CONFIG.preset_by_data_folder),
    resources:
        mem_mb=job_memory(4000),
    params:
        code=task_code_lines("prepare.py", preset_of_data),
        settings=setting_lines("prepare.py", preset_of_data),
        versions=lambda wildcards: raw_file_lines(
            WORKFLOW_CONFIG, preset_of_data(wildcards)
        ),
        preset=lambda wildcards, resources: preset_of_data(wildcards),
        configuration=configuration,
    shell:
        program("prepare.py") + " --preset {params.preset} {params.configuration}"
        " --output {output:q} > {log:q} 2>&1"
