"""Every rule's limit, weight, text and proposal, from figures on both sides of the limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vrtspike.analysis import data_rules, health_rules, memory_rules, speed_rules
from vrtspike.analysis.diagnosis import find
from vrtspike.analysis.figures import Health, Memory, RunFigures, Speed
from vrtspike.analysis.finding import Finding, Rule
from vrtspike.deblurring.settings import Settings
from vrtspike.sst.settings import SSTSettings


def settings(**sections: Any) -> Settings:
    return Settings.model_validate(sections)


def speed(**values: Any) -> RunFigures:
    return RunFigures(speed=Speed(**values))


def memory(**values: Any) -> RunFigures:
    return RunFigures(memory=Memory(**values))


def health(**values: Any) -> RunFigures:
    return RunFigures(health=Health(**values))


def parts(**shares: float) -> RunFigures:
    return speed(step_parts=shares)


LIMITS: list[tuple[Rule, RunFigures, RunFigures]] = [
    # At the limit there is no finding, a little beyond it there is one.
    (
        data_rules.data_wait,
        speed(data_ms=10.0, data_share=0.01),
        speed(data_ms=10.1, data_share=0.01),
    ),
    (
        data_rules.data_wait,
        speed(data_ms=1.0, data_share=0.05),
        speed(data_ms=1.0, data_share=0.051),
    ),
    # However long: where it is under 1 % of a step there is nothing to gain.
    (
        data_rules.data_wait,
        speed(data_ms=50.0, data_share=0.008),
        speed(data_ms=50.0, data_share=0.01),
    ),
    (
        data_rules.stalls,
        speed(stalls=1, longest_wait_ms=9e4, stalled_share=0.01),
        speed(stalls=1, longest_wait_ms=9e4, stalled_share=0.011),
    ),
    (speed_rules.slow_sync, parts(sync=0.1), parts(sync=0.11)),
    (speed_rules.slow_validation, speed(validation_share=0.2), speed(validation_share=0.21)),
    (speed_rules.slow_checkpoints, speed(checkpoint_share=0.05), speed(checkpoint_share=0.06)),
    (speed_rules.idle_gpu, memory(gpu_utilisation=50.0), memory(gpu_utilisation=49.9)),
    (speed_rules.slow_forward, speed(forward_ms=1500.0), speed(forward_ms=1500.1)),
    (speed_rules.low_throughput, speed(samples_per_second=1.0), speed(samples_per_second=0.99)),
    (data_rules.cold_cache, memory(cache_hit_rate=0.6), memory(cache_hit_rate=0.59)),
    (memory_rules.full_memory, memory(system_percent=90.0), memory(system_percent=90.1)),
    (
        health_rules.exploding_gradient,
        health(gradient_norm_median=0.5, gradient_norm_max=50.0),
        health(gradient_norm_median=0.5, gradient_norm_max=50.1),
    ),
    (
        health_rules.vanishing_gradient,
        health(first_gradient_norms=2.0, last_gradient_norms=0.002),
        health(first_gradient_norms=2.0, last_gradient_norms=0.0019),
    ),
    (
        health_rules.skipped_steps,
        health(logged_steps=100, skipped_steps=5),
        health(logged_steps=100, skipped_steps=6),
    ),
    (
        health_rules.stuck_loss,
        health(first_losses=1.0, last_losses=0.99),
        health(first_losses=1.0, last_losses=0.995),
    ),
    (
        health_rules.late_run,
        health(best_step=10, later_validations=4),
        health(best_step=10, later_validations=5),
    ),
    (
        memory_rules.growing_memory,
        memory(process_mb=2000.0, growth_mb=500.0, growth_steps=50),
        memory(process_mb=2000.0, growth_mb=501.0, growth_steps=50),
    ),
    (
        memory_rules.growing_memory,
        memory(process_mb=20_000.0, growth_mb=2000.0, growth_steps=50),
        memory(process_mb=20_000.0, growth_mb=2001.0, growth_steps=50),
    ),
    # 4 GB are half of 8e9 bytes.
    (
        memory_rules.large_cache,
        memory(system_total_mb=8e9 / 2**20),
        memory(system_total_mb=7.9e9 / 2**20),
    ),
    (
        memory_rules.full_gpu,
        memory(gpu_peak_mb=95.0, gpu_total_mb=100.0),
        memory(gpu_peak_mb=95.1, gpu_total_mb=100.0),
    ),
    (
        memory_rules.large_optimizer,
        memory(gpu_peak_mb=80.0, gpu_total_mb=100.0, gpu_optimizer_mb=16.0),
        memory(gpu_peak_mb=80.0, gpu_total_mb=100.0, gpu_optimizer_mb=16.1),
    ),
    (
        memory_rules.large_optimizer,
        memory(gpu_peak_mb=74.0, gpu_total_mb=100.0, gpu_optimizer_mb=30.0),
        memory(gpu_peak_mb=75.0, gpu_total_mb=100.0, gpu_optimizer_mb=30.0),
    ),
    (health_rules.not_finite, health(losses_not_finite=0), health(losses_not_finite=1)),
    (
        memory_rules.gpu_headroom,
        memory(gpu_peak_mb=75.0, gpu_total_mb=100.0),
        memory(gpu_peak_mb=74.9, gpu_total_mb=100.0),
    ),
]


@pytest.mark.parametrize(("rule", "inside", "beyond"), LIMITS)
def test_limits(rule, inside, beyond):
    assert rule(inside, settings()) is None
    finding = rule(beyond, settings())
    assert finding is not None
    # And the rule is one of those that are asked.
    assert finding in find(beyond, settings())


def test_waiting_weighs_its_share_and_doubles_the_queue():
    few = settings(DATALOADER={"TRAIN_PREFETCH_FACTOR": 3, "TOTAL_WORKERS": "cpu*0.5"})
    finding = data_rules.data_wait(speed(data_ms=20.0, data_share=0.2), few)
    assert finding.weight == 0.2
    assert finding.keys == {"DATALOADER.TRAIN_PREFETCH_FACTOR": 6}
    assert finding.figure.startswith("20.0 ms wait for each batch, 20.0% of a step's time")
    # Without a fifth of the time, 1 / 0.8 as many samples.
    assert "at most 25% more samples a second" in finding.effect


@pytest.mark.parametrize(
    ("accumulation", "scale", "expected"),
    [
        (6, "none", {"BATCH_SIZE": 6, "GRADIENT_ACCUMULATION_STEPS": 3}),
        (2, "none", {"BATCH_SIZE": 6, "GRADIENT_ACCUMULATION_STEPS": 1}),
        # 15 samples can be 5 x 3, 9 cannot be made of batches of 4 to 6.
        (5, "none", {"BATCH_SIZE": 5, "GRADIENT_ACCUMULATION_STEPS": 3}),
        (3, "none", {"BATCH_SIZE": 6, "SCALE_LR": "sqrt", "BASE_BATCH_SIZE": 18}),
        (1, "linear", {"BATCH_SIZE": 6}),
    ],
)
def test_an_idle_gpu_gets_larger_batches_at_the_learning_rate_for_them(
    accumulation, scale, expected
):
    train = {"GRADIENT_ACCUMULATION_STEPS": accumulation, "BATCH_SIZE": 3, "COMPILE_MODEL": True}
    figures = replace(memory(gpu_utilisation=30.0), processes=2)
    finding = speed_rules.idle_gpu(figures, settings(TRAIN={**train, "SCALE_LR": scale}))
    assert finding.keys == {f"TRAIN.{name}": value for name, value in expected.items()}
    assert finding.severity == "warning"
    assert finding.weight == pytest.approx(0.7)
    # From 30 to 90 percent: three times as fast.
    assert "at most 200% more samples a second" in finding.effect


def test_a_slow_forward_pass_weighs_its_part_of_the_step():
    figures = speed(
        forward_ms=2000.0, step_parts={"forward": 0.4, "backward": 0.6},
        slowest_section=("vrt/stage8", 500.0),
    )  # fmt: skip
    finding = speed_rules.slow_forward(figures, settings())
    assert finding.weight == 0.4
    assert finding.figure == (
        "2000 ms forward (limit 1500 ms); most of it in vrt/stage8, 500 ms (25%)"
    )


@pytest.mark.parametrize(
    ("gpu", "train", "keys"),
    [
        (True, {"PRECISION": "32"}, {"PRECISION": "bf16-mixed", "COMPILE_MODEL": True}),
        (True, {"PRECISION": "mixed", "COMPILE_MODEL": True}, {}),
        (False, {"PRECISION": "32"}, {}),
    ],
)
def test_half_precision_and_compilation_are_for_gpus(gpu, train, keys):
    figures = replace(speed(forward_ms=2000.0), memory=Memory(gpu_total_mb=1000.0 if gpu else None))
    finding = speed_rules.slow_forward(figures, settings(TRAIN=train))
    assert finding.keys == {f"TRAIN.{name}": value for name, value in keys.items()}


def test_low_throughput_names_the_largest_part():
    figures = speed(samples_per_second=0.25, step_parts={"data": 0.5, "backward": 0.3})
    finding = speed_rules.low_throughput(figures, settings())
    assert finding.weight == 0.5
    assert finding.keys == data_rules.data_wait(speed(data_ms=99, data_share=0.5), settings()).keys
    assert finding.figure == "0.25 samples a second (limit 1); data takes 50% of a step"
    assert "at most 100% more samples a second if data took no time" in finding.effect


@pytest.mark.parametrize(
    ("attention", "feed_forward", "proposed"),
    [
        (True, True, {"MODEL.VRT.USE_CHECKPOINT_FFN": False}),
        (False, True, {"MODEL.VRT.USE_CHECKPOINT_FFN": False}),
        (True, False, {"MODEL.VRT.USE_CHECKPOINT_ATTN": False}),
        (False, False, {}),
    ],
)
def test_recomputation_is_proposed_away_where_there_is_some(attention, feed_forward, proposed):
    vrt = {"USE_CHECKPOINT_ATTN": attention, "USE_CHECKPOINT_FFN": feed_forward}
    figures = speed(
        samples_per_second=0.25, step_parts={"data": 0.3, "backward": 0.5}, recomputation_share=0.2
    )
    finding = speed_rules.low_throughput(figures, settings(MODEL={"VRT": vrt}))
    assert finding.keys == proposed


@pytest.mark.parametrize(("percent", "larger"), [(None, True), (69.9, True), (70.0, False)])
def test_a_cold_cache_weighs_the_misses_share_of_the_wait(percent, larger):
    figures = replace(
        memory(cache_hit_rate=0.25, system_percent=percent), speed=Speed(data_share=0.4)
    )
    finding = data_rules.cold_cache(figures, settings(DATA={"CACHE_SIZE_GB": 3.0}))
    assert finding.weight == pytest.approx(0.3)
    assert finding.keys == ({"DATA.CACHE_SIZE_GB": 6.0} if larger else {})
    assert finding.figure.startswith("25% of the chunks were found in the cache")


@pytest.mark.parametrize(
    ("workers", "proposed"),
    [(5, 2), (1, None), ("auto", "cpu*0.4"), ("cpu*0.3", None)],
)
def test_full_memory_takes_half_of_the_cache_and_of_the_workers(workers, proposed):
    preset = settings(DATA={"CACHE_SIZE_GB": 3.0}, DATALOADER={"TOTAL_WORKERS": workers})
    finding = memory_rules.full_memory(memory(system_percent=95.0), preset)
    expected = {} if proposed is None else {"DATALOADER.TOTAL_WORKERS": proposed}
    queue = {"DATALOADER.TRAIN_PREFETCH_FACTOR": 2}
    assert finding.keys == {"DATA.CACHE_SIZE_GB": 1.5, **expected, **queue}
    assert finding.weight == 0.95
    assert finding.effect.startswith("about 1.5 GB less for the cache")


def test_full_memory_says_nothing_of_a_cache_that_is_not_used():
    for data in ({"READER": "zarr"}, {"USE_RAM_CACHE": False}, {"CACHE_SIZE_GB": 0}):
        preset = settings(DATA=data, DATALOADER={"TRAIN_WORKERS": 6, "TRAIN_PREFETCH_FACTOR": 2})
        finding = memory_rules.full_memory(memory(system_percent=95.0), preset)
        # Where TRAIN_WORKERS is a number, TOTAL_WORKERS decides nothing.
        assert finding.keys == {"DATALOADER.TRAIN_WORKERS": 3}
        assert "cache" not in finding.effect
        large = memory_rules.large_cache(memory(system_total_mb=1000.0), preset)
        assert large is None


@pytest.mark.parametrize(
    ("data", "used", "proposed"),
    [
        ({"READER": "zarr"}, 30, {"DATA.READER": "tensorstore"}),
        ({"READER": "zarr", "USE_RAM_CACHE": False}, 30, {"DATA.READER": "tensorstore"}),
        ({"USE_RAM_CACHE": False}, 30, {"DATA.USE_RAM_CACHE": True}),
        ({"USE_RAM_CACHE": False}, 70, {}),
        ({"USE_PRECOMPUTED_VOXELS": False}, 30, {"DATA.USE_PRECOMPUTED_VOXELS": True}),
        ({}, 30, {}),
    ],
)
def test_waiting_proposes_a_cache_only_to_a_reader_that_has_one(data, used, proposed):
    figures = replace(speed(data_ms=99, data_share=0.5), memory=Memory(system_percent=used))
    finding = data_rules.data_wait(figures, settings(DATA=data))
    assert {k: v for k, v in finding.keys.items() if k.startswith("DATA.")} == proposed


def test_waiting_switches_on_what_is_off():
    loader = {"PIN_MEMORY": False, "PERSISTENT_WORKERS": False, "TRAIN_WORKERS": 0}
    preset = settings(DATALOADER={**loader, "TRAIN_PREFETCH_FACTOR": 8})
    waits = speed(data_ms=99, data_share=0.5)
    expected = {"DATALOADER.TRAIN_WORKERS": "auto", "DATALOADER.PERSISTENT_WORKERS": True}
    assert data_rules.data_wait(waits, preset).keys == expected
    on_gpu = replace(waits, memory=Memory(gpu_total_mb=1000.0))
    expected["DATALOADER.PIN_MEMORY"] = True
    assert data_rules.data_wait(on_gpu, preset).keys == expected


@pytest.mark.parametrize(
    ("share", "severity"), [(0.049, "hint"), (0.051, "warning"), (0.5, "warning")]
)
def test_severity_follows_what_is_to_gain(share, severity):
    assert (
        data_rules.data_wait(speed(data_ms=11, data_share=share), settings()).severity == severity
    )
    stalled = speed(stalls=2, longest_wait_ms=1e4, stalled_share=share)
    assert data_rules.stalls(stalled, settings()).severity == severity


def test_what_is_halved_gains_half():
    finding = speed_rules.slow_validation(speed(validation_share=0.5), settings())
    assert finding.severity == "warning"
    assert finding.keys == {"LOG.VAL_EVERY_STEPS": 2000}
    # A quarter less.
    assert finding.effect == "about 33% more samples a second"
    assert finding.figure.startswith("50% of the run's time (limit 20%), every 1000 steps")
    few = speed_rules.slow_checkpoints(speed(checkpoint_share=0.06), settings())
    assert (few.severity, few.keys) == ("hint", {"TRAIN.SAVE_EVERY_STEPS": 1000})


def test_cache_misses_count_where_a_full_cache_makes_steps_wait():
    def found(share: float | None = 0.3, *, full: bool | None = True, **data: Any) -> Any:
        figures = replace(
            memory(cache_hit_rate=0.2, cache_is_full=full), speed=Speed(data_share=share)
        )
        return data_rules.cold_cache(figures, settings(DATA=data))

    assert found().severity == "warning"
    assert found(None).severity == "hint"
    assert found(0.06).severity == "hint"  # 0.06 x 0.8 of the time
    assert found(0.009) is None
    assert found(full=False) is None
    assert found(READER="zarr") is None
    assert found(USE_RAM_CACHE=False) is None


@pytest.mark.parametrize(("total", "size"), [(None, 8), (1e12, 8), (12e9, 6.0), (8.2e9, None)])
def test_a_cache_takes_no_more_than_half_of_the_memory(total, size):
    total_mb = None if total is None else total / 2**20
    figures = replace(
        memory(cache_hit_rate=0.2, system_total_mb=total_mb), speed=Speed(data_share=0.3)
    )
    keys = data_rules.cold_cache(figures, settings()).keys
    assert keys == ({} if size is None else {"DATA.CACHE_SIZE_GB": size})


def test_an_idle_gpu_that_waits_for_data_is_told_to_begin_with_that():
    idle = replace(memory(gpu_utilisation=20.0), speed=Speed(data_share=0.4))
    finding = speed_rules.idle_gpu(idle, settings())
    assert (finding.keys, finding.change) == ({}, "steps wait for data: begin with that")


def test_an_idle_gpu_without_room_gets_no_larger_batches():
    full = memory(
        gpu_utilisation=20.0, gpu_peak_mb=600.0, gpu_total_mb=1000.0, gpu_activations_mb=301.0
    )
    assert speed_rules.idle_gpu(full, settings()).keys == {"TRAIN.COMPILE_MODEL": True}
    room = memory(
        gpu_utilisation=20.0, gpu_peak_mb=600.0, gpu_total_mb=1000.0, gpu_activations_mb=300.0
    )
    assert speed_rules.idle_gpu(room, settings()).keys["TRAIN.BATCH_SIZE"] == 2


def backward(share: float = 0.7, **values: Any) -> Speed:
    shares = {"forward": 0.9 - share, "backward": share, "other": 0.1}
    return Speed(samples_per_second=0.5, step_parts=shares, **values)


def test_begin_with_backward_says_how():
    finding = speed_rules.low_throughput(RunFigures(backward()), settings())
    assert finding.keys == {"MODEL.VRT.USE_CHECKPOINT_FFN": False}
    order = "MODEL.VRT.USE_CHECKPOINT_FFN=false, then MODEL.VRT.USE_CHECKPOINT_ATTN=false"
    assert order in finding.change
    # Not timed apart (a GPU's graph): forward once more at most, a fifth of the time.
    assert "at most 25% more samples a second" in finding.effect
    timed = speed_rules.low_throughput(RunFigures(backward(recomputation_share=0.1)), settings())
    assert "at most 11% more samples a second" in timed.effect
    tight = RunFigures(backward(), memory=Memory(gpu_peak_mb=91.0, gpu_total_mb=100.0))
    finding = speed_rules.low_throughput(tight, settings())
    assert (finding.keys, finding.severity) == ({}, "hint")
    assert "TRAIN.OPTIM.TYPE=adamw8bit" in finding.change


def test_backward_without_recomputation_is_no_more_than_a_hint_on_a_cpu():
    vrt = {"USE_CHECKPOINT_ATTN": False, "USE_CHECKPOINT_FFN": False}
    preset = settings(MODEL={"VRT": vrt}, TRAIN={"PRECISION": "32"})
    finding = speed_rules.low_throughput(RunFigures(backward()), preset)
    assert (finding.severity, finding.keys) == ("hint", {})
    assert "backward costs about twice forward" in finding.change
    assert "MODEL.VRT_DEPTHS" in finding.change
    on_gpu = RunFigures(backward(), memory=Memory(gpu_total_mb=100.0))
    finding = speed_rules.low_throughput(on_gpu, preset)
    assert finding.severity == "warning"
    assert finding.keys == {"TRAIN.PRECISION": "bf16-mixed", "TRAIN.COMPILE_MODEL": True}


def test_what_is_done_once_a_step_is_not_saved_by_smaller_batches():
    """Half the batch in twice the micro-steps exchanges and updates as often for each sample."""
    slow = RunFigures(
        speed=Speed(samples_per_second=0.5, step_parts={"optimizer": 0.6, "sync": 0.3})
    )
    for rule in (speed_rules.slow_sync, speed_rules.low_throughput):
        finding = rule(slow, Settings())
        assert "larger batch for which TRAIN.SCALE_LR has a rate" in finding.change
        assert "TRAIN.BATCH_SIZE" not in finding.change


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("loss", "the terms of the loss"),
        ("sync", "exchanging gradients"),
        ("optimizer", "more micro-steps to an optimiser step"),
        ("other", "LOG.PROFILE_STEPS"),
    ],
)
def test_every_part_of_a_step_is_advised_on(part, words):
    finding = speed_rules.low_throughput(
        speed(samples_per_second=0.5, step_parts={part: 0.6, "forward": 0.4}), settings()
    )
    assert words in finding.change
    assert (finding.severity, finding.keys) == ("hint", {})


@pytest.mark.parametrize(
    ("section", "chunks", "proposed"),
    [
        ("vrt/fusion1", {}, {"MODEL.FUSE.MAX_BATCH_TOKENS": 65536}),
        ("spike_attention/scale1", {}, {"MODEL.SPIKE_TSA.MAX_BATCH_TOKENS": 65536}),
        ("vrt/fusion1", {"MAX_BATCH_TOKENS": 65536}, {}),
        ("vrt/fusion1", {"ADAPTIVE_CHUNK": False}, {}),
        ("vrt/stage8", {}, {}),
    ],
)
def test_a_slow_fusion_gets_larger_chunks(section, chunks, proposed):
    figures = speed(forward_ms=2000.0, slowest_section=(section, 900.0))
    finding = speed_rules.slow_forward(figures, settings(MODEL={"FUSE": chunks}))
    assert finding.keys == proposed
    assert finding.severity == ("warning" if proposed else "hint")


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        ({"VGG_PERCEPTUAL": {"WEIGHT": 0.1, "EVERY": 3}}, {"LOSS.VGG_PERCEPTUAL.EVERY": 6}),
        ({"LPIPS": {"WEIGHT": 0.1}}, {}),
        ({}, None),
    ],
)
def test_a_slow_loss_is_that_of_a_network(loss, found):
    assert speed_rules.slow_loss(parts(loss=0.1), settings(LOSS=loss)) is None
    finding = speed_rules.slow_loss(parts(loss=0.11), settings(LOSS=loss))
    assert (finding and finding.keys) == found


def test_what_a_gpu_is_not_used_for():
    gpu = RunFigures(Speed(forward_ms=1500.0), memory=Memory(gpu_total_mb=100.0))
    single, exact = settings(TRAIN={"PRECISION": "32"}), settings(DETERMINISTIC=True)
    assert speed_rules.single_precision(gpu, single).keys == {"TRAIN.PRECISION": "bf16-mixed"}
    assert speed_rules.single_precision(gpu, settings()) is None
    assert speed_rules.deterministic(gpu, exact).keys == {"DETERMINISTIC": False}
    assert speed_rules.deterministic(gpu, settings()) is None
    for rule, preset in (
        (speed_rules.single_precision, single),
        (speed_rules.deterministic, exact),
    ):
        assert rule(RunFigures(), preset) is None
    # A slow forward pass proposes it itself.
    slow = replace(gpu, speed=Speed(forward_ms=1501.0))
    assert speed_rules.single_precision(slow, single) is None


def test_a_stalling_loader_keeps_its_workers():
    stalled = speed(stalls=2, longest_wait_ms=95_000.0, stalled_share=0.2)
    leaving = settings(DATALOADER={"PERSISTENT_WORKERS": False})
    finding = data_rules.stalls(stalled, leaving)
    assert finding.keys == {"DATALOADER.PERSISTENT_WORKERS": True}
    assert finding.figure == (
        "2 steps waited for data longer than 10 usual steps take, up to 95.0 s, 20.0% of all "
        "steps' time"
    )
    staying = data_rules.stalls(stalled, settings())
    assert staying.keys == {}
    assert "local disk" in staying.change


def test_growing_memory_tells_when_the_machine_is_full():
    figures = memory(
        process_mb=4000.0, growth_mb=1000.0, growth_steps=500, system_percent=80.0,
        system_total_mb=10_000.0,
    )  # fmt: skip
    finding = memory_rules.growing_memory(figures, settings())
    assert finding.keys == {"DATALOADER.PERSISTENT_WORKERS": False}
    # 2000 MB are free, twice as much as in 500 steps.
    assert finding.figure.endswith("at this pace the machine is full after 1,000 more")


def test_a_full_gpu_is_told_of_what_its_problem_has():
    full = memory(gpu_peak_mb=99.0, gpu_total_mb=100.0)
    small = {"TRAIN": {"BATCH_SIZE": 1, "OPTIM": {"TYPE": "adamw8bit"}}}
    video, sea = (kind.model_validate(small) for kind in (Settings, SSTSettings))
    assert memory_rules.full_gpu(full, video).change.startswith(
        "recomputation (MODEL.VRT.USE_CHECKPOINT_ATTN, USE_CHECKPOINT_FFN), smaller crops, if"
    )
    assert memory_rules.full_gpu(full, sea).change.startswith("a smaller model, if")
    free = memory(gpu_peak_mb=1.0, gpu_total_mb=100.0)
    found = [memory_rules.gpu_headroom(free, each).change for each in (video, sea)]
    assert ["crops" in change for change in found] == [True, False]


def test_a_full_gpu_halves_even_batches():
    full = memory(gpu_peak_mb=99.0, gpu_total_mb=100.0)
    even = settings(TRAIN={"BATCH_SIZE": 4, "GRADIENT_ACCUMULATION_STEPS": 3})
    assert memory_rules.full_gpu(full, even).keys == {
        "TRAIN.BATCH_SIZE": 2,
        "TRAIN.GRADIENT_ACCUMULATION_STEPS": 6,
    }
    assert memory_rules.full_gpu(full, settings()).keys == {"TRAIN.OPTIM.TYPE": "adamw8bit"}
    small = settings(TRAIN={"OPTIM": {"TYPE": "adamw8bit"}})
    assert memory_rules.full_gpu(full, small).keys == {}
    assert memory_rules.large_optimizer(
        replace(full, memory=replace(full.memory, gpu_optimizer_mb=50.0)), small
    ) is None  # fmt: skip


def test_moments_of_8_bits_free_three_quarters():
    figures = memory(gpu_peak_mb=30_720.0, gpu_total_mb=40_960.0, gpu_optimizer_mb=12_288.0)
    finding = memory_rules.large_optimizer(figures, settings())
    assert finding.figure.startswith(
        "the optimiser's state is 12.0 GiB of 30.0 GiB at the peak, 40%"
    )
    assert finding.effect == "about 9.0 GiB are free"
    assert "MODEL.VRT.USE_CHECKPOINT_FFN=false" in finding.change


def test_a_vanishing_gradient_proposes_bf16_where_there_is_a_loss_scale():
    gone = health(first_gradient_norms=1.0, last_gradient_norms=0.0)
    half = settings(TRAIN={"PRECISION": "16-mixed"})
    assert health_rules.vanishing_gradient(gone, half).keys == {"TRAIN.PRECISION": "bf16-mixed"}
    assert health_rules.vanishing_gradient(gone, settings()).keys == {}


def test_a_loss_of_trained_weights_need_not_fall():
    stuck = health(first_losses=1.0, last_losses=1.0)
    finding = health_rules.stuck_loss(stuck, settings())
    assert (finding.severity, finding.keys) == ("warning", {"TRAIN.OPTIM.LR": 1e-4})
    tuned = settings(MODEL={"VRT": {"PRETRAINED": "vrt.pth"}})
    finding = health_rules.stuck_loss(stuck, tuned)
    assert (finding.severity, finding.keys) == ("hint", {})


def test_spikes_are_looked_at_where_there_are_some():
    stuck = health(first_losses=1.0, last_losses=1.0)
    plain = settings(MODEL={"USE_SPIKE": False})
    found = [health_rules.stuck_loss(stuck, each) for each in (settings(), plain, SSTSettings())]
    assert ["spikes" in finding.change for finding in found] == [True, False, False]


def test_early_stopping_is_proposed_to_runs_without():
    late = health(best_step=2000, later_validations=9)
    finding = health_rules.late_run(late, settings())
    assert finding.severity == "hint"
    assert finding.figure.startswith("the best validation was after step 2000; none of the 9 later")
    assert finding.keys["TRAIN.EARLY_STOPPING"]["PATIENCE"] == 5
    stopping = settings(TRAIN={"EARLY_STOPPING": {"PATIENCE": 20}})
    assert health_rules.late_run(late, stopping) is None


def test_an_explosion_that_clipping_has_met_is_no_error():
    steep = health(gradient_norm_median=0.5, gradient_norm_max=60.0)
    assert health_rules.exploding_gradient(steep, settings()).severity == "warning"
    bare = settings(TRAIN={"MAX_GRAD_NORM": None})
    assert health_rules.exploding_gradient(steep, bare).severity == "error"
    lost = RunFigures(health=replace(steep.health, losses_not_finite=1))
    assert health_rules.exploding_gradient(lost, settings()).severity == "error"


@pytest.mark.parametrize(
    ("batch", "peak", "activations", "proposed"),
    [
        # 0.9 of 1000 MB may be used, a sample takes 100 MB.
        (1, 300.0, 100.0, 7),
        (2, 300.0, 200.0, 8),
        (1, 700.0, 100.0, 3),
        # One MB short of a sample more.
        (1, 701.0, 200.0, None),
        (1, 701.0, 199.0, 2),
        (1, 300.0, None, None),
    ],
)
def test_a_tenth_of_the_gpu_stays_in_reserve(batch, peak, activations, proposed):
    figures = memory(gpu_peak_mb=peak, gpu_total_mb=1000.0, gpu_activations_mb=activations)
    # 9240 micro-steps can be shared by any batch.
    train = {"BATCH_SIZE": batch, "GRADIENT_ACCUMULATION_STEPS": 9240}
    finding = memory_rules.gpu_headroom(figures, settings(TRAIN=train))
    assert finding.keys.get("TRAIN.BATCH_SIZE") == proposed
    steps = finding.keys.get("TRAIN.GRADIENT_ACCUMULATION_STEPS")
    assert steps == (None if proposed is None else 9240 * batch // proposed)
    assert finding.weight == pytest.approx(0.9 - peak / 1000)
    assert finding.figure.endswith(f"{1 - peak / 1000:.0%} never used")


@pytest.mark.parametrize(
    ("train", "expected"),
    [
        (
            {"PRECISION": "mixed", "AMP_INIT_SCALE": 512.0},
            {"PRECISION": "bf16-mixed", "AMP_INIT_SCALE": 512.0, "MAX_GRAD_NORM": 0.5},
        ),
        ({"PRECISION": "32", "MAX_GRAD_NORM": 4.0}, {"MAX_GRAD_NORM": 2.0}),
        ({"PRECISION": "32", "MAX_GRAD_NORM": None}, {"MAX_GRAD_NORM": 1.0}),
    ],
)
def test_calmer_arithmetic(train, expected):
    preset = settings(TRAIN=train)
    keys = {f"TRAIN.{name}": value for name, value in expected.items()}
    lost = health(logged_steps=9, losses_not_finite=2, first_not_finite=7)
    finding = health_rules.not_finite(lost, preset)
    assert finding.keys == keys
    assert finding.figure == "2 of 9 logged losses are not finite, the first at step 7"
    steep = health(gradient_norm_median=0.5, gradient_norm_max=60.0)
    finding = health_rules.exploding_gradient(steep, preset)
    assert finding.keys == keys
    assert finding.figure.startswith("largest gradient norm 60, 120 times the median 0.5")
    # What is lost altogether weighs more than a single bad batch.
    both = RunFigures(health=replace(lost.health, gradient_norm_median=1, gradient_norm_max=200))
    found: list[Finding] = find(both, preset)
    assert [f.symptom for f in found] == ["loss not finite", "gradient norm exploding"]
