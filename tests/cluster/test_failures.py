"""Explanation of a failed job by the end of its log."""

from __future__ import annotations

import pytest

from vrtspike.cluster.failures import FAILURE_REASONS, NEAR_END, QUEUED_AGAIN, explain_failure

# As Slurm 22.05 writes it into the log of a job, without cgroups and with them.
KILLED = "slurmstepd-n0: error: StepId=2.0 exceeded memory limit (622780416 > 524288000), being"
OOM = (
    "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0. Some of your processes may "
    "have been killed by the cgroup out-of-memory handler."
)
SRUN = "srun: error: n0: task 0: Out Of Memory"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (KILLED, FAILURE_REASONS["OUT_OF_MEMORY"]),
        (OOM, FAILURE_REASONS["OUT_OF_MEMORY"]),
        (SRUN, FAILURE_REASONS["OUT_OF_MEMORY"]),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "failed"),
        ("srun: error: n0: task 0: Exited with exit code 1", "failed"),
        ("a metric named out of memory", "failed"),
        ("the time limit of the job is near: asking training to stop", "its wall time was about"),
        ("Command 'x' died with <Signals.SIGKILL: 9>.", "was ended by SIGKILL"),
        ("Command 'x' returned non-zero exit status 137.", "was ended by SIGKILL"),
        ("srun: error: n1: task 0: Killed", "was ended by SIGKILL"),
        ("Command 'x' died with <Signals.SIGTERM: 15>.", "was ended by SIGTERM"),
    ],
)
def test_the_log_of_a_failed_job_explains_it(line, reason):
    assert reason in explain_failure("FAILED", f"step 7\n{line}\nmore\n")
    # The state that Slurm reports takes precedence.
    assert explain_failure("NODE_FAIL", line) == "its node failed"


def test_the_last_attempt_explains_a_job_that_was_queued_again():
    """Slurm appends to its log where the site has set JobFileAppend."""
    log = f"{NEAR_END}: asking training to stop\n{QUEUED_AGAIN}, where training continues\n"
    killed = "Command 'x' died with <Signals.SIGKILL: 9>.\n"
    assert explain_failure("FAILED", log + killed) == explain_failure("FAILED", killed)
