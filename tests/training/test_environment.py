"""The environment of a run."""

from __future__ import annotations

import json
import subprocess

import torch

from vrtspike.training.environment import describe_environment, git_state

CPU = torch.device("cpu")


def test_environment_is_json_and_names_versions():
    result = describe_environment(CPU)
    assert json.loads(json.dumps(result)) == result
    assert result["packages"]["torch"] == torch.__version__.split("+")[0]
    assert result["device"]["type"] == "cpu"


def test_git_state_distinguishes_changed_and_clean_checkouts(tmp_path):
    assert git_state(tmp_path) is None

    def git(*arguments):
        subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(tmp_path), *arguments],
            check=True,
            capture_output=True,
        )

    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "one")
    clean = git_state(tmp_path)
    assert len(clean["commit"]) == 40
    assert clean["changed"] is False
    (tmp_path / "file").write_text("two")
    assert git_state(tmp_path) == {**clean, "changed": True}
