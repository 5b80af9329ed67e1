"""Presets, inputs and params of the demos."""

from pathlib import Path

from vrtspike.workflow import demos

DEMOS = demos.DEMOS


def presets_of_demo(wildcards):
    """The presets of the job's demo."""
    return DEMOS[wildcards.demo]


def demo_benchmarks(wildcards, resources):
    """The benchmarks of a demo's jobs; with `resources`, so that they do not cause reruns."""
    return demos.benchmark_files(
        Path(RESULTS, "benchmarks"), presets_of_demo(wildcards)
    )


def demo_reuse(wildcards):
    """Options that name the run which the demo shows how to use."""
    return demos.reuse_options(Path(RESULTS), wildcards.demo)
