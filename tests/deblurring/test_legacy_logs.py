"""Text logs as the documents show them, and as this project writes them."""

from __future__ import annotations

import math

import pytest

from tests.deblurring.old_log_texts import BLOCK, PRINTED, TRAIN
from vrtspike.analysis.performance import write_analysis
from vrtspike.deblurring.legacy_logs import analyze_old_logs, old_log_files
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.monitoring.timing_text import step_text
from vrtspike.system.errors import RunError


def means(path):
    timing = analyze_old_logs(path).logs.timing
    return timing.groupby("section", sort=False)["ms"].mean().to_dict()


def test_blocks_of_the_timing_logger(tmp_path):
    log = tmp_path / "timing_1.log"
    text = BLOCK.format(step=1, forward=280) + BLOCK.format(step=2, forward=300)
    log.write_text(text.replace("Step", "  Step").replace("Total", "  Total"))
    assert means(log) == {
        "step/forward": 290,
        "step/forward/vrt": 150,
        "step/forward/vrt/stage1": 25,
        "step/forward/vrt/stage2": 23,
        "step/forward/spike_attention": 80,
        "step/forward/spike_attention/attention": 50,
        "step/forward/spike_attention/feed_forward": 20,
        "step/forward/spike_attention/layout": 10,
        "step/forward/vrt/fusion": 60,
        "step/forward/spike_encoder": 50,
    }
    analysis = analyze_old_logs(log)
    assert analysis.measurements.speed.forward_ms == 300  # the first step is a warm-up
    assert math.isnan(analysis.measurements.speed.step_ms)  # the log's own total counts parts twice
    assert any("clocks of this log stood on the host" in note for note in analysis.notes)
    assert any("Only the forward pass" in note for note in analysis.notes)


def test_a_backward_pass_makes_a_step(tmp_path):
    log = tmp_path / "a.log"
    line = "反向传播总耗时 : 500.00ms ( 60.0%) [avg: 500.00ms]\n数据加载 : 20.00ms ( 1.0%)\n"
    text = BLOCK.format(step=1, forward=280).replace("Total-", line + "Total-")
    log.write_text(text)
    speed = analyze_old_logs(log).measurements.speed
    assert (speed.step_ms, speed.data_ms) == (800, 20)
    assert speed.data_share == pytest.approx(0.025)


def test_lines_of_progress_memory_and_cache(tmp_path):
    log = tmp_path / "train_1.log"
    log.write_text(TRAIN)
    analysis = analyze_old_logs(log)
    measurements = analysis.measurements
    speed, health, memory = measurements.speed, measurements.health, measurements.memory
    assert speed.samples_per_second == pytest.approx(0.5)  # without the first line
    assert speed.data_ms == pytest.approx(20)
    assert (health.logged_steps, health.last_loss, health.losses_not_finite) == (2, 0.5, 0)
    assert (memory.process_mb, memory.system_percent) == (15678.9, 91.2)
    assert memory.cache_hit_rate == pytest.approx(0.8245)
    assert analysis.logs.train["lr"].tolist() == [2e-4, 1e-4]
    findings = {finding.symptom: finding for finding in analysis.findings}
    assert "system memory nearly full" in findings
    assert findings["low throughput"].evidence == (
        "0.5 samples a second (limit 1); what was not timed takes 100% of a step"
    )
    assert not any("clocks" in note for note in analysis.notes)
    log.write_text("step 7/9 | loss=nan | 0.5 samples/s\n")
    assert analyze_old_logs(log).measurements.health.first_not_finite == 7


def test_prints_of_the_debugging_version(tmp_path):
    log = tmp_path / "timing_debug.log"
    log.write_text(PRINTED + PRINTED.replace("1930.85ms", "1830.85ms"))
    ms = means(log)
    assert ms == {
        "step/forward": pytest.approx(1880.85),
        "step/forward/spike_encoder": pytest.approx(128.40),
        "step/forward/spike_attention": pytest.approx(567.89),
        "step/forward/vrt/stage1": pytest.approx(234.56),
        "step/forward/vrt/stage2": pytest.approx(269.33),
        "step/forward/vrt": pytest.approx(1234.56),
    }
    log.write_text(PRINTED.replace("Stage 2", "Stage 1"))
    assert means(log)["step/forward/vrt/stage1"] == pytest.approx(234.56 + 269.33)


def test_this_projects_own_text_log_gives_its_own_times(tmp_path):
    measured = {
        "step/data": 10.0,
        "step/forward/vrt/stage1": 30.0,
        "step/forward/vrt": 50.0,
        "step/forward": 70.0,
        "step/backward/recomputation": 40.0,
        "step/backward": 100.0,
        "step": 200.0,
        "validation": 500.0,
    }
    (tmp_path / "timing_2.log").write_text(step_text(3, measured, measured))
    assert means(tmp_path) == measured
    analysis = analyze_old_logs(tmp_path)
    assert analysis.measurements.speed.step_ms == 200
    assert analysis.measurements.speed.recomputation_share == pytest.approx(0.2)
    assert not any("clocks" in note for note in analysis.notes)


def test_a_folder_gives_times_and_progress_together(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "timing_1.log").write_text(BLOCK.format(step=1, forward=280))
    (logs / "train_1.log").write_text(TRAIN)
    (logs / "other.log").write_text("nothing")
    names = [file.name for file in old_log_files(tmp_path)]
    assert names == ["timing_1.log", "train_1.log"]
    analysis = analyze_old_logs(tmp_path, DeblurringSettings())
    assert analysis.measurements.speed.forward_ms == 280
    assert analysis.measurements.memory.system_percent == 91.2
    assert not any("settings" in note for note in analysis.notes)
    write_analysis(analysis, tmp_path / "out")
    assert (tmp_path / "out/findings.html").is_file()
    assert "step/forward/vrt/fusion" in (tmp_path / "out/timing.csv").read_text()


def test_files_without_known_layout_are_refused(tmp_path):
    with pytest.raises(RunError, match=r"neither a run .* nor a text log"):
        analyze_old_logs(tmp_path / "nosuch")
    (tmp_path / "a.log").write_text("hello\nTotal: nothing\n")
    with pytest.raises(RunError, match="no line of a known layout"):
        analyze_old_logs(tmp_path)
    garbled = (
        "前向传播总耗时: 1.2.3ms\n",
        "Step 1\n  forward : 1.2.3ms\nTotal\n",
        "[Step 1] Memory - Process: 1.2.3MB, System: 1/2GB (50%)\n",
    )
    for line in garbled:
        (tmp_path / "a.log").write_text(line)
        with pytest.raises(RunError, match=r"a value is not a number \(.*'1\.2\.3'\); correct"):
            analyze_old_logs(tmp_path)
