"""The bundled weights.

Uses functions/trainings.smk.
"""


rule general:
    """Train, evaluate and pack the bundled weights; make general puts them into the package."""
    input:
        datasets=PRESET_INPUTS.datasets(["general"]),
        weights="<results>/train/general/weights.safetensors",
        summary="<results>/evaluate/general/summary.json",
    output:
        weights="<results>/general/pack/weights.safetensors",
        others=multiext(
            "<results>/general/pack/",
            "README.md",
            "evaluation.json",
            "run.json",
            "settings.json",
            "statistics.json",
        ),
    log:
        "<logs>/general.log",
    benchmark:
        "<benchmarks>/general.tsv"
    retries: 0
    localrule: True
    params:
        code=code_lines("bundle_weights.py"),
        run=subpath(input.weights, parent=True),
        evaluation=subpath(input.summary, parent=True),
        folder=subpath(output.weights, parent=True),
    shell:
        program("bundle_weights.py")
        + " --run {params.run:q} --evaluation {params.evaluation:q}"
        " --output {params.folder:q} > {log:q} 2>&1"
