"""Data that is made, not recorded: the demo's, and simulated spikes for high-speed frames."""


include: "functions/generate.smk"


rule demo_data:
    """Film photographs with a simulated camera: blurry frames, sharp frames and spikes."""
    output:
        f"{VIDEOS.settings.DEMO.ROOT}/sources.txt",
    log:
        "<logs>/demo_data.log",
    benchmark:
        "<benchmarks>/demo_data.tsv"
    params:
        *code("demo_data.py"),
        root=subpath(output[0], parent=True),
        seed=VIDEOS.settings.DEMO.SEED,
    shell:
        "python scripts/demo_data.py --output {params.root:q} --seed {params.seed}"
        " > {output:q} 2> {log:q} && cat {output:q} >> {log:q}"


rule simulate:
    """Blurry frames and spikes from a folder of high-speed frames (SIMULATE.SEQUENCES)."""
    output:
        f"{VIDEOS.settings.SIMULATE.ROOT}/sources/{{split}}/{{sequence}}.txt",
    log:
        "<logs>/simulate/{split}/{sequence}.log",
    benchmark:
        "<benchmarks>/simulate/{split}/{sequence}.tsv"
    resources:
        mem_mb=2000,
    params:
        *code("simulate.py"),
        options=simulation,
        version=version_of_frames,
    shell:
        "python scripts/simulate.py {params.options} --split={wildcards.split:q}"
        " --sequence={wildcards.sequence:q} > {output:q} 2> {log:q} && cat {output:q} >> {log:q}"
