from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import default_collate

import vrtspike.sst
from tests.sst.conftest import PACIFIC
from vrtspike.config.documents import nested
from vrtspike.errors import ConfigError, RunError
from vrtspike.sst import Area, BaseTrainer, ERA5SSTMonthlyDataset, RecursiveAttentionTransformer
from vrtspike.sst.base_trainer import (
    CLIPPING,
    OTHER_NAMES,
    PARAMETERS,
    preset_values,
    read_model,
)
from vrtspike.sst.dataset import SSTTask
from vrtspike.sst.generate import Globe, write_example

TINY = {
    **{"width": 20, "height": 10, "seq_len": 2, "d_model": 16, "num_heads": 2, "num_layers": 1},
    **{"dim_feedforward": 16, "dropout": 0.0, "recursion_depth": 1, "patch_size": 5},
}
FAST = {"epochs": 2, "batch_size": 20, "num_workers": 0}


def trainer(store: Any, folder: Path, **changes: Any) -> BaseTrainer:
    given: dict[str, Any] = {
        "title": "tiny",
        "area": PACIFIC,
        "uid": "one",
        "model_class": RecursiveAttentionTransformer,
        "dataset_class": ERA5SSTMonthlyDataset,
        "save_path": folder / "model.pkl",
        "pre_model": False,
        "dataset_params": {"seq_len": 2, "store": store.path},
        "trainer_params": FAST,
        "model_params": TINY,
    }
    return BaseTrainer(**given | changes)


