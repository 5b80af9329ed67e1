from __future__ import annotations

import json
import os
import subprocess
import sys

SHOW = "import json, os; print(json.dumps(dict(os.environ)))"


def test_the_program_takes_the_place_and_sees_no_settings_of_the_batch_script():
    given = {
        **{"SLURM_JOB_ID": "7", "SLURM_CONF": "/etc/x", "SLURM_SUBMIT_DIR": "/home", "HOME": "/h"},
        **{"SLURM_GPUS": "2", "SLURM_CPUS_PER_TASK": "8", "SLURM_MEM_PER_NODE": "100"},
        **{"SRUN_EXPORT_ENV": "x", "SBATCH_QOS": "y", "CUDA_VISIBLE_DEVICES": "0,1"},
    }
    step = subprocess.Popen(
        [sys.executable, "-m", "vrtspike.queueing.step", sys.executable, "-c", SHOW],
        env={**os.environ, **given},
        stdout=subprocess.PIPE,
        text=True,
    )
    seen = json.loads(step.communicate()[0])
    kept = ("SLURM_JOB_ID", "SLURM_CONF", "SLURM_SUBMIT_DIR", "HOME", "CUDA_VISIBLE_DEVICES")
    assert {name: seen.get(name) for name in given} == {
        name: value if name in kept else None for name, value in given.items()
    }


def test_its_status_is_the_programs():
    command = [sys.executable, "-m", "vrtspike.queueing.step", "sh", "-c", "exit 3"]
    assert subprocess.run(command, check=False).returncode == 3
