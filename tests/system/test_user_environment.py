"""Users without a name or a home, and folders that are missing or cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.helpers.concurrency import run_python
from vrtspike.system.user_environment import nearest_existing

ASK = """
import os
from vrtspike.system.user_environment import environment_faults, set_default_user
set_default_user()
print(os.environ["USER"], os.environ["HOME"], *environment_faults(), sep="\\n")
"""


def ask(folder, before=(), **environment: str) -> list[str]:
    command = [*before, sys.executable, "-c", ASK]
    variables = {"PATH": os.environ["PATH"], **environment}
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_writable_folders_are_no_fault(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").touch()
    assert ask(tmp_path, USER="ada", HOME=str(tmp_path)) == ["ada", str(tmp_path)]
    assert list(tmp_path.iterdir()) == [tmp_path / "config"]
    faults = ask(tmp_path, USER="ada", HOME="/proc/nowhere")[2:]
    assert len(faults) == 1
    assert faults[0].startswith("user ada, HOME /proc/nowhere: /proc/nowhere/.cache cannot")
    assert ask(tmp_path, USER="ada", HOME="/proc/no", XDG_CACHE_HOME=str(tmp_path))[2:] == []


def test_a_user_without_a_name_gets_one_and_closed_folders_are_named(tmp_path):
    user = ["unshare", "-U", "--map-user=4711", "--map-group=4711"]
    if subprocess.run([*user, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").touch()
    tmp_path.chmod(0o500)
    name, home, *faults = ask(tmp_path, user)
    assert (name, home) == ("uid4711", "/")
    assert (
        f"{tmp_path}/.snakemake cannot be written (Permission denied), which Snakemake"
        in faults[-1]
    )


def test_snakemake_answers_without_a_traceback(repository):
    environment = {"HOME": "/proc/nowhere", "SLURM_CONF": os.devnull, "XDG_CACHE_HOME": ""}
    done = run_python("-m", "snakemake", "-n", "demo", cwd=repository, env=environment)
    assert done.returncode == 2
    assert "/proc/nowhere/.cache cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_nearest_folder_that_exists(tmp_path):
    assert nearest_existing(tmp_path) == tmp_path
    assert nearest_existing(tmp_path / "a" / "b") == tmp_path
    # The system refuses to look for it, as it does below a folder of another user.
    assert nearest_existing(tmp_path / ("x" * 300) / "b") == tmp_path