@pytest.fixture(scope="module")
def trained(store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    first = trainer(store, folder)
    return first, first.train()


def records(trained: BaseTrainer, kind: str) -> list[dict[str, Any]]:
    lines = (trained.folder / "metrics.jsonl").read_text().splitlines()
    return [r for r in map(json.loads, lines) if r["kind"] == kind]


def test_it_trains_saves_and_returns_the_model(trained, store):
    done, model = trained
    assert not model.training
    again, facts = read_model(done.save_path, RecursiveAttentionTransformer)
    assert not again.training
    sample = ERA5SSTMonthlyDataset(2, store=store.path, split="test")[0]
    past, month = sample["past"][None], sample["month"][None]
    assert torch.equal(again(past, month), model(past, month))
    # Something was learned: it is no longer persistence.
    assert not torch.equal(model(past, month), past[:, -1:])
    assert facts["model_params"]["seq_len"] == 2
    assert Area(**facts["area"]) == PACIFIC


def test_the_best_weights_are_the_ones_returned(store, tmp_path):
    """A learning rate far too high after a good start: the last weights are the worst."""
    fast = FAST | {"epochs": 4, "warmup_steps": 9}
    changes = {"trainer_params": fast, "model_params": TINY | {"learning_rate": 3.0}}
    spoilt = trainer(store, tmp_path, **changes)
    model = spoilt.train()
    errors = [r["rmse"] for r in records(spoilt, "validation")]
    assert min(errors) < errors[-1]
    data = ERA5SSTMonthlyDataset(2, store=store.path, split="val")
    task = SSTTask(store.weights, store.fields["deviation"])
    batch = task.prepare(default_collate([*data]), torch.device("cpu"))
    with torch.no_grad():
        found = task.metrics(task.forward(model, batch), batch)
    assert np.mean([each["rmse"] for each in found]) == pytest.approx(min(errors), rel=1e-4)


def test_the_settings_that_it_chose_are_printed(store, tmp_path, capsys):
    asked = {"epochs": 1, "ims_per_gpu": 30, "precision": "16-mixed", "max_steps": 1}
    trainer(store, tmp_path, trainer_params=asked)._settings(58)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "========== tiny, Pacific =========="
    assert told[1] == "samples: 58, steps: 1, learning_rate: 0.001"
    lines = dict(line.split(": ", 1) for line in told[2:])
    assert (lines["batch_size"], lines["gradient_clip_val"]) == ("30", "None")
    assert lines["warmup_steps"] == "0 instead of None"
    if not torch.cuda.is_available():
        assert lines["precision"] == "32 instead of 16-mixed"


def test_parameters_arrive_where_they_act(store, tmp_path):
    asked = {
        **{"epochs": 40, "batch_size": 10, "accumulate_grad_batches": 2, "max_steps": 1000},
        **{"gradient_clip_val": 0.5, "compile_model": True, "compile_mode": "max-autotune"},
        **{"precision": "bf16-mixed", "num_workers": 0, "prefetch_factor": 5, "pin_memory": False},
        **{"persistent_workers": False, "cudnn_deterministic": True, "seed": 9, "ema": 0.5},
        **{"weight_decay": 0.25, "early_stopping_patience": 7},
    }
    made = trainer(
        store, tmp_path, trainer_params=asked, model_params=TINY | {"learning_rate": 0.02}
    )
    expected = {PARAMETERS[name][0]: value for name, value in asked.items()}
    expected |= {"TRAIN.OPTIM.LR": 0.02, "TRAIN.VAL_BATCH_SIZE": 10, "DATALOADER.DROP_LAST": False}
    # Six batches an epoch, two a step: 120 steps, of which a twentieth warms up.
    expected |= {"TRAIN.SCHED.WARMUP_STEPS": 6, "LOG.VAL_EVERY_STEPS": 3}
    assert made._settings(58) == nested(expected)


class Interrupting(ERA5SSTMonthlyDataset):
    """Asks its process to stop, as Ctrl-C does, when it is read for the 30th time; once."""

    reads = 0

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        Interrupting.reads += 1
        if Interrupting.reads == 30:
            signal.raise_signal(signal.SIGINT)
        return super().__getitem__(index)


def test_a_run_that_was_stopped_goes_on_to_the_same_end(trained, store, tmp_path, capsys):
    _, undisturbed = trained
    Interrupting.reads = 0
    with pytest.raises(SystemExit) as caught:
        trainer(store, tmp_path, dataset_class=Interrupting).train()
    assert caught.value.code == 75
    assert "tiny: stopped after step 2; uid='one' goes on" in capsys.readouterr().out
    assert not (tmp_path / "model.pkl").exists()
    model = trainer(store, tmp_path, dataset_class=Interrupting).train()
    assert "resuming after step 2 of 6" in capsys.readouterr().out
    for one, other in zip(model.parameters(), undisturbed.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("given", [True, "path"])
def test_it_starts_from_a_model(trained, store, tmp_path, given):
    done, model = trained
    if given is True:
        (tmp_path / "model.pkl").write_bytes(done.save_path.read_bytes())
    # One step at next to no rate leaves the weights where they were.
    changes: dict[str, Any] = {
        "pre_model": True if given is True else done.save_path,
        "trainer_params": FAST | {"max_steps": 1},
        "model_params": TINY | {"learning_rate": 1e-12},
    }
    after = trainer(store, tmp_path, **changes).train()
    for one, other in zip(after.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-6)


def test_another_start_is_another_run(trained, store, tmp_path):
    done, _ = trained
    short = FAST | {"max_steps": 1}
    trainer(store, tmp_path, trainer_params=short).train()
    with pytest.raises(RunError, match=r"belong to run .* Use a new run folder"):
        trainer(store, tmp_path, trainer_params=short, pre_model=done.save_path).train()


def test_what_is_no_saved_model_is_refused(trained, store, tmp_path):
    with pytest.raises(RunError, match=r"model.pkl: no such checkpoint"):
        trainer(store, tmp_path, pre_model=True).train()
    path = tmp_path / "a.pkl"
    for contents in (None, b"nothing", trained[1].state_dict(), {"facts": Harm(tmp_path)}):
        if isinstance(contents, bytes):
            path.write_bytes(contents)
        elif contents is not None:
            torch.save(contents, path)
        with pytest.raises(RunError, match="no model that a trainer saved"):
            read_model(path, RecursiveAttentionTransformer)
    assert not (tmp_path / "harm").exists()
    other = trainer(
        store, tmp_path, pre_model=trained[0].save_path, model_params=TINY | {"d_model": 8}
    )
    with pytest.raises(RunError, match="weights of another model"):
        other.train()


class Harm:
    """Code in a file, which is not run when the file is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return Path.touch, (self.folder / "harm",)


class Own(nn.Module):
    """A model of someone's own: no learning rate, no grid."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, past: torch.Tensor, month: torch.Tensor) -> torch.Tensor:
        return past[:, -1:] * self.factor


def test_a_model_of_ones_own_is_trained(store, tmp_path):
    own = trainer(
        store,
        tmp_path,
        model_class=Own,
        model_params={"factor": 1.0, "learning_rate": 0.05},
        trainer_params=FAST | {"epochs": 10, "batch_size": 58},
    )
    model = own.train()
    assert own.learning_rate == 0.05
    # Half of an anomaly is weather: less than all of it is the better forecast.
    assert model.factor.item() < 0.9


REFUSED: dict[str, dict[str, Any]] = {
    "uid: found '../x', expected a word": {"model_params": TINY, "uid": "../x"},
    "trainer_params: batchsize: unknown; did you mean batch_size?": {"batchsize": 8},
    "did you mean epochs?": {"EPOCHS": 8},
    "trainer_params: epochs: TRAIN.EPOCHS: found 0": {"epochs": 0},
    "trainer_params: batch_size: TRAIN.BATCH_SIZE: found None": {"batch_size": None},
    "trainer_params: precision: TRAIN.PRECISION: found '16'": {"precision": "16"},
    "trainer_params: gradient_clip_val: TRAIN.MAX_GRAD_NORM": {"gradient_clip_val": 0},
    "trainer_params: use_fp16: TRAIN.PRECISION: found 'O1'": {"use_fp16": "O1"},
    "says precision '32', another name '16-mixed'": {"use_fp16": True, "precision": "32"},
    "batch_size says batch_size 3, another name 2": {"ims_per_gpu": 2, "batch_size": 3},
    "another name False": {"cudnn_benchmark": True, "cudnn_deterministic": True},
    "gradient_clip_algorithm is 'value', expected": {"gradient_clip_algorithm": "value"},
    "model_params: learning_rate: TRAIN.OPTIM.LR: found 0": {"model_params": {"learning_rate": 0}},
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_makes_no_sense_is_refused_before_anything_is_read(store, tmp_path, words):
    changes = REFUSED[words]
    if "model_params" not in changes:
        changes = {"trainer_params": changes}
    with pytest.raises(ConfigError) as caught:
        trainer(store, tmp_path, **changes)
    assert words in str(caught.value)


def test_data_and_model_must_agree(store, tmp_path):
    with pytest.raises(TypeError, match="multiple values for keyword argument 'area'"):
        trainer(store, tmp_path, dataset_params={"seq_len": 2, "area": 1}).train()
    with pytest.raises(ValueError, match="d_modl\n  Unexpected keyword argument"):
        trainer(store, tmp_path, model_params=TINY | {"d_modl": 8}).train()
    for model, words in (
        (
            {"seq_len": 3},
            r"model_params: found .*'seq_len': 3.*, expected .*'seq_len': 2.* in the data",
        ),
        ({"lead": 2}, r"model_params: found .*'lead': 2.*, expected .*'lead': 1"),
        ({"width": 18}, "10 rows and 20 columns.*width 18"),
    ):
        with pytest.raises(ConfigError, match=words):
            trainer(store, tmp_path, model_params=TINY | model).train()
    longer = trainer(
        store,
        tmp_path,
        dataset_params={"seq_len": 2, "lead": 3, "store": store.path},
        trainer_params=FAST | {"max_steps": 1},
    )
    # What is not said is taken from the data.
    assert longer.train().lead == 3


def test_the_other_documents_names_mean_the_same():
    given = {"ims_per_gpu": 64, "gradient_accumulation_steps": 2, "use_fp16": True}
    found = preset_values(given | {"precision": "16-mixed", CLIPPING: "norm"}, 1e-3)
    names = ("BATCH_SIZE", "GRADIENT_ACCUMULATION_STEPS", "PRECISION")
    assert [found[f"TRAIN.{name}"] for name in names] == [64, 2, "16-mixed"]
    for given, name, value in (
        ({"use_fp16": False}, "TRAIN.PRECISION", "32"),
        # A number where other programs take one.
        ({"precision": 32}, "TRAIN.PRECISION", "32"),
        ({"cudnn_benchmark": True}, "DETERMINISTIC", False),
        ({"cudnn_benchmark": False}, "DETERMINISTIC", True),
    ):
        assert preset_values(given, 1e-3)[name] == value


SMALLER = {
    "lon=[-180, 180], lat=[-80, 80]": "lon=[120, -80], lat=[-40, 40]",
    "resolution = 2": "resolution = 8",
    '"epochs": 500': '"epochs": 1',
}


def run_script(folder: Path, text: str, smaller: dict[str, str]) -> str:
    """Run a script, with other sizes, beside a small download; returns what it printed."""
    write_example(folder / "data" / "era5", Globe(years=6, step=8.0, south=-56.0))
    for large, small in smaller.items():
        assert text.count(large) == 1
        text = text.replace(large, small)
    (folder / "example.py").write_text(text, encoding="utf-8")
    environment = {name: v for name, v in os.environ.items() if name != "VRTSPIKE_ERA5"}
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.endurance
@pytest.mark.slow
def test_the_first_example_of_the_document_runs_with_its_imports_changed(tmp_path, shared):
    (document,) = [
        text
        for path in sorted((shared / "seeds").iterdir())
        if (text := path.read_text(encoding="utf-8")).lstrip().startswith("# BaseTrainer")
    ]
    example = re.findall(r"```python\n(.*?)```", document, re.DOTALL)[0]
    example = re.sub(r"from src\.[\w.]+ import", "from vrtspike.sst import", example)
    told = run_script(tmp_path, example + '\nprint("the model is", model.width, "wide")\n', SMALLER)
    assert told.count("========== RATransformer, Global ==========") == 1
    assert "epoch 1: 0:" in told
    assert "the model is 20 wide" in told
    path = tmp_path / "models" / "seq_len-2" / "ra_transformer.pkl"
    model, facts = read_model(path, RecursiveAttentionTransformer)
    assert facts["steps"] == 1
    assert sum(values.numel() for values in model.parameters()) > 6e6


@pytest.mark.endurance
@pytest.mark.slow
def test_the_examples_of_the_page_run(tmp_path, repository):
    page = (repository / "docs" / "sst.md").read_text(encoding="utf-8")
    _, train, judge = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    smaller = SMALLER | {
        '"learning_rate": 1e-3': '"learning_rate": 1e-3, "d_model": 16, "dim_feedforward": 16',
        '"batch_size": 150': '"batch_size": 150, "num_workers": 0',
    }
    told = run_script(tmp_path, train + judge, smaller)
    assert re.search(r"(better|worse) than|not distinguishable from", told)
    assert "persistence" in (tmp_path / "scores.csv").read_text()


def test_the_page_names_every_parameter(repository):
    page = (repository / "docs" / "sst.md").read_text(encoding="utf-8")
    for name in [*PARAMETERS, *OTHER_NAMES, CLIPPING]:
        assert f"`{name}`" in page, name


def test_the_public_names_are_there():
    for name in vrtspike.sst.__all__:
        assert getattr(vrtspike.sst, name)
    with pytest.raises(AttributeError, match="no attribute 'Trainer'"):
        _ = vrtspike.sst.Trainer
    assert re.fullmatch(r"\w+", vrtspike.sst.MODEL_SAVE_PATH)
