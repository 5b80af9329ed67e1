"""What only a GPU can tell of the project: what decides in 8 minutes, the rest in 20 more.

First come agreement of the kernels with their references, CUDA graphs, and training steps beside
those of PyTorch's own operations; then all other checks and measurements. PyTorch and the sources
are enough; what else a part needs is named where it is missing. Every part (``gpu_parts.py``) runs
in a process of its own with a time limit, so that none stops another. The results are written after
each: ``benchmarks/results/gpu_<device>.json``, from which ``python benchmarks/presets.py --write``
puts the presets' figures into ``docs/presets.md``. The exit status is 1 unless all parts are done
and agree.

Examples:
    make gpu
    PYTHONPATH=src python benchmarks/gpu.py --list
    PYTHONPATH=src python benchmarks/gpu.py --budget 480        # what decides, nothing else
    PYTHONPATH=src python benchmarks/gpu.py --only steps golden  # leaves other results as they are
    PYTHONPATH=src python benchmarks/gpu.py --device cpu --output /tmp   # tries the parts, tiny
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from gpu_parts import PARTS, NotRun, Part, Place
from vrtspike.errors import RunError
from vrtspike.io.files import finite_or_null, read_json, write_json
from vrtspike.system import cli

PROGRAM = Path(__file__).resolve()
REPOSITORY = PROGRAM.parent.parent
GOLDEN = REPOSITORY.parent / "shared/golden"
SCHEMA = 2
LAST_LINES = 15
CPU_FACTOR = 5
"""Times its limit a part may take without a GPU, where it shares a few cores with others."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts one after another, or one of them in this process."""
    options = parse(arguments)
    if options.list:
        for part in PARTS:
            print(f"{part.name:<28}{part.seconds:>5} s  {part.where}")
        return 0
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RunError("no GPU here that PyTorch can use; --device cpu tries the parts without one")
    place = Place(device, str(options.golden))
    if options.part:
        (part,) = (part for part in PARTS if part.name == options.part)
        run_here(part, place, options.answer)
        return 0
    return run_all([part for part in PARTS if part.name in options.only], place, options)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [part.name for part in PARTS]
    add = parser.add_argument
    add("--device", default="cuda", help="cuda, or cpu to try the parts at tiny sizes")
    add("--only", nargs="+", choices=names, default=names, metavar="NAME", help="these parts")
    limits = sum(part.seconds for part in PARTS)
    add("--budget", type=float, default=limits, help="seconds for all of them, %(default)s")
    add("--output", type=Path, default=REPOSITORY / "benchmarks/results")
    add("--golden", type=Path, default=GOLDEN, help="folder of the golden files")
    add("--list", action="store_true", help="list the parts and their limits")
    add("--part", choices=names, help=argparse.SUPPRESS)
    add("--answer", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def run_all(parts: Sequence[Part], place: Place, options: argparse.Namespace) -> int:
    """Run parts until the budget is spent; 1 unless every one of them is done and agrees."""
    end = time.monotonic() + options.budget
    name = device_name(place.device)
    path = options.output / f"gpu_{re.sub(r'[^a-z0-9]+', '_', name.lower()).strip('_')}.json"
    options.output.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"schema": SCHEMA, "device": name, "parts": {}}
    if len(parts) < len(PARTS) and path.is_file() and read_json(path)["schema"] == SCHEMA:
        results = read_json(path)
    unsuccessful = []
    for part in parts:
        limit = part.seconds * (CPU_FACTOR if place.small else 1)
        found = run_apart(part, place, min(end - time.monotonic(), limit))
        results["parts"][part.name] = found
        write_json(path, results)
        reason = found.get("reason", "").partition("\n")[0]
        status = f"{found['status']}: {reason}" if reason else found["status"]
        print(f"{part.name:<28}{found['seconds']:>7.1f} s  {status}", flush=True)
        if found["status"] != "ok":
            unsuccessful.append(f"{part.name}: {status}")
    print(f"written: {path}")
    if unsuccessful:
        done = len(parts) - len(unsuccessful)
        print("\n".join([f"{done} of {len(parts)} parts are ok; these are not:", *unsuccessful]))
    return int(bool(unsuccessful))


def device_name(device: torch.device) -> str:
    """What the device is called."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def run_apart(part: Part, place: Place, seconds: float) -> dict[str, Any]:
    """Run a part in a process of its own.

    Returns:
        ``status`` (``ok``, ``failed``, ``not run``, ``cut off``), ``seconds``, ``figures``, and a
        ``reason`` unless all is well.
    """
    found: dict[str, Any] = {"status": "not run", "seconds": 0.0, "figures": {}}
    if seconds <= 0:
        return found | {"reason": "no time left; give it a --budget"}
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        answer, log = Path(folder) / "answer.json", Path(folder) / "log"
        command = [sys.executable, str(PROGRAM), "--device", str(place.device)]
        command += ["--golden", place.golden, "--part", part.name, "--answer", str(answer)]
        # Without a GPU, Triton's interpreter runs the kernels.
        environment = {**os.environ, **({"TRITON_INTERPRET": "1"} if place.small else {})}
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, env=environment, start_new_session=True
            )
            status = wait(process, seconds)
        found["seconds"] = round(time.monotonic() - start, 1)
        answered = read_json(answer) if answer.is_file() else {}
        found |= answered
        if status is None:
            found |= {"status": "cut off", "reason": f"its {seconds:.0f} s were over"}
        elif status or "status" not in answered:
            last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
            reason = "\n".join([f"its process ended with {status}", *last])
            found |= {"status": "failed", "reason": reason}
    return found


def wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """A process's exit status; None where it had to be stopped with all it started."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        # What it started must not go on computing beside the next part.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_here(part: Part, place: Place, answer: Path) -> None:
    """Run a part in this process and keep an account of it in a file."""
    figures: dict[str, Any] = {}
    reasons: list[str] = []
    status = "ok"
    # What a kernel is not used for is a warning, and worth knowing.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", UserWarning)
        try:
            for name, value in part.run(place):
                figures[name] = finite_or_null(value)
                write_json(answer, {"figures": figures})
        except NotRun as error:
            status, reasons = "not run", [str(error)]
        except Exception as error:  # whatever it is, the other parts go on
            traceback.print_exc()
            last = traceback.extract_tb(error.__traceback__)[-1]
            place_of = f"{Path(last.filename).name}:{last.lineno}"
            status, reasons = "failed", [f"{type(error).__name__} at {place_of}: {error}"]
    differing = disagreements(figures)
    if differing:
        status, reasons = "failed", [*differing, *reasons]
    notes = list(dict.fromkeys(str(warning.message)[:500] for warning in caught))
    if notes:
        figures["warnings"] = notes
    answered: dict[str, Any] = {"status": status, "figures": figures}
    write_json(answer, answered | ({"reason": "\n".join(reasons)} if reasons else {}))


def disagreements(value: Any, name: str = "") -> list[str]:  # noqa: ANN401 - JSON
    """What does not agree among figures, at any depth, with the reason."""
    if not isinstance(value, dict):
        return []
    found = [each for key in value for each in disagreements(value[key], f"{name} {key}".strip())]
    if value.get("agrees") is False:
        found.insert(0, f"{name}: {value.get('reason', 'does not agree')}")
    return found


if __name__ == "__main__":
    cli.run(main)
