from __future__ import annotations

import pytest

from vrtspike.queueing.endings import explain, more_memory

# As Slurm 22.05 writes it into the log of a job, without cgroups and with them.
KILLED = "slurmstepd-n0: error: StepId=2.0 exceeded memory limit (622780416 > 524288000), being"
OOM = (
    "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0. Some of your processes may "
    "have been killed by the cgroup out-of-memory handler."
)
SRUN = "srun: error: n0: task 0: Out Of Memory"


@pytest.mark.parametrize("line", [KILLED, OOM, SRUN])
def test_a_failed_job_whose_step_was_killed_for_its_memory_needs_more(line):
    ending = explain("FAILED", f"step 7\n{line}\nmore\n", memory_mb=500)
    assert ending.out_of_memory
    assert ending.why == "it needed more memory than the 500 MB it asked for"


def test_slurm_may_say_so_itself():
    assert explain("OUT_OF_MEMORY", "").out_of_memory
    assert explain("OUT_OF_MEMORY", "").why == "it needed more memory"


@pytest.mark.parametrize(
    "log",
    [
        "",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        "srun: error: n0: task 0: Exited with exit code 1",
        "a metric named out of memory",
    ],
)
def test_memory_of_a_gpu_or_a_word_in_a_log_is_no_request(log):
    ending = explain("FAILED", log, memory_mb=500)
    assert not ending.out_of_memory
    assert ending.why == "its program failed"


def test_each_ending_is_told_in_words():
    why = {
        state: explain(state, "", node="n3", limit="1:00:00").why
        for state in ("TIMEOUT", "NODE_FAIL", "CANCELLED", "PREEMPTED", "SOMETHING_NEW")
    }
    assert why["TIMEOUT"].startswith("it ran into its wall time of 1:00:00; ")
    assert why["NODE_FAIL"] == "its node failed (n3)"
    assert why["CANCELLED"] == "it was cancelled, by scancel or by the site (n3)"
    assert why["PREEMPTED"].startswith("it made room for other jobs")
    assert why["SOMETHING_NEW"] == "Slurm says SOMETHING_NEW"


def test_memory_is_doubled_up_to_the_limit_and_never_lowered():
    assert [more_memory(500, limit) for limit in (0, 2000, 800, 500, 300)] == [
        *(1000, 1000, 800, 500, 500)
    ]
