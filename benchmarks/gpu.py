"""Everything that a GPU can tell of the project in minutes: checks first, then speed and memory.

It needs PyTorch and the sources, nothing else; what else a part needs is named where it is missing.
Every part (``gpu_parts.py``) runs in a process of its own with a time limit, so that none stops
another, and the results are written after each: ``benchmarks/results/gpu_<device>.json``, from
which ``python benchmarks/presets.py --write`` puts the presets' figures into ``docs/presets.md``.

Examples:
    make gpu
    PYTHONPATH=src python benchmarks/gpu.py --list
    PYTHONPATH=src python benchmarks/gpu.py --only step profile --budget 200
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
from gpu_parts import PARTS, Part, Place

from vrtspike import cli
from vrtspike.errors import RunError
from vrtspike.files import finite_or_null, read_json, write_json

PROGRAM = Path(__file__).resolve()
REPOSITORY = PROGRAM.parent.parent
GOLDEN = REPOSITORY.parent / "shared/golden"
BUDGET = 480.0
LAST_LINES = 15


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts one after another, or one of them in this process."""
    options = parse(arguments)
    if options.list:
        for part in PARTS:
            print(f"{part.name:<20}{part.seconds:>5} s  {part.where}")
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
    add("--budget", type=float, default=BUDGET, help="seconds for all of them")
    add("--output", type=Path, default=REPOSITORY / "benchmarks/results")
    add("--golden", type=Path, default=GOLDEN, help="folder of the golden files")
    add("--list", action="store_true", help="list the parts and their limits")
    add("--part", choices=names, help=argparse.SUPPRESS)
    add("--answer", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def run_all(parts: Sequence[Part], place: Place, options: argparse.Namespace) -> int:
    """Run parts until the budget is spent; 1 if one of them failed."""
    name = device_name(place.device)
    path = options.output / f"gpu_{re.sub(r'[^a-z0-9]+', '_', name.lower()).strip('_')}.json"
    end = time.monotonic() + options.budget
    results: dict[str, Any] = {"schema": 1, "device": name, "parts": {}}
    for part in parts:
        left = end - time.monotonic()
        found = run_apart(part, place, min(left, part.seconds))
        results["parts"][part.name] = found
        options.output.mkdir(parents=True, exist_ok=True)
        write_json(path, results)
        reason = f": {found['reason'].splitlines()[0]}" if "reason" in found else ""
        print(f"{part.name:<20}{found['seconds']:>7.1f} s  {found['status']}{reason}", flush=True)
    print(f"written: {path}")
    return int(any(found["status"] == "failed" for found in results["parts"].values()))


def device_name(device: torch.device) -> str:
    """What the device is called."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def run_apart(part: Part, place: Place, seconds: float) -> dict[str, Any]:
    """Run a part in a process of its own.

    Returns:
        ``status`` (``ok``, ``failed``, ``not run``, ``cut off``), ``seconds``, ``figures``, and a
        ``reason`` unless all is well.
    """
    if seconds <= 0:
        return ended("not run", 0.0, {}, "no time left; give it a --budget")
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        answer, log = Path(folder) / "answer.json", Path(folder) / "log"
        command = [sys.executable, str(PROGRAM), "--device", str(place.device)]
        command += ["--golden", place.golden, "--part", part.name, "--answer", str(answer)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            status = wait(process, seconds)
        spent = time.monotonic() - start
        found = read_json(answer) if answer.is_file() else {"figures": {}}
        if status == 0 and "status" in found:
            return ended(found["status"], spent, found["figures"], found.get("reason"))
        if status is None:
            return ended("cut off", spent, found["figures"], f"its {seconds:.0f} s were over")
        last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        reason = "\n".join([f"its process ended with {status}", *last])
        return ended("failed", spent, found["figures"], reason)


def ended(
    status: str, seconds: float, figures: dict[str, Any], reason: str | None
) -> dict[str, Any]:
    """How a part ended."""
    found = {"status": status, "seconds": round(seconds, 1), "figures": figures}
    return found | ({} if reason is None else {"reason": reason})


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
    obstacle = part.obstacle(place)
    if obstacle is not None:
        write_json(answer, {"status": "not run", "figures": figures, "reason": obstacle})
        return
    reasons: list[str] = []
    # What a kernel is not used for is a warning, and worth knowing.
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default", UserWarning)
        try:
            for name, value in part.function()(place):
                figures[name] = finite_or_null(value)
                if isinstance(value, dict) and value.get("agrees") is False:
                    reasons.append(f"{name}: {value.get('reason', 'does not agree')}")
                write_json(answer, {"figures": figures})
        except Exception as error:  # whatever it is, the other parts go on
            traceback.print_exc()
            last = traceback.extract_tb(error.__traceback__)[-1]
            place_of = f"{Path(last.filename).name}:{last.lineno}"
            reasons.append(f"{type(error).__name__} at {place_of}: {error}")
    notes = list(dict.fromkeys(str(warning.message)[:500] for warning in told))
    if notes:
        figures["warnings"] = notes
    answered: dict[str, Any] = {"status": "failed" if reasons else "ok", "figures": figures}
    write_json(answer, answered | ({"reason": "\n".join(reasons)} if reasons else {}))


if __name__ == "__main__":
    cli.run(main)
