from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from vrtspike.analysis.diagnosis import find, findings_table, with_rules_table
from vrtspike.analysis.figures import Health, Memory, RunFigures, Speed
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import DataError


def settings(**sections: Any) -> Settings:
    return Settings.model_validate(sections)


def symptoms(figures: RunFigures, preset: Settings | None = None) -> dict[str, dict[str, Any]]:
    return {f.symptom: dict(f.keys) for f in find(figures, preset or settings())}


GOOD = RunFigures(
    Speed(
        step_ms=500, data_ms=2, data_share=0.01, forward_ms=160, samples_per_second=4,
        step_parts={"data": 0.01, "forward": 0.32, "backward": 0.6, "other": 0.07},
        slowest_section=("vrt/stage8", 60),
    ),
    Health(logged_steps=100, gradient_norm_median=1, gradient_norm_max=20),
    Memory(
        process_mb=4000, system_percent=40, gpu_peak_mb=38_000, gpu_total_mb=40_000,
        gpu_activations_mb=30_000, gpu_utilisation=93, cache_hit_rate=0.9,
    ),
)  # fmt: skip


def test_a_good_run_has_no_findings():
    assert find(GOOD, settings()) == []
    assert findings_table([]).empty


def test_an_empty_run_has_no_findings():
    assert find(RunFigures(), settings()) == []


@pytest.mark.parametrize(
    ("speed", "found"),
    [
        (Speed(data_ms=10.5, data_share=0.01), True),
        (Speed(data_ms=3, data_share=0.06), True),
        (Speed(data_ms=10, data_share=0.05), False),
    ],
)
def test_waiting_for_data_by_either_limit(speed, found):
    assert ("waiting for data" in symptoms(RunFigures(speed))) == found


def test_waiting_for_data_proposes_workers_and_prefetching():
    waiting = RunFigures(Speed(data_ms=200, data_share=0.4))
    assert symptoms(waiting)["waiting for data"] == {
        "DATALOADER.TOTAL_WORKERS": "cpu*1.0",
        "DATALOADER.TRAIN_PREFETCH_FACTOR": 8,
    }
    few = settings(
        DATALOADER={"TOTAL_WORKERS": 2, "TRAIN_PREFETCH_FACTOR": 8}, DATA={"USE_RAM_CACHE": False}
    )
    assert symptoms(waiting, few)["waiting for data"] == {
        "DATALOADER.TOTAL_WORKERS": "auto",
        "DATA.USE_RAM_CACHE": True,
    }
    finding = find(waiting, settings())[0]
    assert "200.0 ms" in finding.figure
    assert "40.0%" in finding.figure
    assert "67%" in finding.effect  # a step of 0.6 of the time is 1.67 times as fast


def test_an_idle_gpu_keeps_the_batch_of_a_step():
    idle = RunFigures(memory=Memory(gpu_total_mb=80_000, gpu_utilisation=30))
    assert symptoms(idle)["GPU idle"] == {
        "TRAIN.BATCH_SIZE": 2,
        "TRAIN.GRADIENT_ACCUMULATION_STEPS": 3,
        "TRAIN.COMPILE_MODEL": True,
    }


def test_slow_forward_names_the_slowest_part():
    slow = RunFigures(
        Speed(forward_ms=1800, slowest_section=("vrt/stage8", 600)), memory=Memory(gpu_total_mb=1)
    )
    finding = find(slow, settings(TRAIN={"PRECISION": "32"}))[0]
    assert finding.symptom == "slow forward pass"
    assert "vrt/stage8, 600 ms (33%)" in finding.figure
    assert finding.keys == {"TRAIN.PRECISION": "bf16-mixed", "TRAIN.COMPILE_MODEL": True}
    on_cpu = RunFigures(Speed(forward_ms=1800))
    assert symptoms(on_cpu)["slow forward pass"] == {}


def test_low_throughput_looks_at_recomputation():
    slow = RunFigures(
        Speed(
            samples_per_second=0.5,
            step_parts={"forward": 0.3, "backward": 0.7},
            recomputation_share=0.2,
        )
    )
    assert symptoms(slow)["low throughput"] == {"MODEL.VRT.USE_CHECKPOINT_FFN": False}
    assert "25%" in next(f.effect for f in find(slow, settings()))
    stored = settings(MODEL={"VRT": {"USE_CHECKPOINT_ATTN": False, "USE_CHECKPOINT_FFN": False}})
    assert symptoms(slow, stored)["low throughput"] == {}
    attention = settings(MODEL={"VRT": {"USE_CHECKPOINT_FFN": False}})
    assert symptoms(slow, attention)["low throughput"] == {"MODEL.VRT.USE_CHECKPOINT_ATTN": False}


