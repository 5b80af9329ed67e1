from __future__ import annotations

import pytest

from vrtspike.queueing.slurm_jobs import (
    BAD,
    GOOD,
    QueuedJob,
    find_new,
    is_away,
    list_command,
    read_list,
    read_record,
    record_command,
)

LISTED = """\
7|PENDING||20:00|rule_train_wildcards_tiny
8_3|RUNNING|n[0-1]|1-00:00:00|rule_ingest_wildcards_a|b
9|COMPLETED|n0|20:00|
"""


def test_the_queue_is_read_as_it_is_asked_for():
    assert read_list(LISTED) == {
        "7": QueuedJob("7", "PENDING", "rule_train_wildcards_tiny", "", "20:00"),
        "8_3": QueuedJob("8_3", "RUNNING", "rule_ingest_wildcards_a|b", "n[0-1]", "1-00:00:00"),
        "9": QueuedJob("9", "COMPLETED", "", "n0", "20:00"),
    }
    command = list_command("some-name")
    assert command[command.index("--format") + 1] == "%i|%T|%N|%l|%k"
    assert command[command.index("--name") + 1] == "some-name"
    # Also those that have ended, and each task of an array.
    assert {"--states", "all", "--array"} <= set(command)


def test_an_empty_queue_has_no_jobs():
    assert read_list("\n") == {}


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED"])
def test_a_job_that_may_go_on_has_not_ended(state):
    assert state not in BAD
    assert state != GOOD


def test_a_job_that_has_failed_does_not_go_on():
    last = "BOOT_FAIL CANCELLED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT"
    assert sorted(BAD) == last.split()


def test_the_accounting_is_read():
    assert read_record("CANCELLED by 1000\n") == "CANCELLED"
    assert read_record("COMPLETED\n") == "COMPLETED"
    assert read_record("\n") is None
    # Of the job itself: its steps may have ended otherwise.
    assert "--allocations" in record_command("7")


@pytest.mark.parametrize(
    ("said", "away"),
    [
        (
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller "
            "(connect failure)",
            True,
        ),
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv", True),
        ("sbatch: error: Batch job submission failed: Zero Bytes were transmitted or", True),
        ("slurm_load_jobs error: Slurm backup controller in standby mode", True),
        ("srun: error: Unable to establish controller machine", True),
        (
            "squeue: error: resolve_ctls_from_dns_srv: Unable to establish configuration source",
            True,
        ),
        *(
            (f"sbatch: error: Batch job submission failed: {reason}", True)
            for reason in (
                *("Connection refused", "Communication connection failure"),
                *("Transport endpoint is not connected", "Resource temporarily unavailable"),
            )
        ),
        ("sbatch: error: Batch job submission failed: Invalid partition name specified", False),
        ("sbatch: error: Memory specification can not be satisfied", False),
        ("sbatch: error: Invalid account or account/partition combination specified", False),
    ],
)
def test_only_what_may_succeed_later_is_waited_for(said, away):
    assert is_away(said) == away


def test_a_job_whose_number_was_lost_is_found_by_its_comment():
    jobs = read_list("7|FAILED||1:00|rule_a\n8|PENDING||1:00|rule_a\n9|PENDING||1:00|rule_b\n")
    assert find_new(jobs, "rule_a", {"7"}) == "8"
    assert find_new(jobs, "rule_a", {"7", "8"}) is None
    assert find_new(jobs, "rule_c", {}) is None
