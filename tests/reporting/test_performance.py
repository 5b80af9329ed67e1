from __future__ import annotations

import pytest

from tests.reporting.results import FINDING, make_performance, make_run
from vrtspike.analysis.performance import analyze_run
from vrtspike.errors import RunError
from vrtspike.reporting.performance import Performance, read_performance


def read(folder, fingerprint="print of a") -> Performance:
    found = read_performance(folder, fingerprint)
    assert isinstance(found, Performance), found
    return found


def test_figures_sections_and_curves(tmp_path):
    found = read(make_performance(tmp_path, "a"))
    assert (found.step_ms, found.data_share, found.gpu_peak_mb) == (1000.0, 0.3, 10_000.0)
    assert (found.samples_per_second, found.process_mb) == (2.0, 1000.0)
    assert found.gpu_total_mb == 80_000.0
    assert found.parts["backward"] == 0.4
    assert found.sections[1] == ("step/forward", 1.0, 190.0, 220.0, 0.2)
    assert found.sections[3][4] is None
    assert found.throughput["samples per second"].values == (2.0, 2.5)
    assert found.memory["GPU, peak"].values == (9000.0, 10_000.0)
    assert found.findings == ()


def test_findings_in_words(tmp_path):
    (finding,) = read(make_performance(tmp_path, "a", [FINDING])).findings
    assert (finding.severity, finding.symptom) == ("warning", "waits for data")
    assert (finding.figure, finding.change, finding.effect) == (
        "30 % of a step",
        "more loading processes",
        "shorter steps",
    )
    assert finding.keys == ("DATA.USE_RAM_CACHE: true", "DATALOADER.TRAIN_WORKERS: 4")


@pytest.mark.slow
def test_what_an_analysis_writes_is_read(tmp_path):
    folder = make_run(tmp_path, "a", LOG={"MEMORY_EVERY_STEPS": 2})
    findings = analyze_run(folder, tmp_path / "performance/a")
    found = read(tmp_path / "performance/a")
    assert [f.symptom for f in found.findings] == [f.symptom for f in findings]
    assert found.step_ms == pytest.approx(1000.0)
    assert found.sections[0][0] == "step"
    assert "GPU, peak" in found.memory


def test_without_an_analysis_the_reason_is_said(tmp_path):
    assert read_performance(tmp_path / "none", "x") == "not analysed"
    folder = make_performance(tmp_path, "a")
    assert "belongs to another run (print of a, not b)" in str(read_performance(folder, "b"))
    (folder / "timing.csv").unlink()
    with pytest.raises(RunError, match=r"timing\.csv: no such file.*analyse again"):
        read_performance(folder, "print of a")
    (folder / "findings.json").write_text("[")
    with pytest.raises(RunError, match="damaged"):
        read_performance(folder, "print of a")
