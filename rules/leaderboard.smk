"""Published results: reproduction of VRT from its weights, and a leaderboard with own runs.

Uses functions/reports.smk and functions/trainings.smk.
"""

from vrtspike.workflow.job_resources import job_memory


rule reproduce_vrt:
    """Evaluate VRT's published weights, without spikes, under protocol vrt: expected 34.81 dB."""
    input:
        published_vrt,
    output:
        "<results>/reproduce_vrt/verdict.txt",
    log:
        "<logs>/reproduce_vrt.log",
    benchmark:
        "<benchmarks>/reproduce_vrt.tsv"
    threads: lambda wildcards: DEVICES.threads(1)
    resources:
        gpu=DEVICES.evaluation_gpus,
        mem_mb=job_memory(16000),
    params:
        code=code_lines("reproduce_vrt.py"),
        preset=PUBLISHED_VRT,
        configuration=configuration,
        folder=subpath(output[0], parent=True),
    shell:
        "VRTSPIKE_SCREEN=3 VRTSPIKE_CPUS={threads} "
        + program("reproduce_vrt.py")
        + " --preset {params.preset}"
        " {params.configuration} --output {params.folder:q} 3>&2 > {log:q} 2>&1"
        " && cat {output:q} >&2"


rule leaderboard:
    """Compare the presets in PRESETS with published results, by protocol."""
    input:
        **PRESET_INPUTS.evaluations(seeds_of(*PRESETS)),
    output:
        multiext("<results>/leaderboard/leaderboard.", "csv", "md", "tex"),
        page=in_report("leaderboard/leaderboard.html", "Comparison", "compare"),
    log:
        "<logs>/leaderboard.log",
    benchmark:
        "<benchmarks>/leaderboard.tsv"
    params:
        code=code_lines("leaderboard.py"),
        runs=run_folders,
        folder=subpath(output.page, parent=True),
    shell:
        program("leaderboard.py") + " --run {params.runs:q} --output {params.folder:q}"
        " > {log:q} 2>&1"
