"""Files of the performance analysis: tables, plots, findings and the proposed preset."""

from __future__ import annotations

from xml.etree import ElementTree

import pandas as pd
import pytest

from tests.helpers.published_runs import write_lines
from vrtspike.analysis.performance import FINDINGS, PROPOSED, analyze_run, write_analysis
from vrtspike.config import load_preset
from vrtspike.io.files import read_json, write_json


def write_and_find(folder, output):
    analysis = analyze_run(folder)
    write_analysis(analysis, output)
    return analysis.findings


@pytest.fixture
def analysed(publish, tmp_path):
    folder = publish("slow", gpu=True, DATALOADER={"TOTAL_WORKERS": 2})
    output = tmp_path / "performance"
    return write_and_find(folder, output), output


def test_tables_hold_the_logs_and_no_other_files_are_written(analysed):
    _, output = analysed
    assert {path.name for path in output.iterdir()} == {
        *("timing.csv", "throughput.csv", "memory.csv", PROPOSED),
        *("metrics.svg", "loss.svg", "time_per_section.svg"),
        *(f"{FINDINGS}.{kind}" for kind in ("json", "csv", "html")),
    }
    timing = pd.read_csv(output / "timing.csv").set_index("section")
    assert timing.at["step/data", "p50"] == 300
    assert timing.at["step/data", "share"] == pytest.approx(0.3)
    assert pd.read_csv(output / "memory.csv").at[0, "gpu.peak_mb"] == 10_000
    assert pd.read_csv(output / "throughput.csv")["samples_per_second"].tolist()[1:] == [2.0] * 4


def test_the_proposal_for_a_seed_has_its_preset_as_base_and_that_for_a_variant_none(
    publish, tmp_path
):
    (tmp_path / "slow.yaml").write_text("TRAIN: {EPOCHS: 7}\n")
    write_and_find(publish("slow-seed-2"), tmp_path)
    assert load_preset(tmp_path / PROPOSED).TRAIN.EPOCHS == 7
    write_and_find(publish("slow-without-spikes", MODEL={"USE_SPIKE": False}), tmp_path)
    assert "# Put in: BASE" in (tmp_path / PROPOSED).read_text()


def test_findings_name_evidence_and_keys(analysed):
    findings, output = analysed
    assert [finding.symptom for finding in findings] == [
        "waiting for data", "cache misses", "unused GPU memory",
    ]  # fmt: skip
    contents = read_json(output / "findings.json")
    assert contents["preset"] == "slow"
    assert contents["measurements"]["speed"]["data_ms"] == 50  # 300 ms for six micro-batches
    assert contents["findings"][0]["evidence"].startswith("50.0 ms wait for each batch")
    assert contents["proposed"] == {
        "DATALOADER.TOTAL_WORKERS": "auto",
        "DATALOADER.TRAIN_PREFETCH_FACTOR": 8,
        "DATA.CACHE_SIZE_GB": 5.2,  # half of 10,000 MB
        "TRAIN.BATCH_SIZE": 6,
        "TRAIN.GRADIENT_ACCUMULATION_STEPS": 1,
    }
    (output / "slow.yaml").write_text("DATALOADER:\n  TOTAL_WORKERS: 2\n")
    assert load_preset(output / PROPOSED).TRAIN.BATCH_SIZE == 6
    page = (output / "findings.html").read_text()
    assert "50.0 ms wait for each batch" in page
    assert '<td class="text">10000 MB</td>' in page


def test_a_run_that_continued_on_more_processes_has_fewer_micro_steps(publish, tmp_path):
    folder = publish()
    record = read_json(folder / "run.json")
    # Six micro-steps of one process, then two of each of three.
    write_json(folder / "run.json", record | {"processes": 3, "micro_batches": 6})
    assert analyze_run(folder).measurements.speed.data_ms == 150  # 300 ms for two micro-batches


def test_a_run_without_timing_is_analysed_all_the_same(publish, tmp_path):
    folder = publish()
    for name in ("timing.jsonl", "memory.jsonl"):
        (folder / name).write_text("")
    assert not write_and_find(folder, tmp_path / "out")
    assert "no symptom crossed its limit" in (tmp_path / "out" / "findings.html").read_text()
    assert "LOG.ENABLE_TIMING_LOG" in (tmp_path / "out" / "time_per_section.svg").read_text()


@pytest.mark.parametrize(
    ("precision", "proposed"),
    [("32", {}), ("16-mixed", {"TRAIN.PRECISION": "bf16-mixed"}),
     (None, {"TRAIN.PRECISION": "bf16-mixed"})],
)  # fmt: skip
def test_the_recorded_arithmetic_decides(publish, tmp_path, precision, proposed):
    folder = publish(TRAIN={"PRECISION": "16-mixed"})
    if precision is not None:
        record = read_json(folder / "run.json")
        write_json(folder / "run.json", record | {"precision": precision})
    lines = [
        {"kind": "train", "step": step, "loss": 1.0, "grad_norm": 10.0 ** (-step // 10)}
        for step in range(1, 61)
    ]
    write_lines(folder / "metrics.jsonl", lines)
    finding = analyze_run(folder).findings[0]
    assert finding.symptom == "gradient norm vanishing"
    assert finding.keys == proposed


def words(path) -> str:
    return " ".join(ElementTree.parse(path).getroot().itertext())


def test_plots_name_sections_and_curves_that_have_values(analysed):
    _, output = analysed
    sections = words(output / "time_per_section.svg")
    assert all(label in sections for label in ("step/forward/vrt/stage8", "milliseconds of a step"))
    curves = words(output / "loss.svg")
    assert all(label in curves for label in ("gradient norm", "learning rate", "optimiser step"))
    validation = words(output / "metrics.svg")
    assert "validation PSNR, dB" in validation
    assert "LPIPS" not in validation
