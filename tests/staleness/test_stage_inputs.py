"""The table of the code and settings that make stages stale."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from vrtspike.config.tasks import TASKS, find_task
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.sst.settings import SSTSettings
from vrtspike.staleness.source_digests import code_digests
from vrtspike.staleness.stage_inputs import STAGE_INPUTS, prepared_data_settings, stage_inputs
from vrtspike.system.errors import ConfigError


@pytest.mark.parametrize("program", STAGE_INPUTS)
def test_programs_and_modules_of_the_table_exist(repository, program):
    """A renamed module would count again, and a renamed program would lose its entry."""
    assert (repository / "scripts" / program).is_file()
    for module in STAGE_INPUTS[program].ignored_modules:
        assert find_spec(module) is not None, module


@pytest.mark.parametrize("program", ["ingest.py", "voxelize.py", "train.py"])
def test_each_neutral_module_is_among_those_that_a_program_imports(repository, program):
    """Entries that leave out nothing would only mislead a reader."""
    inputs = STAGE_INPUTS[program]
    uses = [f"{module}.{part}" for module in TASKS.values() for part in inputs.parts]

    def files(*neutral: str) -> set[str]:
        return set(
            code_digests(
                repository / "scripts" / program, dynamic_uses=uses, ignored_modules=neutral
            )
        )

    counted = files(*inputs.ignored_modules)
    for module in inputs.ignored_modules:
        others = [name for name in inputs.ignored_modules if name != module]
        assert files(*others) > counted, module


@pytest.mark.parametrize("program", STAGE_INPUTS)
def test_a_task_has_the_parts_that_a_program_uses(program):
    for part in STAGE_INPUTS[program].parts:
        assert any(hasattr(find_task(name), part) for name in TASKS), part


@pytest.mark.parametrize("program", ["analyze_performance.py", "report_page.py"])
def test_findings_depend_on_the_advice_of_a_task(repository, program):
    uses = [f"{TASKS['deblurring']}.{part}" for part in stage_inputs(program).parts]
    files = code_digests(repository / "scripts" / program, dynamic_uses=uses)
    assert "vrtspike/deblurring/advice/run_advice.py" in files


def test_a_program_without_an_entry_depends_on_what_it_imports():
    assert stage_inputs("survey.py") == ((), (), None)


def test_settings_of_each_stage():
    train = stage_inputs("train.py").settings
    evaluate = stage_inputs("evaluate.py").settings
    assert train is not None
    assert evaluate is not None
    assert {"TRAIN", "DATA", "MODEL", "LOSS"} <= train(DeblurringSettings()).keys()
    assert evaluate(DeblurringSettings()).keys() == {"TEST"}
    prepared = prepared_data_settings(SSTSettings(TASK="sst"))
    assert prepared.keys() == {"AREA", "RESOLUTION", "YEARS", "GENERATE"}
    with pytest.raises(ConfigError, match="deblurring"):
        prepared_data_settings(DeblurringSettings())
