from __future__ import annotations

import hashlib

from tests.reporting.results import make_run
from vrtspike.deblurring.settings import Settings
from vrtspike.reporting.origin import read_origin, setting_changes, training_seconds
from vrtspike.runs.published import read_published
from vrtspike.runs.record import read_record


def origin(folder, presets, **record):
    known = read_record(folder) | record
    return read_origin(folder, read_published(folder), known, [1.0, 3600.0], presets)


def test_settings_are_compared_with_the_base_of_the_preset(tmp_path):
    presets = tmp_path / "presets"
    presets.mkdir()
    (presets / "base.yaml").write_text("TRAIN: {MAX_STEPS: 7}\nSEED: 5\n")
    (presets / "mine.yaml").write_text("BASE: base\nSEED: 6\n")
    folder = make_run(tmp_path / "results", "mine", TRAIN={"MAX_STEPS": 7}, SEED=6)
    found = origin(folder, presets)
    assert found.base == "preset base"
    assert found.differences == (("SEED", "5", "6"),)


def test_what_an_ablation_derives_is_compared_with_its_preset(tmp_path):
    (tmp_path / "mine.yaml").write_text("SEED: 6\n")
    name = "mine-without-spikes"
    folder = make_run(tmp_path, name, SEED=6, MODEL={"USE_SPIKE": False})
    found = origin(folder, tmp_path)
    assert found.base == "preset mine"
    assert found.differences == (("MODEL.USE_SPIKE", "true", "false"),)


def test_without_a_base_they_are_compared_with_the_defaults(tmp_path):
    folder = make_run(tmp_path, "mine", SEED=6)
    found = origin(folder, tmp_path)
    assert found.base == "the defaults of all keys"
    assert found.differences == (("SEED", str(Settings().SEED), "6"),)


def test_changes_are_written_as_json():
    there, here = Settings(), Settings.model_validate({"DATA": {"ROOT": "数据", "AUGMENT": False}})
    assert setting_changes(there, here) == (
        ("DATA.ROOT", f'"{there.DATA.ROOT}"', '"数据"'),
        ("DATA.AUGMENT", "true", "false"),
    )


def test_a_command_that_may_hold_a_password_is_not_shown():
    here = Settings.model_validate({"LOG": {"ON_END": "notify --key 7"}})
    assert setting_changes(Settings(), here) == (("LOG.ON_END", "null", '"(not shown)"'),)


def test_facts_of_a_run(tmp_path):
    folder = make_run(tmp_path, "mine")
    found = origin(folder, tmp_path)
    assert found.commit == "01234567"
    facts = dict(found.facts)
    assert facts["code"] == "0123456789abcdef"
    assert facts["data set"] == "gopro, " + "ab12" * 16
    assert facts["machine"] == "1 x H200, 140 GiB of GPU memory, 8 CPUs, host node7"
    assert facts["training"] == "40 steps, 1 h, begun 1970-01-01 00:00 UTC"
    assert facts["versions"] == "python 3.11.7, torch 2.11.0, cuda 12.8"
    assert facts["parameters"] == "1,234,567"
    digest = hashlib.sha256(b"weights").hexdigest()
    assert facts["weights"] == f"weights.safetensors, 0.0 MB, SHA-256 {digest}"


def test_what_else_can_be_said_of_code_and_state(tmp_path):
    folder = make_run(tmp_path, "mine")
    (folder / "weights.safetensors").unlink()
    environment = {"git": {"commit": "c0ffee", "changed": True}, "device": {"name": "x86"}}
    found = origin(folder, tmp_path, environment=environment, code_changed=["a.b"], status="failed")
    facts = dict(found.facts)
    assert (
        facts["code"] == "c0ffee; with changes that were not committed; other code on the way: a.b"
    )
    assert facts["machine"] == "x86 (CPU)"
    assert facts["training"].endswith(", failed")
    assert facts["weights"] == "not there any more"
    found = origin(folder, tmp_path, environment={"git": None})
    assert (found.commit, dict(found.facts)["code"]) == (
        "",
        "no commit known: trained outside a git checkout",
    )


def test_time_between_starts_does_not_count():
    record = {"starts": [{"time": 1000.0}, {"time": 100.0}]}
    assert training_seconds(record, [1030.0, 110.0, 150.0]) == 80.0
    assert training_seconds({}, [5.0]) == 0.0
