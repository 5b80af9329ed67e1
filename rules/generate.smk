"""Generated data: the demo's, simulated spikes, calibrated recordings.

Uses functions/data.smk and functions/devices.smk.
"""

from vrtspike.deblurring.planning.damage import inputs_version
from vrtspike.deblurring.planning.options import (
    calibration_options,
    simulation_options,
)


rule demo_data:
    """Generate blurry frames, sharp frames and spikes from photographs."""
    output:
        f"{DEBLURRING.settings.DEMO.ROOT}/sources.txt",
    log:
        "<logs>/demo_data.log",
    benchmark:
        "<benchmarks>/demo_data.tsv"
    params:
        *code("demo_data.py"),
        root=subpath(output[0], parent=True),
        seed=DEBLURRING.settings.DEMO.SEED,
    shell:
        program("demo_data.py") + " --output {params.root:q} --seed {params.seed}"
        " > {output:q} 2> {log:q} && cat {output:q} >> {log:q}"


rule general_data:
    """Generate the training data of the bundled weights from pictures inside packages."""
    output:
        f"{DEBLURRING.settings.GENERAL.ROOT}/sources.txt",
    log:
        "<logs>/general_data.log",
    benchmark:
        "<benchmarks>/general_data.tsv"
    params:
        *code("general_data.py"),
        root=subpath(output[0], parent=True),
        seed=DEBLURRING.settings.GENERAL.SEED,
    shell:
        program("general_data.py") + " --output {params.root:q} --seed {params.seed}"
        " > {output:q} 2> {log:q} && cat {output:q} >> {log:q}"


rule simulate:
    """Blurry frames and spikes from a folder of high-speed frames (SIMULATE.SEQUENCES)."""
    output:
        f"{DEBLURRING.settings.SIMULATE.ROOT}/sources/{{split}}/{{sequence}}.txt",
    log:
        "<logs>/simulate/{split}/{sequence}.log",
    benchmark:
        "<benchmarks>/simulate/{split}/{sequence}.tsv"
    resources:
        mem_mb=memory(2000),
    params:
        *code("simulate.py"),
        options=lambda wildcards: simulation_options(
            DEBLURRING.settings.SIMULATE, source_of(wildcards)
        ),
        version=frames_version,
    shell:
        program("simulate.py") + " {params.options} --split={wildcards.split:q}"
        " --sequence={wildcards.sequence:q} > {output:q} 2> {log:q} && cat {output:q} >> {log:q}"


rule calibrate:
    """Resample frames of an own camera to the grid and clock of its spike sensor (CALIBRATE)."""
    output:
        f"{DEBLURRING.settings.CALIBRATE.ROOT}/calibrated.txt",
    log:
        "<logs>/calibrate.log",
    benchmark:
        "<benchmarks>/calibrate.tsv"
    retries: 0
    resources:
        mem_mb=memory(4000),
    params:
        *code("calibrate.py"),
        options=calibration_options(DEBLURRING.settings.CALIBRATE),
        version=lambda wildcards: inputs_version(
            "recordings",
            DEBLURRING.settings.CALIBRATE.STATIC,
            DEBLURRING.settings.CALIBRATE.MOVING,
            DEBLURRING.settings.CALIBRATE.DATA,
        ),
    shell:
        program("calibrate.py")
        + " {params.options} > {log:q} 2>&1 && cp {log:q} {output:q}"
