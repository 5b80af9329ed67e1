"""A published result outlives a new training that fails."""

from __future__ import annotations

import pytest

from tests.workflow.project import Project

SUBMIT = "#!/bin/sh\n( sh $1 > $1.out 2>&1; echo $? > $1.status ) > $1.log 2>&1 &\necho $1\n"
STATE = """#!/bin/sh
test -f $1.status || { echo running; exit; }
test "$(cat $1.status)" = 0 && echo success || echo failed
"""
CLUSTER = (
    "--executor cluster-generic --jobs 1 --cluster-generic-submit-cmd ./submit "
    "--cluster-generic-status-cmd ./state"
)


@pytest.mark.workflow
@pytest.mark.endurance
@pytest.mark.parametrize("executor", ["--cores 1", CLUSTER], ids=["local", "cluster"])
def test_a_failing_training_loses_nothing_and_makes_nothing_stale(finished: Project, executor):
    for name, text in (("submit", SUBMIT), ("state", STATE)):
        finished.write(name, text).chmod(0o755)
    weights = finished.folder / "results/train/other/weights.safetensors"
    contents, program = weights.read_bytes(), "scripts/launch_training.py"
    with (
        finished.replaced("config/presets/other.yaml", "1.0e-4", "4.0e-4"),
        finished.replaced(program, "program = ", "raise SystemExit('failed on purpose')\n    "),
    ):
        done = finished.snakemake(*executor.split(), "train_other")
    assert done.returncode == 1, done.stdout
    assert "results/train/other: the former result is kept" in done.stdout.splitlines()
    assert "no backup found" not in done.stdout
    assert weights.read_bytes() == contents
    assert finished.why("evaluate_other") == {}
