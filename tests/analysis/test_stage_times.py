from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from vrtspike.analysis.stage_times import demo_summary, stage_seconds
from vrtspike.config.problems import Metric
from vrtspike.errors import DataError


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


def test_seconds_are_added_up_by_stage_in_order_of_time(benchmarks):
    files = [*benchmarks.rglob("*.tsv"), benchmarks / "never" / "measured.tsv"]
    assert list(stage_seconds(files, benchmarks).items()) == [
        ("demo_data", (1, 4.0)),
        ("ingest", (2, 4.0)),
        ("train", (1, 120.5)),
    ]


def test_the_last_line_of_a_benchmark_counts_and_another_table_is_refused(tmp_path):
    path = tmp_path / "store.tsv"
    path.write_text("s\th:m:s\n7.5\t0:00:07\n2.5\t0:00:02\n")
    assert stage_seconds([path], tmp_path) == {"store": (1, 2.5)}
    path.write_text("a\tb\n1\t2\n")
    with pytest.raises(DataError, match=r"store\.tsv: no column 's'"):
        stage_seconds([path], tmp_path)


def test_the_program_prints_and_writes_the_table(benchmarks, tmp_path, repository):
    sequences = tmp_path / "sequences.csv"
    sequences.write_text(
        "sequence,scale,frames,psnr_blur,psnr,ssim_blur,ssim,lpips_blur,lpips\n"
        "GOPR0101_11_00,1.0,8,24.0,26.5,0.80,0.90,0.3,0.1\n"
        "GOPR0102_11_00,1.0,8,26.0,27.5,0.84,0.88,0.2,0.25\n"
        "GOPR0103_11_00,1.0,8,40.0,42.0,0.70,0.95,0.1,0.1\n"
        "GOPR0101_11_00,0.5,8,90.0,91.0,0.9,0.9,0.1,0.1\n"
    )
    done = subprocess.run(
        [
            sys.executable, "scripts/demo_summary.py", "--sequences", sequences,
            "--benchmarks", *(benchmarks / "ingest").rglob("*.tsv"),
            "--benchmark-folder", benchmarks, "--output", tmp_path / "summary.txt",
            "--trained", "results/train/other",
        ],
        cwd=repository, capture_output=True, text=True, check=True,
    )  # fmt: skip
    text = (tmp_path / "summary.txt").read_text()
    for output in (done.stdout, text):
        rows = [" ".join(line.split()) for line in output.splitlines()]
        for row in (
            "PSNR GOPR0101_11_00 24.00 dB 26.50 dB +2.50",
            "PSNR mean 30.00 dB 32.00 dB +2.00",
            "SSIM mean 0.7800 0.9100 +0.1300",
            "LPIPS GOPR0102_11_00 0.2000 0.2500 -0.0500",
            "ingest 2 4.0",
        ):
            assert row in rows
        # Other runs' jobs are none of it.
        assert not any(row.startswith("train ") for row in rows)
        assert "give it away: vrtspike pack results/train/other -o other_model" in rows


def shown(files: list[Path], folder: Path) -> list[list[str]]:
    """The cells of the summary's rows."""
    metric = Metric("rmse", "RMSE", "...", before="persistence", larger_is_better=False, decimals=3)
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(demo_summary(files, [], folder, [metric]))
    return [line.split() for line in console.export_text().splitlines()]


def test_presets_without_scales_have_one_mean_each_side_by_side(tmp_path):
    files = [tmp_path / name / "sequences.csv" for name in ("demo", "light_demo")]
    for path, gain in zip(files, (0.5, 0.75), strict=True):
        path.parent.mkdir()
        path.write_text(f"sequence,frames,rmse_persistence,rmse\na,2,1,{1 - gain}\nb,2,1,1\n")
    rows = shown(files[:1], tmp_path)
    assert ["RMSE", "a", "1.000", "0.500", "+0.500"] in rows
    assert ["RMSE", "mean", "1.000", "0.750", "+0.250"] in rows
    rows = shown(files, tmp_path)
    assert ["RMSE", "demo", "1.000", "0.750", "+0.250"] in rows
    assert ["RMSE", "light_demo", "1.000", "0.625", "+0.375"] in rows
    assert not [row for row in rows if row[:2] == ["RMSE", "a"]]
    # Figures of two protocols are called by them.
    text = files[1].read_text().replace("sequence,", "sequence,protocol,").replace(",2,", ",vrt,2,")
    files[1].write_text(text)
    assert ["RMSE", "(vrt)", "light_demo", "1.000", "0.625", "+0.375"] in shown(files, tmp_path)


def test_a_table_without_the_metrics_has_only_seconds(tmp_path):
    path = tmp_path / "demo" / "sequences.csv"
    path.parent.mkdir()
    path.write_text("sequence,frames\na,2\n")
    assert ["Seconds", "per", "stage"] in shown([path], tmp_path)
