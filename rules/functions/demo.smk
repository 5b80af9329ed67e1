"""What the demo's summary shows."""

from vrtspike.watching.workflow import benchmarks_before


def demo_benchmarks(wildcards, resources):
    """What the demo's own jobs cost; no reason to run again, hence `resources`."""
    return benchmarks_before(workflow, "demo")


def sst_demo_benchmarks(wildcards, resources):
    """The same of the demo of another problem."""
    return benchmarks_before(workflow, "sst_demo")
