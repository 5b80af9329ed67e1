from __future__ import annotations

import json

import pytest

from vrtspike.analysis.figures import run_figures
from vrtspike.deblurring.metrics.table import METRICS
from vrtspike.runs.logs import read_run_logs


def test_speed_leaves_the_first_step_out(publish):
    speed = run_figures(read_run_logs(publish()), 1, metrics=METRICS).speed
    assert speed.step_ms == 1000
    assert speed.data_ms == 300
    assert speed.data_share == pytest.approx(0.3)
    assert speed.samples_per_second == pytest.approx(2.0)
    assert speed.frames_per_second == pytest.approx(6.0)
    assert speed.slowest_section == ("vrt/stage8", 150.0)
    assert speed.step_parts == pytest.approx(
        {"data": 0.3, "forward": 0.22, "backward": 0.4, "other": 0.08}
    )
    assert speed.recomputation_share is None


def test_a_step_of_many_micro_batches_is_divided(publish):
    speed = run_figures(read_run_logs(publish()), 4, metrics=METRICS).speed
    assert (speed.step_ms, speed.forward_ms, speed.data_ms) == (1000, 55, 75)
    assert speed.slowest_section == ("vrt/stage8", 37.5)
    assert speed.data_share == pytest.approx(0.3)


def test_health_and_memory(publish):
    figures = run_figures(read_run_logs(publish(gpu=True)), 1, metrics=METRICS)
    health, memory = figures.health, figures.memory
    assert (health.logged_steps, health.losses_not_finite) == (5, 0)
    assert health.last_loss == pytest.approx(0.2)
    assert health.gradient_norm_median == 2
    assert health.best == {"psnr": 30, "ssim": 0.9}
    assert memory.process_mb == 1000
    assert memory.system_percent == 40
    assert memory.has_gpu
    assert (memory.gpu_peak_mb, memory.gpu_total_mb) == (10_000, 80_000)
    assert memory.gpu_activations_mb == 9500
    assert memory.cache_hit_rate == 0.5


def test_the_best_validation_is_the_lowest_where_lower_is_better(publish):
    folder = publish()
    with (folder / "metrics.jsonl").open("a") as stream:
        for step, psnr, lpips in ((6, 29.0, 0.25), (7, None, 0.5)):
            record = {"kind": "validation", "step": step, "psnr": psnr, "lpips": lpips}
            stream.write(json.dumps(record) + "\n")
    best = run_figures(read_run_logs(folder), 1, metrics=METRICS).health.best
    assert best == {"psnr": 30, "ssim": 0.9, "lpips": 0.25}


def test_a_run_on_a_cpu_has_no_gpu_figures(publish):
    memory = run_figures(read_run_logs(publish()), 1, metrics=METRICS).memory
    assert not memory.has_gpu
    assert memory.gpu_peak_mb is None
    assert memory.gpu_activations_mb is None


def test_lost_losses_are_counted_from_the_first(publish):
    folder = publish()
    path = folder / "metrics.jsonl"
    path.write_text(path.read_text().replace('"loss": 0.3333333333333333', '"loss": null'))
    health = run_figures(read_run_logs(folder), 1, metrics=METRICS).health
    assert (health.losses_not_finite, health.first_not_finite) == (1, 3)