def test_a_model_of_another_type_is_not_told_of_keys_that_it_does_not_have():
    model = settings().MODEL.model_copy(update={"TYPE": "another"})
    preset = settings().model_copy(update={"MODEL": model})
    speed = Speed(
        samples_per_second=0.5,
        forward_ms=1800,
        step_parts={"backward": 0.7},
        recomputation_share=0.2,
    )
    found = {finding.symptom: finding for finding in find(RunFigures(speed), preset)}
    assert found["low throughput"].keys == {}
    assert "a smaller model" in found["slow forward pass"].change


def test_cache_and_system_memory():
    cold = RunFigures(memory=Memory(cache_hit_rate=0.14, system_percent=30))
    assert symptoms(cold)["cache misses"] == {"DATA.CACHE_SIZE_GB": 8}
    full = RunFigures(memory=Memory(cache_hit_rate=0.14, system_percent=95))
    assert symptoms(full)["cache misses"] == {}
    assert symptoms(full)["system memory nearly full"] == {
        "DATA.CACHE_SIZE_GB": 2,
        "DATALOADER.TOTAL_WORKERS": "cpu*0.4",
        "DATALOADER.TRAIN_PREFETCH_FACTOR": 2,
    }


def test_headroom_is_counted_in_samples():
    roomy = RunFigures(
        memory=Memory(gpu_peak_mb=12_000, gpu_total_mb=40_000, gpu_activations_mb=10_000)
    )
    # 0.9 * 40000 - 12000 = 24000 MB are free: two more samples of 10000 MB.
    assert symptoms(roomy)["unused GPU memory"] == {
        "TRAIN.BATCH_SIZE": 3,
        "TRAIN.GRADIENT_ACCUMULATION_STEPS": 2,
    }
    tight = RunFigures(memory=Memory(gpu_peak_mb=31_000, gpu_total_mb=40_000))
    assert symptoms(tight) == {}


@pytest.mark.parametrize(
    "health",
    [
        Health(logged_steps=9, losses_not_finite=2, first_not_finite=7),
        Health(logged_steps=9, gradient_norm_median=0.5, gradient_norm_max=51),
        Health(logged_steps=9, skipped_steps=1),
    ],
)
def test_unstable_training_proposes_calmer_arithmetic(health):
    half = settings(TRAIN={"PRECISION": "16-mixed", "MAX_GRAD_NORM": 1.0})
    (finding,) = find(RunFigures(health=health), half)
    assert finding.severity == ("error" if health.losses_not_finite else "warning")
    assert finding.keys == {
        "TRAIN.PRECISION": "bf16-mixed",
        "TRAIN.AMP_INIT_SCALE": 1024,
        "TRAIN.MAX_GRAD_NORM": 0.5,
    }


def test_errors_come_first_then_the_largest_share():
    bad = RunFigures(
        Speed(
            data_ms=50, data_share=0.1, forward_ms=2000, samples_per_second=0.2,
            step_parts={"forward": 0.8},
        ),
        Health(logged_steps=5, losses_not_finite=1, first_not_finite=5),
        Memory(gpu_peak_mb=1_000, gpu_total_mb=80_000),
    )  # fmt: skip
    table = findings_table(find(bad, settings()))
    assert table["rank"].tolist() == [1, 2, 3, 4, 5]
    assert table["symptom"].tolist() == [
        "loss not finite", "slow forward pass", "low throughput", "waiting for data",
        "unused GPU memory",
    ]  # fmt: skip
    assert table.loc[0, "keys"].startswith("TRAIN.MAX_GRAD_NORM: 0.5")


def test_the_page_of_findings_holds_the_rules(repository, tmp_path):
    text = (repository / "docs/findings.md").read_text(encoding="utf-8")
    assert with_rules_table(text) == text, "run: python scripts/findings_reference.py"
    page = tmp_path / "findings.md"
    page.write_text(text.replace("GPU idle", "GPU asleep"), encoding="utf-8")
    command = [sys.executable, "scripts/findings_reference.py", "--page", str(page)]
    stale = subprocess.run(
        [*command, "--check"], cwd=repository, capture_output=True, text=True, check=False
    )
    assert stale.returncode == 2
    assert "older than the rules" in stale.stderr
    subprocess.run(command, cwd=repository, check=True, capture_output=True)
    assert page.read_text(encoding="utf-8") == text


def test_a_page_without_the_table_is_refused():
    with pytest.raises(DataError, match="no table"):
        with_rules_table("# Findings\n")
