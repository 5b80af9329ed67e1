"""Takes the place of scripts/launch_training.py: writes records of given times, at once.

``plan.json`` in the working directory has an entry for each turn; each turn appends its arguments,
configuration and settings to ``asked.jsonl``. ``test_benchmark.py`` also times the real program.
"""

import argparse
import json
import signal
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
for option in ("preset", "configfile", "dataset", "output", "log"):
    parser.add_argument(f"--{option}", required=True)
arguments = parser.parse_args()
requests, plan = Path("asked.jsonl"), json.loads(Path("plan.json").read_text())
number = len(requests.read_text().splitlines()) if requests.exists() else 0
turn = plan[number]
workflow = json.loads(Path(arguments.configfile).read_text())
settings = json.loads(Path(workflow["PRESET_DIR"], f"{arguments.preset}.yaml").read_text())
with requests.open("a") as stream:
    stream.write(json.dumps({**vars(arguments), "workflow": workflow, "settings": settings}) + "\n")

for line in turn.get("said", []):
    print(line, flush=True)
if "fails" in turn:
    Path(arguments.log).write_text("".join(f"line {n}\n\n" for n in range(40)))
    print(f"error: {turn['fails']}", file=sys.stderr)
    sys.exit(2)

stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
run = Path(workflow["RUNS"], arguments.preset, "0123456789ab")
(run / "logs").mkdir(parents=True)
record = {
    "status": "running",
    "processes": 1,
    "environment": {"device": {"type": "cpu", "name": turn.get("device", "abacus")}},
}
(run / "run.json").write_text(json.dumps(record))
with (run / "logs/memory.jsonl").open("w") as stream:
    for mb in turn["mb"]:
        gpu = None if mb is None else {"peak_mb": mb}
        line = {"kind": "memory", "process_peak_mb": 900, "children_mb": 100, "gpu": gpu}
        stream.write(json.dumps(line) + "\n")
lines = [{"kind": "work", "flops_per_sample": 1.0}]
lines += [
    {
        "kind": "step",
        "step": step,
        "samples": settings["TRAIN"]["BATCH_SIZE"],
        "ms": {"step/data": 1.0, "step": ms},
    }
    for step, ms in enumerate(turn["ms"], start=1)
]
with (run / "logs/timing_20251021-120000.jsonl").open("w") as stream:
    for line in lines:
        if line is lines[-1]:
            time.sleep(turn.get("last_after_s", 0))
        stream.write(json.dumps(line) + "\n")
        stream.flush()
while not stopped:
    time.sleep(0.01)
sys.exit(75)
