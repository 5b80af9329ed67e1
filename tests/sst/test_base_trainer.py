from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import vrtspike.sst
from tests.sst.conftest import PACIFIC, YEARS
from vrtspike.errors import ConfigError, RunError
from vrtspike.sst import BaseTrainer, ERA5SSTMonthlyDataset, RecursiveAttentionTransformer
from vrtspike.sst.generate import Globe, write_example
from vrtspike.sst.parameters import OTHER_NAMES, TrainerParameters
from vrtspike.sst.prepare import prepare
from vrtspike.sst.saved import read_model
from vrtspike.sst.years import Years

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
    saved = read_model(done.save_path)
    again = saved.build(RecursiveAttentionTransformer)
    sample = ERA5SSTMonthlyDataset(2, store=store.path, split="test")[0]
    past, month = sample["past"][None], sample["month"][None]
    assert torch.equal(again(past, month), model(past, month))
    # Something was learned: it is no longer persistence.
    assert not torch.equal(model(past, month), past[:, -1:])
    assert saved.facts["model_params"]["seq_len"] == 2
    assert saved.facts["area"] == PACIFIC.as_json()


def test_every_sample_is_seen_and_every_epoch_told_and_validated(trained):
    done, _ = trained
    # 60 months in samples of three: 58, in batches of 20, the last one of 18.
    assert [r["samples"] for r in records(done, "epoch")] == [58, 58]
    assert [r["step"] for r in records(done, "validation")] == [3, 6]
    assert all(r["samples_per_second"] > 0 for r in records(done, "epoch"))


def test_the_best_weights_are_the_ones_returned(store, tmp_path):
    """A learning rate far too high after a good start: the last weights are the worst."""
    fast = FAST | {"epochs": 4, "warmup_steps": 9}
    changes = {"trainer_params": fast, "model_params": TINY | {"learning_rate": 3.0}}
    spoilt = trainer(store, tmp_path, **changes)
    model = spoilt.train()
    errors = [r["rmse"] for r in records(spoilt, "validation")]
    assert min(errors) < errors[-1]
    from vrtspike.sst.task import SSTTask

    data = ERA5SSTMonthlyDataset(2, store=store.path, split="val")
    task = SSTTask.of_store(store)
    found = []
    for index in range(len(data)):
        batch = {name: values[None] for name, values in data[index].items()}
        with torch.no_grad():
            output = model(batch["past"], batch["month"])
        found += [m["rmse"] for m in task.metrics(output, task.prepare(batch, torch.device("cpu")))]
    assert sum(found) / len(found) == pytest.approx(min(errors), rel=1e-4)


