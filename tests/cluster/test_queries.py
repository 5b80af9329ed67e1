"""Surroundings of queries to Slurm: standard input and environment variables."""

from __future__ import annotations

import os

from vrtspike.cluster.queries import query


def test_a_query_has_no_standard_input():
    kept = os.dup(0)
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    try:
        assert query(["cat"], limit_s=20).text == ""
    finally:
        os.dup2(kept, 0)
        for descriptor in (kept, reading, writing):
            os.close(descriptor)


def test_the_users_variables_for_slurm_are_not_passed_on(monkeypatch):
    """``SQUEUE_PARTITION`` would hide the jobs of other partitions: they would seem lost."""
    for name in ("SQUEUE_PARTITION", "SACCT_FORMAT", "SCANCEL_INTERACTIVE", "SLURM_CLUSTERS"):
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    lines = (query(["env"]).text or "").splitlines()
    assert "LC_ALL=C" in lines
    assert [line for line in lines if line.endswith("=mine")] == ["SLURM_CLUSTERS=mine"]
