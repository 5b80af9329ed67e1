"""Every rule's limit, weight, text and proposal, from measurements on both sides of the limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vrtspike.analysis.diagnosis.findings import SYMPTOMS, diagnose_run
from vrtspike.analysis.diagnosis.symptom import Finding, RunFacts
from vrtspike.analysis.run_measurements import Health, Memory, RunMeasurements, Speed
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.sst.settings import SSTSettings

WAITS = {"data_ms": 99.0, "data_share": 0.5}
LOW = {"samples_per_second": 0.5}
EXPLODED = {"gradient_norm_median": 0.5, "gradient_norm_max": 60.0}
VANISHED = {"first_gradient_norms": 1.0, "last_gradient_norms": 0.0}
COLD = {"cache_hit_rate": 0.2, "cache_is_full": True}
STORED = {"VRT": {"USE_CHECKPOINT_ATTN": False, "USE_CHECKPOINT_FFN": False}}


def settings(**sections: Any) -> DeblurringSettings:
    return DeblurringSettings.model_validate(sections)


def measurements(**values: Any) -> RunMeasurements:
    """Measurements of a run, each in the group that has one of this name; None was not logged."""
    measured = {name: value for name, value in values.items() if value is not None}
    groups = [
        kind(**{name: value for name, value in measured.items() if name in kind.__annotations__})
        for kind in (Speed, Health, Memory)
    ]
    return RunMeasurements(*groups)


def check(
    symptom: str,
    preset: DeblurringSettings | SSTSettings | None = None,
    precision: str | None = None,
    **values: Any,
) -> Finding:
    """The findings of a run with these measurements."""
    preset = settings() if preset is None else preset
    (rule,) = (rule for rule in SYMPTOMS if rule.name == symptom)
    finding = rule.find(RunFacts(measurements(**values), preset, precision))
    assert finding is None or finding in diagnose_run(measurements(**values), preset, precision)
    return finding  # type: ignore[return-value]


LIMITS: list[tuple[str, str, Any, Any, dict[str, Any]]] = [
    # Symptom, measurement, its value at the limit and beyond, other measurements.
    ("waiting for data", "data_ms", 10.0, 10.1, {"data_share": 0.01}),
    ("waiting for data", "data_share", 0.05, 0.051, {"data_ms": 1.0}),
    # However long: where it is under 1 % of a step there is nothing to gain.
    ("waiting for data", "data_share", 0.008, 0.01, {"data_ms": 50.0}),
    ("GPU idle", "gpu_utilisation", 50.0, 49.9, {}),
    ("slow forward pass", "forward_ms", 1500.0, 1500.1, {}),
    ("low throughput", "samples_per_second", 1.0, 0.99, {}),
    ("cache misses", "cache_hit_rate", 0.6, 0.59, {}),
    ("system memory nearly full", "system_percent", 90.0, 90.1, {}),
    ("gradient norm exploding", "gradient_norm_max", 50.0, 50.1, {"gradient_norm_median": 0.5}),
    ("gradient norm vanishing", "last_gradient_norms", 2e-3, 1.9e-3,
     {"first_gradient_norms": 2.0}),
    ("memory grows", "growth_mb", 500.0, 501.0, {"process_mb": 2000.0, "growth_steps": 50}),
    ("memory grows", "growth_mb", 2e3, 2001.0, {"process_mb": 2e4, "growth_steps": 50}),
    ("loss not finite", "losses_not_finite", 0, 1, {}),
    ("unused GPU memory", "gpu_peak_mb", 75.0, 74.9, {"gpu_total_mb": 100.0}),
]  # fmt: skip


@pytest.mark.parametrize(("symptom", "name", "inside", "beyond", "others"), LIMITS)
def test_a_value_beyond_its_limit_is_a_finding(symptom, name, inside, beyond, others):
    assert check(symptom, **others, **{name: inside}) is None
    assert check(symptom, **others, **{name: beyond}) is not None


def test_every_rule_is_tried():
    assert {symptom for symptom, *_ in LIMITS} == {rule.name for rule in SYMPTOMS}


def loader(**values: Any) -> dict[str, Any]:
    return {"DATALOADER": values}


def train(**values: Any) -> dict[str, Any]:
    return {"TRAIN": values}


BF16 = {"TRAIN.PRECISION": "bf16-mixed"}
ON_GPU = {"gpu_total_mb": 1e3}
SLOW = {"forward_ms": 2e3}
SLOW_BACKWARD = LOW | {"step_parts": {"forward": 0.2, "backward": 0.7, "other": 0.1}}
FULL = {"system_percent": 95.0}
ROOMY = {"gpu_peak_mb": 300.0, "gpu_total_mb": 1000.0}
LOST = {"logged_steps": 9, "losses_not_finite": 2}


# Symptom, measurements, settings, and what is found: nothing, or attributes of the finding;
# evidence by its beginning, a change and an effect by some of its words.
FINDINGS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any] | None]] = [
    # Without a fifth of the time, 1 / 0.8 as many samples.
    ("waiting for data", {"data_ms": 20.0, "data_share": 0.2}, {},
     {"evidence": "20.0 ms wait for each batch, 20.0% of a step's time", "weight": 0.2,
      "effect": "at most 25% more samples a second"}),
    ("waiting for data", {"data_ms": 11, "data_share": 0.049}, {}, {"severity": "hint"}),
    ("waiting for data", {"data_ms": 11, "data_share": 0.051}, {}, {"severity": "warning"}),
    ("waiting for data", WAITS, loader(TRAIN_PREFETCH_FACTOR=8),
     {"keys": {"DATALOADER.TOTAL_WORKERS": "cpu*1.0"}}),
    ("waiting for data", WAITS, loader(TRAIN_PREFETCH_FACTOR=3, TOTAL_WORKERS="cpu*0.5"),
     {"keys": {"DATALOADER.TRAIN_PREFETCH_FACTOR": 6}}),
    ("waiting for data", WAITS,
     loader(PIN_MEMORY=False, PERSISTENT_WORKERS=False, TRAIN_WORKERS=0, TRAIN_PREFETCH_FACTOR=8),
     {"keys": {"DATALOADER.TRAIN_WORKERS": "auto"}}),
    ("waiting for data", WAITS | ON_GPU,
     loader(PIN_MEMORY=False, TOTAL_WORKERS=3, TRAIN_PREFETCH_FACTOR=8),
     {"keys": {"DATALOADER.TOTAL_WORKERS": "auto", "DATALOADER.PIN_MEMORY": True}}),
    # Half precision and compilation are for GPUs.
    ("slow forward pass", SLOW | ON_GPU, train(PRECISION="32"),
     {"keys": BF16 | {"TRAIN.COMPILE_MODEL": True}}),
    ("slow forward pass", SLOW | ON_GPU, train(PRECISION="mixed", COMPILE_MODEL=True),
     {"keys": {}}),
    ("slow forward pass", SLOW, train(PRECISION="32"), {"keys": {}}),
    ("slow forward pass",
     SLOW | {"slowest_section": ("vrt/stage8", 500.0), "step_parts": {"forward": 0.4}}, {},
     {"evidence": "2000 ms forward (limit 1500 ms); most of it in vrt/stage8, 500 ms (25%)",
      "weight": 0.4}),
    ("low throughput", {"samples_per_second": 0.25, "step_parts": {"data": 0.5, "loss": 0.3}}, {},
     {"evidence": "0.25 samples a second (limit 1); data takes 50% of a step", "weight": 0.5,
      "effect": "at most 100% more samples a second"}),
    # Misses count where a full cache makes steps wait: 0.06 x 0.8 of the time.
    ("cache misses", {"cache_hit_rate": 0.25, "data_share": 0.4}, {},
     {"evidence": "25% of the chunks were found in the cache", "weight": 0.3}),
    ("cache misses", COLD | {"data_share": 0.3}, {}, {"severity": "warning"}),
    ("cache misses", COLD, {}, {"severity": "hint"}),
    ("cache misses", COLD | {"data_share": 0.06}, {}, {"severity": "hint"}),
    ("cache misses", COLD | {"data_share": 0.009}, {}, None),
    ("cache misses", COLD | {"cache_is_full": False, "data_share": 0.3}, {}, None),
    ("cache misses", COLD | {"data_share": 0.3}, {"DATA": {"USE_RAM_CACHE": False}}, None),
    ("system memory nearly full", {"system_percent": 95.0}, {}, {"weight": 0.95}),
    ("memory grows", {"process_mb": 4e3, "growth_mb": 1e3, "growth_steps": 500}, {},
     {"keys": {}, "change": "fewer workers", "evidence":
      "1000 MB more within 500 steps, of 4000 MB at most"}),
    # From 30 to 90 percent: three times as fast.
    ("GPU idle", {"gpu_utilisation": 30.0}, {},
     {"effect": "at most 200% more samples a second", "weight": 0.7}),
    ("GPU idle", {"gpu_utilisation": 20.0}, {}, {"keys": {"TRAIN.COMPILE_MODEL": True}}),
    ("GPU idle", {"gpu_utilisation": 20.0}, train(COMPILE_MODEL=True),
     {"keys": {}, "change": "look at what the host does: LOG.PROFILE_STEPS"}),
    ("GPU idle", {"gpu_utilisation": 20.0, "data_share": 0.4}, {},
     {"keys": {}, "change": "steps wait for data: begin with that"}),
    ("loss not finite", {"logged_steps": 9, "losses_not_finite": 2, "first_not_finite": 7}, {},
     {"evidence": "2 of 9 logged losses are not finite, the first at step 7"}),
    ("loss not finite", LOST | {"precision": "16-mixed"}, {},
     {"change": "more stable arithmetic and", "effect": "finite; bf16 has the range of float32"}),
    # An explosion that clipping has met is no error.
    ("gradient norm exploding", EXPLODED, {},
     {"evidence": "largest gradient norm 60, 120 times the median 0.5", "severity": "warning"}),
    ("gradient norm exploding", EXPLODED, train(MAX_GRAD_NORM=None), {"severity": "error"}),
    ("gradient norm exploding", EXPLODED | {"losses_not_finite": 1}, {}, {"severity": "error"}),
    ("gradient norm vanishing", VANISHED, train(PRECISION="16-mixed"), {"keys": BF16}),
    ("gradient norm vanishing", VANISHED, {}, {"keys": {}}),
    # The arithmetic of the device counts, not the setting.
    *(
        ("gradient norm vanishing", VANISHED | {"precision": precision}, train(PRECISION=setting),
         {"keys": keys})
        for setting, precision, keys in (
            ("mixed", "16-mixed", BF16), ("mixed", "bf16-mixed", {}), ("mixed", None, BF16),
            ("16-mixed", "32", {}), ("16-mixed", None, BF16),
        )
    ),
    # A slow backward pass: activations to store, the gain and the needed memory.
    ("low throughput", SLOW_BACKWARD, {},
     {"change": "MODEL.VRT.USE_CHECKPOINT_FFN=false, then MODEL.VRT.USE_CHECKPOINT_ATTN=false",
      # Not timed apart (a GPU's graph): forward once more at most, a fifth of the time.
      "effect": "at most 25% more samples a second"}),
    ("low throughput", SLOW_BACKWARD | {"recomputation_share": 0.1}, {},
     {"effect": "at most 11% more samples a second"}),
    ("low throughput", SLOW_BACKWARD | {"gpu_peak_mb": 91.0, "gpu_total_mb": 100.0}, {},
     {"change": "first: set TRAIN.OPTIM.TYPE to adamw8bit", "keys": {}, "severity": "hint"}),
    ("low throughput", SLOW_BACKWARD, {"MODEL": STORED, "TRAIN": {"PRECISION": "32"}},
     {"change": "backward costs about twice forward", "keys": {}, "severity": "hint"}),
    *(
        ("low throughput", SLOW_BACKWARD | {"recomputation_share": 0.2},
         {"MODEL": {"VRT": {"USE_CHECKPOINT_ATTN": attention, "USE_CHECKPOINT_FFN": feed_forward}}},
         {"keys": {f"MODEL.VRT.USE_CHECKPOINT_{key}": False for key in proposed}})
        for attention, feed_forward, proposed in (
            (True, True, ["FFN"]), (False, True, ["FFN"]), (True, False, ["ATTN"]),
            (False, False, []),
        )
    ),
    *(
        ("low throughput", LOW | {"step_parts": {part: 0.6, "forward": 0.4}}, {},
         {"change": words, "keys": {}, "severity": "hint"})
        for part, words in {
            "loss": "loss is the largest part of a step", "data": "steps wait for data most of all",
            "optimizer": "more micro-steps to an optimiser step", "other": "LOG.PROFILE_STEPS",
        }.items()
    ),
    # A slow fusion gets larger chunks.
    *(
        ("slow forward pass", SLOW | {"slowest_section": (section, 900.0)},
         {"MODEL": {"FUSE": chunks}},
         {"keys": {f"MODEL.{key}.MAX_BATCH_TOKENS": 65536 for key in keys},
          "severity": "warning" if keys else "hint"})
        for section, chunks, keys in (
            ("vrt/fusion1", {}, ["FUSE"]), ("spike_attention/scale1", {}, ["SPIKE_TSA"]),
            ("vrt/fusion1", {"MAX_BATCH_TOKENS": 65536}, []),
            ("vrt/fusion1", {"ADAPTIVE_CHUNK": False}, []), ("vrt/stage8", {}, []),
        )
    ),
    # A cold cache becomes larger, up to half of the memory.
    *(
        ("cache misses",
         COLD | {"system_total_mb": total and total / 2**20, "system_percent": percent}, {},
         {"keys": {"DATA.CACHE_SIZE_GB": size} if size else {}})
        for total, percent, size in (
            (None, None, 8), (None, 69.9, 8), (None, 70.0, None), (1e12, None, 8),
            (12e9, None, 6.0), (8.2e9, None, None),
        )
    ),
    # Full memory takes half of the cache and of the workers.
    *(
        ("system memory nearly full", FULL, {"DATA": {"CACHE_SIZE_GB": 3.0}, **loader(**overrides)},
         {"keys": {"DATA.CACHE_SIZE_GB": 1.5, **keys, "DATALOADER.TRAIN_PREFETCH_FACTOR": 2},
          "effect": "about 1.5 GB less for the cache"})
        for overrides, keys in (
            ({"TOTAL_WORKERS": 5}, {"DATALOADER.TOTAL_WORKERS": 2}), ({"TOTAL_WORKERS": 1}, {}),
            ({"TOTAL_WORKERS": "auto"}, {"DATALOADER.TOTAL_WORKERS": "cpu*0.4"}),
            ({"TOTAL_WORKERS": "cpu*0.3"}, {}),
        )
    ),
    # If TRAIN_WORKERS is a number, TOTAL_WORKERS has no effect.
    *(
        ("system memory nearly full", FULL,
         {"DATA": no_cache, **loader(TRAIN_WORKERS=6, TRAIN_PREFETCH_FACTOR=2)},
         {"keys": {"DATALOADER.TRAIN_WORKERS": 3}})
        for no_cache in ({"USE_RAM_CACHE": False}, {"CACHE_SIZE_GB": 0})
    ),
    # A cache is proposed only to a reader that has one, and where there is memory for it.
    *(
        ("waiting for data", WAITS | {"system_percent": used}, {"DATA": data},
         {"keys": {"DATALOADER.TOTAL_WORKERS": "cpu*1.0", "DATALOADER.TRAIN_PREFETCH_FACTOR": 8}
          | dict.fromkeys(proposed, True)})
        for data, used, proposed in (
            ({"USE_RAM_CACHE": False}, 30, ["DATA.USE_RAM_CACHE"]),
            ({"USE_RAM_CACHE": False}, 70, []),
            ({"USE_PRECOMPUTED_VOXELS": False}, 30, ["DATA.USE_PRECOMPUTED_VOXELS"]),
            ({}, 30, []),
        )
    ),
    # Three more samples of 200 MB fit into 0.9 of 1000 MB: as many a step, or none is proposed.
    *(
        ("unused GPU memory", ROOMY | {"gpu_activations_mb": 600.0},
         train(BATCH_SIZE=3, GRADIENT_ACCUMULATION_STEPS=accumulation),
         {"keys": {f"TRAIN.{name}": value for name, value in keys.items()}})
        for accumulation, keys in (
            (6, {"BATCH_SIZE": 6, "GRADIENT_ACCUMULATION_STEPS": 3}),
            (2, {"BATCH_SIZE": 6, "GRADIENT_ACCUMULATION_STEPS": 1}),
            # 15 samples can be 5 x 3, 9 cannot be made of batches of 4 to 6.
            (5, {"BATCH_SIZE": 5, "GRADIENT_ACCUMULATION_STEPS": 3}), (3, {}), (1, {}),
        )
    ),
    # A tenth of 1000 MB stays in reserve; 9240 micro-steps can be shared by any batch.
    *(
        ("unused GPU memory", ROOMY | {"gpu_peak_mb": peak, "gpu_activations_mb": activations},
         train(BATCH_SIZE=batch, GRADIENT_ACCUMULATION_STEPS=9240),
         {"weight": 0.9 - peak / 1000, "keys": {} if proposed is None else {
             "TRAIN.BATCH_SIZE": proposed,
             "TRAIN.GRADIENT_ACCUMULATION_STEPS": 9240 * batch // proposed}})
        for batch, peak, activations, proposed in (
            (1, 300.0, 100.0, 7), (2, 300.0, 200.0, 8), (1, 700.0, 100.0, 3),
            # One MB short of a sample more.
            (1, 701.0, 200.0, None), (1, 701.0, 199.0, 2), (1, 300.0, None, None),
        )
    ),
    ("unused GPU memory", ROOMY, {},
     {"evidence": "peak 0.3 of 1.0 GiB, 70% never used", "change": "larger batches may fit; or"}),
    ("unused GPU memory", ROOMY | {"gpu_activations_mb": 300.0}, {},
     {"change": "batches of 3 fit by the numbers, 0.3 GiB a sample; or recompute less"}),
    # Calmer arithmetic and tighter clipping.
    *(
        (symptom, values | {"precision": precision}, train(**overrides),
         {"keys": {f"TRAIN.{name}": value for name, value in keys.items()}})
        for symptom, values in (("loss not finite", LOST), ("gradient norm exploding", EXPLODED))
        for precision, overrides, keys in (
            ("16-mixed", {"PRECISION": "mixed", "AMP_INIT_SCALE": 512.0},
             {"PRECISION": "bf16-mixed", "AMP_INIT_SCALE": 512.0, "MAX_GRAD_NORM": 0.5}),
            ("bf16-mixed", {"PRECISION": "mixed"}, {"MAX_GRAD_NORM": 0.5}),
            ("32", {"PRECISION": "16-mixed"}, {"MAX_GRAD_NORM": 0.5}),
            ("32", {"PRECISION": "32", "MAX_GRAD_NORM": 4.0}, {"MAX_GRAD_NORM": 2.0}),
            ("32", {"PRECISION": "32", "MAX_GRAD_NORM": None}, {"MAX_GRAD_NORM": 1.0}),
        )
    ),
]  # fmt: skip


def test_a_run_without_a_loss_scale_is_not_told_of_another_arithmetic():
    finding = check("loss not finite", settings(), **LOST, precision="bf16-mixed")
    assert finding.change.startswith("tighter clipping; ")
    assert finding.effect == "the loss stays finite"


@pytest.mark.parametrize(("symptom", "values", "sections", "expected"), FINDINGS)
def test_a_finding_has_evidence_change_and_weight(symptom, values, sections, expected):
    finding = check(symptom, settings(**sections), **values)
    if expected is None:
        assert finding is None
        return
    for name, value in expected.items():
        field = getattr(finding, name)
        if name == "evidence":
            assert field.startswith(value)
        elif name in ("change", "effect"):
            assert value in field
        else:
            assert field == (pytest.approx(value) if name == "weight" else value)


def test_findings_name_only_keys_of_the_task():
    other = settings().MODEL.model_copy(update={"TYPE": "another"})
    preset = settings().model_copy(update={"MODEL": other})
    slow = LOW | {"forward_ms": 1800, "step_parts": {"backward": 0.7}, "recomputation_share": 0.2}
    assert check("low throughput", preset, **slow).keys == {}
    assert "a smaller model" in check("slow forward pass", preset, **slow).change


def test_errors_come_first_then_the_largest_share():
    assert diagnose_run(RunMeasurements(), settings()) == []
    bad = measurements(
        data_ms=50, data_share=0.1, forward_ms=2000, samples_per_second=0.2,
        step_parts={"forward": 0.8}, logged_steps=5, losses_not_finite=1, first_not_finite=5,
        gpu_peak_mb=1_000, gpu_total_mb=80_000,
    )  # fmt: skip
    assert [finding.symptom for finding in diagnose_run(bad, settings())] == [
        "loss not finite", "slow forward pass", "waiting for data", "unused GPU memory",
        "low throughput",
    ]  # fmt: skip
    # A loss that is lost altogether weighs more than a single bad batch.
    both = replace(bad, speed=Speed(), memory=Memory())
    both = replace(both, health=Health(losses_not_finite=2, **EXPLODED))
    selection = diagnose_run(both, settings())
    assert [f.symptom for f in selection] == ["loss not finite", "gradient norm exploding"]
