"""Messages on packages that cannot be imported."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.helpers.concurrency import run_python
from vrtspike.system.packages import extra_providing, import_fault

METADATA = """\
Metadata-Version: 2.1
Name: {name}
Version: 1.5
"""
PROJECT = """\
Requires-Dist: always-there>=1
Requires-Dist: scikit-image>=0.2; extra == "small"
Requires-Dist: Absent.One>=1; python_version >= "3" and extra == "small"
Requires-Dist: vrtspike[small,other]; extra == "large"
Requires-Dist: absent-two; extra == "large"
Requires-Dist: Absent.One>=1; extra == "large"
Requires-Dist: absent-four; extra == "large"
Requires-Dist: absent-three[all]<2; extra == 'other'
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a package of one module before those that are there."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str, text: str, more: str = "") -> None:
        folder = tmp_path / f"{name}-1.5.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(METADATA.format(name=name) + more)
        (folder / "top_level.txt").write_text(f"{name}\n")
        (tmp_path / f"{name}.py").write_text(text)

    return install


def failed(statement: str) -> ImportError:
    with pytest.raises(ImportError) as raised:
        exec(statement)
    return raised.value


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("always_there", ""),
        ("skimage", "small"),
        ("absent_one", "small"),
        ("absent_two", "large"),
        ("absent_three", "other"),
        ("another_package_needs_it", "workflow"),
    ],
)
def test_the_smallest_extra_that_contains_a_module(installed, tmp_path, module, extra):
    (tmp_path / "vrtspike").mkdir()
    installed("vrtspike", "", PROJECT)
    assert extra_providing(module) == extra


def test_a_project_that_is_not_installed_names_the_extra_of_the_workflow(repository):
    """Its sources alone, in a Python without installed packages."""
    program = (
        "from vrtspike.system.packages import extra_providing; "
        "print(extra_providing('huggingface_hub'))"
    )
    done = run_python("-S", "-c", program, env={"PYTHONPATH": str(repository / "src")})
    assert done.stdout == "workflow\n", done.stderr


def test_every_import_of_a_package_has_an_extra(repository):
    """A name that differs from its module's, and is not listed, would end in another extra."""
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    named = {
        canonicalize_name(Requirement(line).name) for lines in groups.values() for line in lines
    }
    homes = metadata.packages_distributions()
    looked_up = set()
    for source in (repository / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            else:
                continue
            looked_up |= {module.partition(".")[0] for module in modules}
    brought = {
        module
        for module in looked_up - sys.stdlib_module_names - {"vrtspike"}
        if named & set(map(canonicalize_name, homes.get(module, [])))
    }
    assert {"cv2", "mlflow", "pandas", "pynvml", "ruamel"} <= brought
    for module in brought:
        extra = extra_providing(module)
        lines = groups[extra]
        distributions = {canonicalize_name(name) for name in homes[module]}
        assert distributions & {canonicalize_name(Requirement(line).name) for line in lines}, module


def test_a_missing_package_is_reported_with_its_extra(installed, tmp_path):
    installed("vrtspike", "", PROJECT)
    assert import_fault(failed("import absent_three.inner")) == (
        "the package absent_three is missing; pip install 'vrtspike[other]'"
    )
    assert import_fault(ModuleNotFoundError("no", name="always_there")).endswith("install vrtspike")


@pytest.mark.parametrize(
    ("name", "text", "statement"),
    [
        ("broken_a", "raise ImportError('libx.so: no such file')", "import broken_a"),
        ("broken_b", "", "import broken_b.inner"),
        ("broken_c", "", "from broken_c import renamed"),
    ],
)
def test_a_broken_package_is_to_be_installed_again(installed, name, text, statement):
    installed(name, text)
    error = failed(statement)
    output = import_fault(error)
    assert output.startswith(
        f"the package {name} 1.5 is installed, but cannot be imported ({error})"
    )
    assert output.endswith(f"pip install --force-reinstall --no-deps {name}==1.5")


def test_a_missing_standard_module_needs_another_python():
    output = import_fault(ModuleNotFoundError("No module named '_lzma'", name="_lzma"))
    assert re.match(r"this Python \(.*\) was built without the module _lzma ", output)
    assert "pip" not in output


def test_an_import_error_without_a_package_is_reported_unchanged():
    output = import_fault(ImportError("x.so: cannot be read"))
    assert output.startswith("a package cannot be imported (x.so: cannot be read); ")
