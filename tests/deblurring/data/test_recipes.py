from __future__ import annotations

import shutil

import vrtspike
from vrtspike.deblurring.data.recipes import ingest_recipe, recipe, store_recipe

MODULE = "deblurring/data/gate/ingest.py"


def test_a_recipe_is_that_of_code_and_ingredients():
    plain = recipe(MODULE, layout="auto", size=[1, 2])
    assert len(plain) == 64
    assert recipe(MODULE, size=[1, 2], layout="auto") == plain
    assert recipe(MODULE, layout="kair", size=[1, 2]) != plain
    assert recipe("deblurring/data/store/build.py", layout="auto", size=[1, 2]) != plain


def test_each_option_and_each_stage_has_a_recipe_of_its_own():
    checks = [("blur", "auto", None), ("blur_gamma", "auto", None), ("blur", "kair", None)]
    checks += [("blur", "auto", (250, 400)), ("blur", "auto", (400, 250))]
    recipes = [ingest_recipe(*options) for options in checks] + [store_recipe(8), store_recipe(4)]
    assert len({*recipes}) == len(recipes)
    assert ingest_recipe(*checks[-1]) == recipes[len(checks) - 1]


def test_code_that_counts_is_what_the_module_uses(monkeypatch, tmp_path):
    """Run by another Python, because sources are read once."""
    import subprocess
    import sys

    package = tmp_path / "vrtspike"
    source = vrtspike.__path__[0]
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))

    def ask(call: str = "ingest_recipe('blur', 'auto', None)") -> str:
        text = f"from vrtspike.deblurring.data.recipes import *; print({call})"
        command = [sys.executable, "-c", text]
        return subprocess.run(
            command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
        ).stdout

    before, store = ask(), ask("store_recipe(8)")
    checks = package / "deblurring/data/gate/checks.py"
    checks.write_text("# A comment.\n" + checks.read_text())
    assert ask() == before
    bundles = package / "deblurring/data/bundles.py"
    bundles.write_text(bundles.read_text() + "\nOTHER = 1\n")
    assert ask() == before
    exposure = package / "deblurring/data/exposure.py"
    text = exposure.read_text()
    assert "def expected_center(" in text
    exposure.write_text(
        text.replace("def expected_center(", "ODD = 1\n\n\ndef expected_center(", 1)
    )
    assert ask() == before  # nobody uses it
    gate = package / MODULE
    text = gate.read_text()
    assert "most_common(1)" in text
    gate.write_text(text.replace("most_common(1)", "most_common(2)"))
    assert ask() != before
    assert ask("store_recipe(8)") == store
