"""The wheel alone brings the whole workflow: a new project plans the demo and checks data."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.repository.wheels import build_wheel, environment_of_wheel, install_wheel
from tests.workflow.project import make_tiny_data
from vrtspike.staleness.source_digests import code_digests

pytestmark = [pytest.mark.endurance, pytest.mark.timeout(1800)]

INGEST = "results/data/raw/ingest/shards/0-of-1.json"
DIGESTS = """
from vrtspike.staleness.source_digests import code_digests
from vrtspike.system.home import require_home
print(code_digests(require_home() / "scripts/ingest.py"))
"""


@pytest.fixture(scope="module")
def python(repository, tmp_path_factory) -> Path:
    """The Python of an empty environment with the project's wheel and its extra ``workflow``."""
    wheel = build_wheel(repository, tmp_path_factory.mktemp("wheel"))
    folder = tmp_path_factory.mktemp("whole")
    return install_wheel(repository, f"{wheel}[workflow]", folder)


def test_a_new_project_of_the_wheel_runs(python, repository, tmp_path):
    def run(program: str, *words: object, folder: Path) -> str:
        done = subprocess.run(
            [str(python.with_name(program)), *map(str, words)],
            cwd=folder,
            env=environment_of_wheel(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    make_tiny_data(tmp_path / "raw")
    shown = run("vrtspike", "init", "mine", "--from-data", tmp_path / "raw", folder=tmp_path)
    assert "no fault" in shown
    project = tmp_path / "mine"
    plan = run("snakemake", "-n", "demo", folder=project)
    assert "demo_data: no result yet" in plan
    run("snakemake", "--cores", 1, INGEST, folder=project)
    assert (project / INGEST).is_file()
    assert "nothing to be done" in run("vrtspike", "why", INGEST, folder=project)
    # Results are as fresh in a wheel as in a clone.
    digests = code_digests(repository / "scripts/ingest.py")
    assert run("python", "-c", DIGESTS, folder=project) == f"{digests}\n"
