"""Summary of a plan: one line per stage with reason and cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vrtspike.workflow.plan_view import short_reasons, summary

PARAMS = "Params have changed since last execution: Union of exclusive params before and now: "


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("Missing output files: results/a.csv, results/b.csv", ["no result yet"]),
        ("Forced execution", ["asked for"]),
        (
            "Updated input files: a.json; Code has changed since last execution",
            ["what it reads is newer", "its rule was edited"],
        ),
        (
            f"{PARAMS}before: 'TRAIN.OPTIM.LR: 0.0001', 'SEED: 1' now: 'SEED: 2', "
            "'TRAIN.OPTIM.LR: 0.0003'",
            ["SEED 1 -> 2", "TRAIN.OPTIM.LR 0.0001 -> 0.0003"],
        ),
        (
            f"{PARAMS}before: 'vrtspike/data/gain.py 0123456789ab' now: "
            "'vrtspike/data/gain.py ba9876543210', 'vrtspike/io/files.py 000000000000'",
            ["code of vrtspike/data/gain.py", "code of vrtspike/io/files.py"],
        ),
        (
            f"{PARAMS}before: ['raw files of train/a: {'0' * 12}', 'raw files of b: {'2' * 12}'] "
            f"now: ['raw files of train/a: {'1' * 12}', 'raw files of b: {'2' * 12}']",
            ["raw files of train/a changed"],
        ),
        (f"{PARAMS}before: 'DATA.NEW: 1' now: <nothing exclusive>", ["DATA.NEW 1"]),
        ("A reason of a later version", ["A reason of a later version"]),
    ],
)
def test_reasons_are_short_and_name_the_key(reason, expected):
    assert short_reasons(reason) == expected


def job(
    rule: str, reason: str, benchmark: Path | None = None, waits: bool = False, **wildcards: str
) -> dict[str, Any]:
    """As Snakemake logs it."""
    fields = {"rule_name": rule, "reason": reason, "benchmark": benchmark, "wildcards": wildcards}
    return {**fields, "input": ["<TBD>"] if waits else None}


def benchmark(path: Path, seconds: float) -> Path:
    path.write_text(f"s\th:m:s\tmax_rss\n{seconds}\t0:00:02\t1.5\n")
    return path


def test_a_stage_is_one_line_with_its_cost(tmp_path):
    three = [
        job("ingest", "Missing output files: a", benchmark(tmp_path / "a.tsv", 60.0), dataset="d"),
        job("ingest", "Missing output files: b", benchmark(tmp_path / "b.tsv", 20.0), dataset="d"),
        job("ingest", "Updated input files: c", tmp_path / "never.tsv", dataset="d"),
    ]
    train = job("train", "Forced execution", benchmark(tmp_path / "t.tsv", 3725.0), preset="p")
    many = [job("page", f"{number}") for number in range(5)]
    lines = summary([*three, train, *many])
    assert lines == [
        # 80 s of two jobs, so 120 s of three.
        "ingest d (3 jobs): no result yet, what it reads is newer; took 2:00 last time",
        "train p: asked for; took 1:02:05 last time",
        "page (5 jobs): 0, 1, 2, and 2 more",
    ]


@pytest.mark.parametrize(
    ("reason", "waits", "expected"),
    [
        ("Input files updated by another job: data, a.csv", True, "decided when the data are made"),
        ("Input files updated by another job: data, a.csv", False, "what it reads is made again"),
        ("Forced execution; Input files updated by another job: data", True, "asked for, what it"),
        ("Missing output files: a", True, "no result yet"),
    ],
)
def test_jobs_behind_a_checkpoint_may_be_undecided(reason, waits, expected):
    (line,) = summary([job("train", reason, waits=waits)])
    assert line.startswith(f"train: {expected}")


def test_the_cost_of_several_stages_is_added_up_and_many_are_cut(tmp_path):
    jobs = [
        job(rule, "Forced execution", benchmark(tmp_path / f"{rule}.tsv", seconds))
        for rule, seconds in (("survey", 20.0), ("train", 3600.0), ("evaluate", 100.0))
    ]
    assert summary(jobs)[-1] == "together 1:02:00 last time"
    jobs.append(job("report", "Forced execution"))
    cut = summary(jobs, max_lines=2)
    assert cut[1:] == [
        "and 3 more stages; vrtspike why lists them all",
        "together 1:02:00 last time",
    ]
    assert summary(jobs, max_lines=4)[3] == "report: asked for"
    assert "together" not in "".join(summary(jobs[:2]))
    assert summary([]) == ["nothing to be done"]
