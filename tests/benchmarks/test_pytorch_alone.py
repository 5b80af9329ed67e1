"""The models are made and run where nothing but PyTorch is installed."""

from __future__ import annotations

import subprocess
import sys
import textwrap

PROGRAM = """
    import importlib.metadata as metadata, re, sys

    def needed(package, found):
        "What PyTorch brings along, by the names of its distributions."
        found.add(package)
        for line in metadata.requires(package) or ():
            name = re.split(r"[^A-Za-z0-9._-]", line)[0]
            if "extra ==" in line or name in found:
                continue
            try:
                needed(name, found)
            except metadata.PackageNotFoundError:
                pass
        return found

    allowed = needed("torch", {"numpy"})
    modules = {
        module: {re.sub("_", "-", name.lower()) for name in names}
        for module, names in metadata.packages_distributions().items()
    }

    class Finder:
        def __init__(self, finder):
            self.finder = finder

        def find_spec(self, name, path=None, target=None):
            known = modules.get(name.partition(".")[0], {"vrtspike"})
            hidden = not known & (allowed | {"vrtspike"})
            return None if hidden else self.finder.find_spec(name, path, target)

    sys.meta_path[:] = map(Finder, sys.meta_path)
    try:
        import pydantic
    except ModuleNotFoundError:
        pass
    else:
        raise SystemExit("pydantic is not hidden")

    sys.path.insert(0, sys.argv[1])
    import gpu_agreement
    import gpu_parts
    import gpu_steps
    import gpu_training
    import presets
    import torch

    model = presets.build(presets.load("demo"), 16)
    model(*presets.inputs(presets.load("demo"), 16, 1)).sum().backward()
    place = gpu_parts.Place(torch.device("cpu"), "nowhere")
    for part in gpu_parts.PARTS:
        if part.name not in ("machine", "steps", "golden", "memory categories"):
            continue
        try:
            next(part.run(place))
            print(part.name, "| ran")
        except gpu_parts.NotRun as error:
            print(part.name, "|", error)
"""


def test_pytorch_is_enough(repository) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(repository / "benchmarks")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcomes = dict(line.split(" | ") for line in done.stdout.splitlines())
    assert outcomes["machine"] == outcomes["steps"] == "ran"
    assert outcomes["golden"] == "needs the package safetensors"
    assert outcomes["memory categories"] == "needs the package psutil, pynvml"
