"""The installation without extras restores frames, and names the extras of all else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.small_run import arrays
from tests.repository.wheels import build_wheel, environment_of_wheel, install_wheel
from vrtspike.restoration.loading import load

pytestmark = [pytest.mark.core, pytest.mark.endurance, pytest.mark.timeout(1800)]

LEFT_OUT = ("snakemake", "bitsandbytes", "wandb", "mlflow", "pandas", "matplotlib", "zarr")


@pytest.fixture(scope="module")
def python(repository, tmp_path_factory) -> Path:
    """The Python of an empty environment with the project's wheel."""
    wheel = build_wheel(repository, tmp_path_factory.mktemp("wheel"))
    return install_wheel(repository, str(wheel), tmp_path_factory.mktemp("light"))


def test_frames_are_restored_and_what_is_missing_is_named(python, small_run, tmp_path):
    sequence = small_run.raw / "test" / "b"
    words = ["restore", small_run.train, sequence / "blur", "--spikes", sequence / "spike"]

    def vrtspike(*words: object) -> subprocess.CompletedProcess[str]:
        command = [str(python.with_name("vrtspike")), *map(str, words)]
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=environment_of_wheel(),
            capture_output=True,
            text=True,
            check=False,
        )

    done = vrtspike(*words, "-o", "out", "--device", "cpu", "--video")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "out/restored").glob("*.png"))) == 5
    code = (
        f"import numpy as np, vrtspike; a = np.load('clip.npz'); "
        f"m = vrtspike.load({str(small_run.train)!r}, device='cpu'); "
        "np.save('restored.npy', m.restore(a['frames'], list(a['spikes'])))"
    )
    frames, spikes = arrays(sequence)
    np.savez(tmp_path / "clip.npz", frames=frames, spikes=np.stack(spikes))
    subprocess.run([python, "-c", code], cwd=tmp_path, env=environment_of_wheel(), check=True)
    expected = load(small_run.train, device="cpu").restore(frames, spikes)
    np.testing.assert_allclose(np.load(tmp_path / "restored.npy"), expected.astype(int), atol=1)
    missing = subprocess.run(
        [python, "-c", f"import importlib.util as u; print(*map(u.find_spec, {LEFT_OUT}))"],
        env=environment_of_wheel(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(missing.stdout.split()) == {"None"}
    done = vrtspike("show", sequence / "spike" / "000001.dat", "--sensor", 24, 32)
    assert done.returncode == 2
    assert "is missing; pip install 'vrtspike[train]'" in done.stderr
