"""Table of stage times from Snakemake's benchmarks and evaluations."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from vrtspike.analysis.evaluation_files import write_summary
from vrtspike.analysis.stage_times import demo_summary, stage_seconds
from vrtspike.system.errors import DataError


def benchmark(path: Path, seconds: float, time: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"s\th:m:s\tmax_rss\n{seconds}\t0:00:01\t12.5\n")
    os.utime(path, (time, time))


@pytest.fixture
def benchmarks(tmp_path: Path) -> Path:
    folder = tmp_path / "benchmarks"
    benchmark(folder / "train" / "demo.tsv", 120.5, time=50)
    benchmark(folder / "ingest" / "demo" / "train" / "a.tsv", 1.5, time=20)
    benchmark(folder / "ingest" / "demo" / "test" / "b.tsv", 2.5, time=30)
    benchmark(folder / "demo_data.tsv", 4.0, time=10)
    return folder


def test_the_last_line_of_a_benchmark_counts_and_another_table_is_refused(tmp_path):
    path = tmp_path / "store.tsv"
    path.write_text("s\th:m:s\n7.5\t0:00:07\n2.5\t0:00:02\n")
    assert stage_seconds([path], tmp_path) == {"store": (1, 2.5)}
    path.write_text("a\tb\n1\t2\n")
    with pytest.raises(DataError, match=r"store\.tsv: no column 's'"):
        stage_seconds([path], tmp_path)


def evaluation(folder: Path, preset: str, gain: float, **entries: object) -> Path:
    """The summary of an evaluation."""
    psnr = {"blurry": 24.0, "restored": 24.0 + gain, "gain": gain}
    lpips = {"blurry": 0.25, "restored": 0.5, "gain": -0.25}
    path = folder / preset / "summary.json"
    metrics = {"psnr": psnr, "lpips": lpips}
    write_summary(path, {"fingerprint": preset, "metrics": metrics, **entries})
    return path


def rows_of(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_program_prints_and_writes_the_table(benchmarks, tmp_path, repository):
    done = subprocess.run(
        [
            sys.executable, "scripts/demo_summary.py",
            "--summaries", evaluation(tmp_path, "demo", 2.5),
            evaluation(tmp_path, "light", 3.0, warnings=["weights of [x] as they come"]),
            "--benchmarks", *benchmarks.rglob("*.tsv"), benchmarks / "never/measured.tsv",
            "--benchmark-folder", benchmarks, "--output", tmp_path / "summary.txt",
            "--run", "results/train/other",
        ],
        cwd=repository, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for rows in map(rows_of, (done.stdout, (tmp_path / "summary.txt").read_text())):
        for row in (
            "metric preset blurry restored gain",
            "psnr dB demo 24.00 26.50 +2.50",
            "psnr dB light 24.00 27.00 +3.00",
            "lpips demo 0.2500 0.5000 -0.2500",
            "light: weights of [x] as they come",
        ):
            assert row in rows
        # In order of time.
        times = [row for row in rows if row.startswith(("demo_data", "ingest", "train"))]
        assert times == ["demo_data 1 4.0", "ingest 2 4.0", "train 1 120.5"]
        assert "give it away: vrtspike pack results/train/other -o other_model" in rows


def test_values_of_two_protocols_are_called_by_them(tmp_path):
    summaries = [
        evaluation(tmp_path, "demo", 2.5), evaluation(tmp_path, "other", 1.0, protocol="vrt"),
    ]  # fmt: skip
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(demo_summary(summaries, [], tmp_path))
    rows = rows_of(console.export_text())
    assert "psnr (vrt) dB other 24.00 25.00 +1.00" in rows
    assert "psnr (vrt) dB demo – – –" in rows
    assert "Seconds per stage" in rows
