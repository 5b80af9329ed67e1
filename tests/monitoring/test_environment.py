from __future__ import annotations

import json
import subprocess

import torch

from vrtspike.training.run_log import describe_environment, git_state


def test_environment_is_json_and_names_versions():
    found = describe_environment(torch.device("cpu"))
    assert json.loads(json.dumps(found)) == found
    assert found["packages"]["torch"] == torch.__version__.split("+")[0]
    assert found["device"]["type"] == "cpu"


def test_git_state_tells_changed_checkouts_from_clean_ones(tmp_path):
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
