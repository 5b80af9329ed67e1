"""Origin of a run: changed settings, code, versions and hours."""

from __future__ import annotations

import hashlib

import pytest

from tests.reporting.results import make_run
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.reporting.run_data import read_origin, setting_changes, training_seconds
from vrtspike.runs.folder import read_record
from vrtspike.runs.published import read_published


def origin(folder, presets, **record):
    full_record = read_record(folder) | record
    return read_origin(folder, read_published(folder), full_record, 3600.0, presets)


@pytest.mark.parametrize(
    ("name", "settings", "base", "differences"),
    [
        ("mine", {"SEED": 6}, "preset base", ("SEED", "5", "6")),
        # The variant of an ablation has no file.
        (
            *("mine-without-spikes", {"SEED": 6, "MODEL": {"USE_SPIKE": False}}, "preset mine"),
            ("MODEL.USE_SPIKE", "true", "false"),
        ),
        # Neither have further seeds.
        ("mine-seed-2", {"SEED": 7}, "preset base", ("SEED", "5", "7")),
        (
            *("mine-without-spikes-seed-2", {"SEED": 6, "MODEL": {"USE_SPIKE": False}}),
            *("preset mine", ("MODEL.USE_SPIKE", "true", "false")),
        ),
        (
            "base",
            {"SEED": 6},
            "the defaults of all keys",
            ("SEED", str(DeblurringSettings().SEED), "6"),
        ),
    ],
)
def test_settings_are_compared_with_the_base_of_the_preset(
    tmp_path, name, settings, base, differences
):
    (tmp_path / "base.yaml").write_text("SEED: 5\n")
    (tmp_path / "mine.yaml").write_text("BASE: base\nSEED: 6\n")
    facts = origin(make_run(tmp_path / "results", name, **settings), tmp_path)
    assert (facts["base"], facts["differences"]) == (base, [differences])


def test_changes_are_written_as_json():
    there, here = (
        DeblurringSettings(),
        DeblurringSettings.model_validate(
            {"DATA": {"ROOT": "数据", "AUGMENT": False}, "LOG": {"ON_END": "notify --key 7"}}
        ),
    )
    assert sorted(setting_changes(there, here)) == [
        ("DATA.AUGMENT", "true", "false"),
        ("DATA.ROOT", f'"{there.DATA.ROOT}"', '"数据"'),
        ("LOG.ON_END", "null", '"(not shown)"'),
    ]


def test_a_run_states_code_data_machine_and_versions(tmp_path):
    folder = make_run(tmp_path, "mine")
    result = origin(folder, tmp_path)
    assert result["commit"] == "commit 01234567"
    facts = dict(result["facts"])
    expected = {
        "code": "0123456789abcdef",
        "data set": "gopro, " + "ab12" * 16,
        "machine": "1 x H200, 140 GiB of GPU memory, 8 CPUs, host node7",
        "training": "40 steps, 1 h, begun 1970-01-01 00:00 UTC",
        "versions": "python 3.11.7, torch 2.11.0, cuda 12.8",
        "parameters": "1,234,567",
    }
    assert {name: facts[name] for name in expected} == expected
    digest = hashlib.sha256(b"weights").hexdigest()
    assert facts["weights"] == f"weights.safetensors, 0.0 MB, SHA-256 {digest}"


def test_further_facts_about_code(tmp_path):
    folder = make_run(tmp_path, "mine")
    (folder / "weights.safetensors").unlink()
    git = {"commit": "c0ffee", "changed": True}
    recorded_environment = read_record(folder)["environment"] | {"device": {"name": "x86"}}
    environment = recorded_environment | {"git": git}
    facts = dict(origin(folder, tmp_path, environment=environment, code_changed=["a.b"])["facts"])
    changes = "with changes that were not committed; changed during the run: a.b"
    assert facts["code"] == f"c0ffee; {changes}"
    assert (facts["machine"], facts["weights"]) == ("x86 (CPU), 8 CPUs, host node7", "missing")
    result = origin(folder, tmp_path, environment=recorded_environment | {"git": None})
    none = "no commit known: trained outside a git checkout"
    assert (result["commit"], dict(result["facts"])["code"]) == ("no known commit", none)


def test_time_between_starts_does_not_count():
    record = {"starts": [{"time": 1000.0}, {"time": 100.0}]}
    assert training_seconds(record, [1030.0, 110.0, 150.0]) == 80.0
    assert training_seconds({}, [5.0]) == 0.0
