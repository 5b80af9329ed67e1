"""`vrtspike advise`: fitting presets, reasons against the others, recommendation."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from tests.data.raw.published import PUBLISHED
from vrtspike.config.workflow_loading import load_project_config, load_workflow_config
from vrtspike.data.data_size import measure_data
from vrtspike.data.data_source import DataSource
from vrtspike.data.simulation.demo import SCENES, render
from vrtspike.data.simulation.sequence import write_sequence
from vrtspike.deblurring.advice import hardware, recommendation
from vrtspike.deblurring.advice.hardware import (
    Machine,
    MachineGpus,
    measure_speed,
    named_gpu,
    speed_of_gpu,
)
from vrtspike.deblurring.advice.recommendation import (
    BUNDLED_DATA,
    COMPARISONS,
    PREFERRED,
    advise_on_machine,
)
from vrtspike.deblurring.planning.deblurring_config import DeblurringConfig
from vrtspike.deblurring.training_cost import counted_costs
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.sst.task import memory
from vrtspike.system.errors import UserError

GB = 10**9


@pytest.fixture
def project(repository, tmp_path, monkeypatch):
    """The project's configuration in a folder without data, on a disk with 100 GB."""
    shutil.copytree(repository / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(recommendation, "free_bytes", lambda path: 100 * GB)
    # The speed of two cores.
    monkeypatch.setattr(hardware, "measure_peak", lambda device, dtype: 0.15e12)
    return tmp_path


def advise_for(name, count=1, memory=64.0, cpus=16, hours=336.0, **configuration):
    workflow = load_workflow_config(["config/config.yaml"], configuration)
    gpu = named_gpu(name, count) if isinstance(name, str) else name
    return advise_on_machine(workflow, Machine(cpus, memory, gpu, *measure_speed(gpu)), hours)


def fits(advice):
    return {fit.name: fit for fit in advice.fits}


def symptoms(fit):
    return [reason.symptom for reason in fit.reasons]


def cures(advice):
    """The cures for presets that do not fit, from the text."""
    _, _, after = "\n".join(advice.lines).partition("where a preset does not fit:\n")
    return re.findall(r"^  (.+)$", after.partition("\n\n")[0], re.MULTILINE)


TINY = MachineGpus("A100", 1, 0.8)
SMALL = MachineGpus("4090", 1, 16.0)
HALVES = 'SET="TRAIN.BATCH_SIZE=15 TRAIN.GRADIENT_ACCUMULATION_STEPS=2"'


@pytest.mark.parametrize(
    ("machine", "command", "preset", "reason"),
    [
        (["H200"], "train_light", "reproduce", "MODEL.VRT.PRETRAINED: weights/006_VRT"),
        (["4090"], "train_light", "light", ""),
        ([SMALL], f"train_light --config {HALVES}", "light", "of 16 GiB of GPU memory"),
        ([TINY], "train_light_small", "light", "of 1 GiB of GPU memory"),
        ([None, 0, 64.0, 2], "train_light_small", "light", "takes more than 336 hours"),
        # With enough time a CPU may train.
        ([None, 0, 64.0, 2, 1e6], "train_light", "light", ""),
        # 4 GB (3.73 GiB) of cache, 3 GiB for CUDA, and 0.15 for each of 12 + 6 workers.
        (["A100", 1, 6.0], "snakemake --cores all demo", "baseline", "needs 9 of 6 GiB of memory"),
        (["A100", 1, 64.0, 16, 20], "train_light", "baseline", "takes more than 20 hours"),
        (["A100", 1, 64.0, 16, 0], None, "baseline", "takes more than 0 hours"),
    ],
)
def test_the_best_preset_that_fits_is_recommended(project, machine, command, preset, reason):
    advised = advise_for(*machine)
    assert (advised.command or "nothing").endswith(command or "nothing")
    faults = "; ".join(symptoms(fits(advised)[preset]))
    assert reason in faults
    assert bool(reason) == bool(faults)


def test_smaller_micro_batches_must_fit_the_hours_too(project):
    """On this card the light model needs smaller micro-batches, whose launches take longer."""
    hours = fits(advise_for(SMALL))["light"].hours
    assert "train_light_small" in advise_for(SMALL, hours=1.001 * hours).command


def test_presets_for_comparisons_are_listed_and_never_recommended(project):
    presets = project / "config/presets"
    for path in presets.glob("*.yaml"):
        if path.stem not in COMPARISONS and path.stem != "light":
            path.unlink()
    (presets / "light.yaml").write_text("BASE: baseline\nMODEL: {WINDOW_SIZE: 5}\n")
    advised = advise_for("H200")
    assert advised.command is None
    assert "fast" in fits(advised)
    assert advised.lines[-1].startswith("nothing to recommend: what fits is not for a first model")
    # One of the user's own, though.
    (presets / "mine.yaml").write_text("BASE: baseline\n")
    assert advise_for("H200").command == "snakemake --cores 16 train_mine"


def test_every_preset_of_the_deblurring_has_a_purpose(project):
    workflow = DeblurringConfig(load_workflow_config(["config/config.yaml"], {}))
    named = {*PREFERRED, *COMPARISONS}
    for name in workflow.presets:
        assert (name in named) != (workflow.data_source(name).kind in BUNDLED_DATA), name
    assert named <= workflow.presets.keys()


def test_memory_and_hours_are_counted(project):
    one, three = (fits(advise_for("A6000", number))["baseline"] for number in (1, 3))
    assert one.memory_gib == pytest.approx(4e9 / 2**30 + 5.7)
    assert one.hours / three.hours == pytest.approx(3 * 0.9, rel=5e-3)
    # 73,236 micro-steps of one clip (two of 22 sequences are held out), with the 1.008 TB/s and 165
    # TFLOP/s of the data sheet.
    row = counted_costs()["presets"]["baseline"]
    step = speed_of_gpu(1.008, 165.0).seconds(row["operations"], row["moved_tb"], row["run_tflop"])
    expected = 73_236 * step / 3600
    assert fits(advise_for("4090"))["baseline"].hours == pytest.approx(expected)
    clip = counted_costs()["presets"]["demo"]["run_tflop"]
    on_cpus = fits(advise_for(None, cpus=2))["demo"].hours
    assert on_cpus == pytest.approx(120 * clip / (0.48 * 0.15) / 3600)


def test_the_state_of_a_training_is_in_float32_on_a_cpu_too(project):
    """The bytes of the moving average are counted once; those of clips are doubled elsewhere."""
    preset = project / "config/presets/light.yaml"
    text = preset.read_text()
    memory_gib = {}
    for rate in ("0.999", "0"):
        preset.write_text(text.replace("EMA: 0.999", f"EMA: {rate}"))
        memory_gib[rate] = fits(advise_for(None))["light"].memory_gib
    parameters = counted_costs()["presets"]["light"]["parameters"]
    assert memory_gib["0.999"] - memory_gib["0"] == pytest.approx(4 * parameters / 2**30)


def test_presets_that_need_more_disk_than_is_free_do_not_fit(project, monkeypatch):
    monkeypatch.setattr(recommendation, "free_bytes", lambda path: 30 * GB)
    # 29.3 GB of stores and four checkpoints of 0.29 GB.
    advised = advise_for("A100")
    assert symptoms(fits(advised)["baseline"]) == ["needs 30 GB of disk, 30 are free"]
    assert advised.command == "snakemake --cores 16 train_light_small"
    # Stores of its own bins that are there already need no more space; others help nothing.
    for bins, is_full in ((4, True), (32, False)):
        store = project / f"results/data/gopro_spike/k{bins}/shards/a.zarr"
        store.parent.mkdir(parents=True)
        with store.open("wb") as stream:
            stream.truncate(2 * GB)
        advised = advise_for("A100")
        assert bool(fits(advised)["baseline"].reasons) is is_full
        existing = 0.0 if is_full else 2.0
        line = f"stores of 32 bins need 29.3 GB, {existing:.1f} GB are there"
        assert line in map(str.strip, advised.lines)


def test_context_of_exposures_takes_disk(project, monkeypatch):
    root = project / "mine"
    PUBLISHED["one stream"].write(root)
    keys = {"ROOT": str(root), "LAYOUT": "auto"}
    cost = fits(advise_for("A100", DATA=keys))["baseline"].cost
    dataset = DataSource(
        name="mine",
        root=str(root),
        train_split="train",
        test_split="test",
        spike_size=None,
        on_error="stop",
        kind="raw",
    )
    stores = measure_data(dataset).store_bytes(StoreOptions(bins=32))
    free = stores + cost.checkpoint_gib(kept=3) * 2**30
    monkeypatch.setattr(recommendation, "free_bytes", lambda path: free)
    for context, is_full in ((0, False), (10, True)):
        fit = fits(advise_for("A100", DATA={**keys, "CONTEXT_STEPS": context}))["baseline"]
        assert any("of disk" in symptom for symptom in symptoms(fit)) is is_full


def test_a_small_data_set_leads_to_the_small_preset(project):
    """Frames smaller than the crops of most presets, and clips for few steps."""
    root = project / "mine"
    for number in range(3):
        frames = list(render(SCENES[number], np.random.default_rng(number), 128, 192, 6 * 11 + 1))
        write_sequence(root / f"train/scene{number}", frames, frames_per_exposure=11)
    write_sequence(root / "test/scene3", frames, frames_per_exposure=11)
    advised = advise_for("A100", DATA={"ROOT": str(root)})
    assert advised.command == "snakemake --cores 16 train_light_small"
    small = fits(advised)
    assert symptoms(small["light"]) == [
        "its crops of 256 x 256 do not fit into frames of 128 x 192"
    ]
    # Two of three sequences are trained on, each with two clips of five frames: 40 epochs of four
    # clips, twelve in a step.
    assert small["low_memory"].cost.steps == 40 * 4 // 12
    assert symptoms(small["low_memory"]) == [
        "its crops of 256 x 256 do not fit into frames of 128 x 192",
        "makes 13 steps of these clips, fewer than 1,000",
    ]
    assert small["light_small"].cost.steps == 6000
    assert not small["light_small"].reasons
    assert not small["demo"].reasons, "it is made for 120 steps"


def test_the_text_lists_machine_disk_costs_and_the_command(project):
    advised = advise_for("A6000", 3)
    lines = advised.lines
    assert lines[0] == "machine: 3 x A6000 with 48 GiB, 16 CPUs, 64 GiB of memory"
    assert lines[2] == "disk:    100 GB free for results"
    assert "gopro_spike: data/gopro_spike is not there; the numbers are those of GoPro" in lines[3]
    assert lines[5].strip() == "stores of 32 bins need 29.3 GB, 0.0 GB are there"
    (row,) = [line for line in lines if line.startswith("baseline")]
    fit = fits(advised)["baseline"]
    gpu = re.escape(f"{fit.cost.gpu_gib:.1f}")
    hours = re.escape(f"{fit.hours:.2f}")
    assert re.fullmatch(rf"baseline +{gpu} GiB +\S+ GiB +4,066 +{hours} +yes", row)
    assert lines[-2] == "recommended: snakemake --cores 16 train_light"
    assert lines[-1] == "because it fits; its data are missing, set DATA.ROOT first"
    assert advise_for("A100", hours=0).lines[-1] == "nothing to recommend: no preset fits"


def test_smaller_micro_batches_are_named_for_a_card_that_is_too_small(project):
    advised = advise_for(SMALL)
    needed = fits(advised)["light"].cost.gpu_gib
    assert symptoms(fits(advised)["light"]) == [f"needs {needed:.0f} of 16 GiB of GPU memory"]
    batch = "TRAIN.BATCH_SIZE=15 TRAIN.GRADIENT_ACCUMULATION_STEPS=2, 30 samples a step as before"
    assert re.search(rf"^  light +\d\d fit: {batch}$", "\n".join(advised.lines), re.MULTILINE)
    assert "with these micro-batches; repeat --config" in advised.lines[-1]


def test_each_cure_is_shown_once(project):
    advised = advise_for("A6000", hours=50)
    against = {name: symptoms(fit) for name, fit in fits(advised).items() if fit.reasons}
    long = "takes more than 50 hours"
    assert against["low_memory"] == against["opt"] == [long]
    assert against["fast"] == [
        f"needs {fits(advised)['fast'].cost.gpu_gib:.0f} of 48 GiB of GPU memory",
        long,
    ]
    assert [cure.partition(":")[0] for cure in cures(advised)] == ["hours", "GPU memory", "weights"]
    for path in (project / "config/presets").glob("*.yaml"):
        if path.stem not in {"baseline", "light", "demo"}:
            path.unlink()
    assert not cures(advise_for("A6000"))


def test_a_users_own_presets(project):
    presets = project / "config/presets"
    (presets / "mine.yaml").write_text("BASE: baseline\nDATA: {USE_RAM_CACHE: false}\n")
    (presets / "odd.yaml").write_text("BASE: fast\nMODEL: {WINDOW_SIZE: 5}\n")
    (presets / "wrong.yaml").write_text("TRAIN: {EPOCH: 3}\n")
    start = "MODEL: {PRETRAINED: general}\nTRAIN: {MAX_STEPS: 0}\n"
    (presets / "kept.yaml").write_text(f"BASE: baseline\n{start}")
    (presets / "kept_sst.yaml").write_text(f"BASE: sst\n{start}")
    advised = advise_for("A6000")
    presets_by_name = fits(advised)
    assert not presets_by_name["mine"].reasons
    # 3 GiB for CUDA, and 0.15 for each of 12 + 6 workers.
    assert presets_by_name["mine"].memory_gib == pytest.approx(5.7)
    assert symptoms(presets_by_name["wrong"]) == ["its file is wrong"]
    text = "\n".join(advised.lines)
    assert "kept" not in text, "it trains nothing"
    assert re.search(
        r"^odd( +–){4} +no: the cost of its model has not been counted$", text, re.MULTILINE
    )
    assert {"cost", "file"} <= {cure.partition(":")[0] for cure in cures(advised)}


def test_a_folder_without_configuration_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"no config/config\.yaml here; go to the project"):
        load_project_config([], [])


def test_presets_of_another_task_alone(project):
    for path in (project / "config/presets").glob("*.yaml"):
        if not path.name.startswith("sst"):
            path.unlink()
    advised = advise_for("A6000", PRESETS="sst")
    assert advised.command == "snakemake --cores 16 train_sst"
    text = "\n".join(advised.lines)
    assert not re.search("clip|frames|no preset fits|preset  ", text), text
    assert "samples of a micro-step, and the learning rate" in text
    # The usable GPU memory beyond the fixed part, divided by that of a sample.
    fixed, sample = memory(
        load_workflow_config(["config/config.yaml"], {"PRESETS": "sst"}).settings_of("sst")
    )
    assert f"  sst            {int((0.9 * 48 - fixed) / sample)} fit: TRAIN." in text
