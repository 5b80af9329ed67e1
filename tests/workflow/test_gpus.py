"""Presets on the GPUs of one machine, whose devices are a file (tests/fake_driver)."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.workflow


def test_a_plan_shows_how_two_presets_share_two_gpus(uncomputed_project, install_gpus):
    install_gpus(*({"uuid": f"GPU-{letter}", "total": 40, "used": 0} for letter in "ab"))
    output = uncomputed_project.snakemake(
        *("-n", "-p", "--cores", "40", "train_tiny", "train_other", "evaluate_tiny"),
        *("--resources", "gpu=2", "--config", "GPUS=auto"),
    ).stdout
    shares = re.findall(r"threads: (\d+)\n    resources:.* gpu=(\d)", output)
    assert shares == [("20", "1")] * 3
    # Their programs know the number of CPU cores.
    calls = re.findall(r"VRTSPIKE_CPUS=20 python (\S+) (.*)", output)
    assert (
        sorted(program for program, _ in calls)
        == ["scripts/evaluate.py"] + ["scripts/launch_training.py"] * 2
    )
    assert sum("--max-gpus 1" in options for _, options in calls) == 2
    # A process for each sequence of a shard, with memory for each, and no threads beside.
    for rule in ("ingest", "voxelize"):
        (job,) = re.findall(rf"rule {rule}:\n(.*?)\n\n", output, re.DOTALL)
        assert "threads: 3\n" in job
        assert "mem_mb=2000" in job
        options = f"scripts/{rule}.py .* --shard 0-of-1 --threads 3 "
        assert re.search(f"command: OMP_NUM_THREADS=1 python {options}", output), output
