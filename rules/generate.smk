"""Generated data: the demo's, simulated spikes, calibrated recordings.

Uses functions/data.smk.
"""

from vrtspike.deblurring.planning.options import (
    calibration_options,
    inputs_version,
    simulation_options,
)
from vrtspike.workflow.job_resources import job_memory


rule demo_data:
    """Generate blurry frames, sharp frames and spikes from photographs."""
    output:
        f"{DEBLURRING_CONFIG.settings.DEMO.ROOT}/sources.txt",
    log:
        "<logs>/demo_data.log",
    benchmark:
        "<benchmarks>/demo_data.tsv"
    params:
        code=code_lines("demo_data.py"),
        root=subpath(output[0], parent=True),
        seed=DEBLURRING_CONFIG.settings.DEMO.SEED,
    shell:
        program("demo_data.py") + " --output {params.root:q} --seed {params.seed}"
        " > {output:q} 2> {log:q} && cat {output:q} >> {log:q}"


rule general_data:
    """Generate the training data of the bundled weights from pictures inside packages."""
    output:
        f"{DEBLURRING_CONFIG.settings.GENERAL.ROOT}/sources.txt",
    log:
        "<logs>/general_data.log",
    benchmark:
        "<benchmarks>/general_data.tsv"
    params:
        code=code_lines("general_data.py"),
        root=subpath(output[0], parent=True),
        seed=DEBLURRING_CONFIG.settings.GENERAL.SEED,
    shell:
        program("general_data.py") + " --output {params.root:q} --seed {params.seed}"
        " > {output:q} 2> {log:q} && cat {output:q} >> {log:q}"


rule simulate:
    """Blurry frames and spikes from a folder of high-speed frames (SIMULATE.SEQUENCES)."""
    output:
        f"{DEBLURRING_CONFIG.settings.SIMULATE.ROOT}/sources/{{split}}/{{sequence}}.txt",
    log:
        "<logs>/simulate/{split}/{sequence}.log",
    benchmark:
        "<benchmarks>/simulate/{split}/{sequence}.tsv"
    resources:
        mem_mb=job_memory(2000),
    params:
        code=code_lines("simulate.py"),
        options=lambda wildcards: simulation_options(
            DEBLURRING_CONFIG.settings.SIMULATE, simulation_source(wildcards)
        ),
        version=frames_version,
    shell:
        program("simulate.py") + " {params.options} --split={wildcards.split:q}"
        " --sequence={wildcards.sequence:q} > {output:q} 2> {log:q} && cat {output:q} >> {log:q}"


rule calibrate:
    """Resample frames of an own camera to the grid and clock of its spike sensor (CALIBRATE)."""
    output:
        f"{DEBLURRING_CONFIG.settings.CALIBRATE.ROOT}/calibrated.txt",
    log:
        "<logs>/calibrate.log",
    benchmark:
        "<benchmarks>/calibrate.tsv"
    retries: 0
    resources:
        mem_mb=job_memory(4000),
    params:
        code=code_lines("calibrate.py"),
        options=calibration_options(DEBLURRING_CONFIG.settings.CALIBRATE),
        version=lambda wildcards: inputs_version(
            "recordings",
            DEBLURRING_CONFIG.settings.CALIBRATE.STATIC,
            DEBLURRING_CONFIG.settings.CALIBRATE.MOVING,
            DEBLURRING_CONFIG.settings.CALIBRATE.DATA,
        ),
    shell:
        program("calibrate.py")
        + " {params.options} > {log:q} 2>&1 && cp {log:q} {output:q}"
