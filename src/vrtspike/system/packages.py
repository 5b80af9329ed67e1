"""Packages that cannot be imported: commands that install a missing or repair a broken one."""

from __future__ import annotations

import re
import sys
import traceback
from importlib import metadata

from vrtspike.system.errors import install_advice

_PROJECT = "vrtspike"

_DISTRIBUTIONS = {
    "cv2": "opencv-python-headless",
    "mlflow": "mlflow-skinny",
    "pynvml": "nvidia-ml-py",
    "ruamel": "ruamel.yaml",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "skvideo": "scikit-video",
}
"""Names of packages by their modules, where these differ.

Metadata have the names of installed packages, not of missing ones.
"""

_WHOLE = "workflow"
"""The extra with all packages of the workflow, and so with all that these depend on."""

_NAME = re.compile(r"[\w.-]+")
_EXTRA = re.compile(r"""\bextra\s*==\s*["']([^"']+)["']""")


def import_fault(error: ImportError) -> str:
    """Return a message on a package that is missing or cannot be loaded, with the remedy.

    Args:
        error: error on a module that does not belong to this project.
    """
    module = _failed_module(error)
    if module in sys.stdlib_module_names and isinstance(error, ModuleNotFoundError):
        return (
            f"this Python ({sys.executable}) was built without the module {module} of its standard "
            "library; make the environment with another one, see docs/install.md"
        )
    installed = metadata.packages_distributions().get(module, [])
    if installed:
        name = installed[0]
        version = metadata.version(name)
        return (
            f"the package {name} {version} is installed, but cannot be imported ({error}); install "
            f"what it lacks, or install it again: pip install --force-reinstall --no-deps "
            f"{name}=={version}"
        )
    if isinstance(error, ModuleNotFoundError):
        return missing_package(module)
    return f"a package cannot be imported ({error}); make the environment anew, see docs/install.md"


def missing_package(module: str) -> str:
    """Return a message on a package that is not installed, with the extra that contains it.

    Args:
        module: name of the module as it is imported.
    """
    return (
        f"the package {distribution_name(module)} is missing; "
        f"{install_advice(extra_providing(module))}"
    )


def distribution_name(module: str) -> str:
    """Return the name under which a module's package is installed."""
    return _DISTRIBUTIONS.get(module, module)


def extra_providing(module: str) -> str:
    """Return the smallest extra of this project that contains the package of a module.

    Returns:
        The empty text for a package that is installed without extras; ``workflow`` for a package
        that no extra names (a dependency of another package), and if this project is not installed.

    >>> extra_providing("huggingface_hub")
    'hub'
    >>> extra_providing("torch")
    ''
    """
    wanted = _normalize(distribution_name(module))
    extras = _packages_of_extras()
    candidates = [extra for extra, packages in extras.items() if wanted in packages]
    return min(candidates, key=lambda extra: len(extras[extra]), default=_WHOLE)


def _packages_of_extras() -> dict[str, set[str]]:
    """Return the normalised names of each extra's packages; the empty text means no extra.

    Packages of extras within extras are left out: the inner extra is smaller.
    """
    try:
        lines = metadata.requires(_PROJECT) or []
    except metadata.PackageNotFoundError:
        return {}
    extras: dict[str, set[str]] = {}
    for line in lines:
        name = _NAME.match(line)
        assert name is not None
        match = _EXTRA.search(line)
        extra = match[1] if match is not None else ""
        extras.setdefault(extra, set()).add(_normalize(name[0]))
    return extras


def _normalize(name: str) -> str:
    """Return a package's name in one spelling, as metadata of tools differ."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _failed_module(error: ImportError) -> str:
    """Return the top-level module of an error: the imported one, or the one that raised it."""
    if error.name:
        return error.name.partition(".")[0]
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    raised_in: str = frames[-1].f_globals.get("__name__", "") if frames else ""
    return raised_in.partition(".")[0]
