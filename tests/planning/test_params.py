from __future__ import annotations

from types import SimpleNamespace

import pytest

from vrtspike.config.run_schema import RunSettings
from vrtspike.config.workflow import Workflow, WorkflowSettings
from vrtspike.deblurring.settings import Settings
from vrtspike.flatten import flat_settings
from vrtspike.planning.params import code_lines, of_every_problem, setting_lines
from vrtspike.runs.identity import evaluation_settings, result_settings


def test_a_line_per_key_of_the_jobs_own_preset():
    presets = {
        "slow": Settings.model_validate({"TRAIN": {"OPTIM": {"LR": 1e-4}}}),
        "quick": Settings.model_validate({"TRAIN": {"OPTIM": {"LR": 3e-3}}}),
    }
    lines = setting_lines(Workflow(WorkflowSettings(), presets), result_settings)

    def found(preset: str) -> list[str]:
        return [line(SimpleNamespace(preset=preset)) for line in lines]

    different = set(found("slow")) ^ set(found("quick"))
    assert different == {"TRAIN.OPTIM.LR: 0.0001", "TRAIN.OPTIM.LR: 0.003"}
    expected = flat_settings(result_settings(presets["slow"]))
    assert found("slow") == [f"{key}: {value}" for key, value in expected.items()]
    assert not any(line.startswith(("LOG.TENSORBOARD", "TEST.")) for line in found("slow"))


def test_what_other_presets_have_changes_no_line_of_a_preset():
    """Snakemake compares sets of lines: a file that comes or goes makes no other preset stale."""
    with_vgg = Settings.model_validate({"LOSS": {"VGG_PERCEPTUAL": {"WEIGHT": 0.1}}})

    def found(preset: str, presets: dict[str, Settings]) -> set[str]:
        lines = setting_lines(Workflow(WorkflowSettings(), presets), result_settings)
        return {line(SimpleNamespace(preset=preset)) for line in lines}

    alone = found("plain", {"plain": Settings()})
    assert found("plain", {"plain": Settings(), "vgg": with_vgg}) == alone
    assert found("vgg", {"plain": Settings(), "vgg": with_vgg}) - alone == {
        line for line in found("vgg", {"vgg": with_vgg}) if line.startswith("LOSS.VGG_PERCEPTUAL.")
    }


def test_a_preset_without_such_keys_has_a_line_that_other_presets_do_not_change():
    """A problem may have nothing to choose in its evaluation, which has settings all the same."""

    def found(*presets: RunSettings) -> set[str]:
        named = dict(zip(("bare", "other"), presets, strict=False))
        lines = setting_lines(Workflow(WorkflowSettings(), named), evaluation_settings)
        return {line(SimpleNamespace(preset="bare")) for line in lines}

    assert found(RunSettings()) == found(RunSettings(), Settings()) == {""}


def test_a_line_per_source_file_of_all_programs(tmp_path):
    (tmp_path / "shared.py").write_text("def f():\n    return 1\n")
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(f"from shared import f\nprint('{name}', f())\n")
    lines = code_lines(tmp_path / "a.py", tmp_path / "b.py")
    files = [line.split(" ")[0] for line in lines]
    assert files == [f"{tmp_path.name}/{name}.py" for name in ("a", "b", "shared")]


@pytest.mark.parametrize("name", ["analyze_performance.py", "compare.py", "report_page.py"])
def test_how_voxels_are_computed_decides_nothing_that_is_only_shown(repository, name):
    """The settings name such code by parts of its name, which count as no use."""
    uses = [*of_every_problem("METRICS"), *of_every_problem("SETTINGS")]
    files = [line.split(" ")[0] for line in code_lines(repository / "scripts" / name, uses=uses)]
    assert "vrtspike/deblurring/settings/schema.py" in files
    assert not [file for file in files if "/data/" in file or "/models/" in file]


def test_what_an_ablation_says_is_code_of_its_table(repository):
    uses = of_every_problem("SETTINGS")
    lines = code_lines(repository / "scripts/ablation.py", uses=uses)
    assert "vrtspike/deblurring/settings/ablation.py" in [line.split(" ")[0] for line in lines]
    rules = (repository / "rules/ablation.smk").read_text()
    assert '*code("ablation.py", uses=SHOWN)' in rules