def test_the_settings_that_it_chose_are_printed(store, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("vrtspike.sst.base_trainer.available_cpus", lambda: 2)
    asked = {"epochs": 1, "ims_per_gpu": 30, "precision": "16-mixed", "max_steps": 1}
    trainer(store, tmp_path, trainer_params=asked)._settings(58)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "========== tiny, Pacific =========="
    lines = dict(line.split(": ", 1) for line in told[1:])
    assert lines["batch_size"] == "30"
    assert lines["gradient_clip_val"] == "None (default)"
    assert lines["learning_rate"] == "0.001 (default)"
    assert lines["num_workers"].startswith("2 instead of 8: this process may use 2 CPU(s)")
    assert lines["samples"] == "58"
    if not torch.cuda.is_available():
        assert lines["device"] == "cpu"
        assert lines["precision"].startswith("32 instead of 16-mixed: this machine has no GPU")


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
    settings = made._settings(58)
    assert settings == {
        "SEED": 9,
        "DETERMINISTIC": True,
        "DATALOADER": {
            "TRAIN_WORKERS": 0,
            "TRAIN_PREFETCH_FACTOR": 5,
            "VAL_PREFETCH_FACTOR": 5,
            "PIN_MEMORY": False,
            "PERSISTENT_WORKERS": False,
            "DROP_LAST": False,
        },
        "TRAIN": {
            "EPOCHS": 40,
            "MAX_STEPS": 1000,
            "BATCH_SIZE": 10,
            "VAL_BATCH_SIZE": 10,
            "GRADIENT_ACCUMULATION_STEPS": 2,
            "MAX_GRAD_NORM": 0.5,
            "COMPILE_MODEL": True,
            "COMPILE_MODE": "max-autotune",
            "PRECISION": "bf16-mixed",
            "OPTIM": {"LR": 0.02, "WEIGHT_DECAY": 0.25},
            # Six batches an epoch, two a step: 120 steps, of which a twentieth warms up.
            "SCHED": {"WARMUP_STEPS": 6, "MIN_LR": 1e-7},
            "EMA": 0.5,
            "EARLY_STOPPING": {"PATIENCE": 7},
        },
        "LOG": {"VAL_EVERY_STEPS": 3},
    }


def test_a_finished_run_is_taken_as_it_is(trained, store, capsys):
    done, model = trained
    again = trainer(store, done.save_path.parent).train()
    assert "resuming after step 6 of 6" in capsys.readouterr().out
    for one, other in zip(again.parameters(), model.parameters(), strict=True):
        assert torch.equal(one, other)


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
    before = done.save_path
    target = tmp_path / "model.pkl"
    if given is True:
        target.write_bytes(before.read_bytes())
    # One step at next to no rate leaves the weights where they were.
    changes: dict[str, Any] = {
        "pre_model": True if given is True else before,
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


def test_other_data_at_the_same_place_are_another_run(download, tmp_path):
    short = FAST | {"max_steps": 1}
    for years in (YEARS, Years((1980, 1983), (1985, 1986), (1987, 1988))):
        store = prepare(download, PACIFIC, 8, tmp_path / "p.json", years)
        if years == YEARS:
            trainer(store, tmp_path, trainer_params=short).train()
    with pytest.raises(RunError, match=r"belong to run .* Use a new run folder"):
        trainer(store, tmp_path, trainer_params=short).train()


def test_there_must_be_a_model_to_start_from(store, tmp_path):
    with pytest.raises(RunError, match=r"model.pkl: no such file"):
        trainer(store, tmp_path, pre_model=True).train()


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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trainer_params": {"epoch": 2}}, "trainer_params: unknown parameter epoch; did you mean"),
        ({"model_params": TINY | {"d_modell": 2}}, "did you mean d_model?"),
        ({"dataset_params": {"seq_length": 2}}, "dataset_params: unknown parameter seq_length"),
        ({"dataset_params": {"seq_len": 2, "area": 1}}, "dataset_params: unknown parameter area"),
        ({"dataset_params": {}}, "dataset_params: seq_len is missing"),
        ({"model_params": {}}, "model_params: width, height, seq_len is missing"),
        ({"model_params": TINY | {"learning_rate": 0}}, "learning_rate is 0, expected a number"),
        ({"model_params": TINY | {"dropout": {1}}}, "model_params: Object of type set"),
        ({"uid": "a/b"}, "uid: found 'a/b'"),
        ({"uid": ""}, "uid: found ''"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(store, tmp_path, changes, words):
    with pytest.raises(ConfigError) as caught:
        trainer(store, tmp_path, **changes)
    assert words in str(caught.value)


def test_data_and_model_must_agree(store, tmp_path):
    for model, words in (
        ({"seq_len": 3}, "model_params: seq_len is 3, but the data set's is 2"),
        ({"lead": 2}, "model_params: lead is 2, but the data set's is 1"),
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


EXAMPLE = """
import uuid
import numpy as np
from vrtspike.sst import BaseTrainer
from vrtspike.sst import RecursiveAttentionTransformer
from vrtspike.sst import ERA5SSTMonthlyDataset
from vrtspike.sst import Area
from vrtspike.sst import MODEL_SAVE_PATH

# 配置区域
area = Area('Global', lon=[-180, 180], lat=[-80, 80], description='全球区域')

# 配置参数
trainer_uid = str(uuid.uuid4())
resolution = 2
seq_len = 2

width = int(area.width / resolution)
height = int(area.height / resolution)

# 数据集参数
dataset_params = {
    "seq_len": seq_len,
    "offset": 0,
    "resolution": resolution,
}

# 模型参数
model_params = {
    "width": width,
    "height": height,
    "seq_len": seq_len,
    "d_model": 512,
    "num_heads": 8,
    "num_layers": 3,
    "dim_feedforward": 1024,
    "dropout": 0.1,
    "recursion_depth": 2,
    "learning_rate": 1e-3,
}

trainer_params = {
    "epochs": 500,
    "batch_size": 150,
}

# 创建训练器
trainer = BaseTrainer(
    title='RATransformer',
    area=area,
    uid=trainer_uid,
    model_class=RecursiveAttentionTransformer,
    dataset_class=ERA5SSTMonthlyDataset,
    save_path=f'{MODEL_SAVE_PATH}/seq_len-{seq_len}/ra_transformer.pkl',
    pre_model=False,
    dataset_params=dataset_params,
    trainer_params=trainer_params,
    model_params=model_params,
)

# 开始训练
model = trainer.train()
"""
"""A user's script for another framework; only its imports were changed."""
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


@pytest.mark.slow
def test_a_script_of_another_framework_runs_with_its_imports_changed(tmp_path):
    told = run_script(tmp_path, EXAMPLE + 'print("the model is", model.width, "wide")\n', SMALLER)
    assert told.count("========== RATransformer, Global ==========") == 1
    assert "epoch 1: 0:" in told
    assert "the model is 20 wide" in told
    saved = read_model(tmp_path / "models" / "seq_len-2" / "ra_transformer.pkl")
    assert saved.facts["steps"] == 1
    assert sum(values.numel() for values in saved.weights.values()) > 6e6


OWN_DATA = """
class Twice(ERA5SSTMonthlyDataset):
    def __len__(self):
        return 2 * super().__len__()

    def __getitem__(self, index):
        return super().__getitem__(index // 2)


if __name__ == "__main__":
    train()
"""
"""The end of a script whose workers need a class that stands in it."""


@pytest.mark.endurance
@pytest.mark.slow
def test_workers_find_a_data_set_that_stands_in_the_script(tmp_path):
    imports, rest = EXAMPLE.split("# 配置区域")
    rest = rest.replace("dataset_class=ERA5SSTMonthlyDataset", "dataset_class=Twice")
    body = "def train():\n" + rest.replace("\n", "\n    ")
    told = run_script(tmp_path, imports + body + OWN_DATA, SMALLER)
    # Four years of 12 months in samples of three, each twice.
    assert "epoch 1: " in told
    assert "92 samples" in told


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
    assert re.search(r"\{'model': \d\.\d+, 'persistence': \d\.\d+, 'climatology': \d\.\d+\}", told)
    assert (tmp_path / "evaluation" / "error_maps.png").is_file()


def test_the_page_names_every_parameter(repository):
    page = (repository / "docs" / "sst.md").read_text(encoding="utf-8")
    for name in [*TrainerParameters.model_fields, *OTHER_NAMES, "use_fp16"]:
        assert f"`{name}`" in page, name


def test_the_names_of_the_room_are_there():
    for name in vrtspike.sst.__all__:
        assert getattr(vrtspike.sst, name)
    assert set(vrtspike.sst.__all__) <= set(dir(vrtspike.sst))
    with pytest.raises(AttributeError, match="no attribute 'Trainer'"):
        _ = vrtspike.sst.Trainer
    assert re.fullmatch(r"\w+", vrtspike.sst.MODEL_SAVE_PATH)


def test_years_can_be_given(download, tmp_path):
    made = ERA5SSTMonthlyDataset(
        2, 0, 8, area=PACIFIC, data=download, years=YEARS.as_json(), prepared=tmp_path
    )
    assert made.store.years == YEARS
