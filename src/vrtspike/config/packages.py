"""Optional packages that a preset asks for."""

from __future__ import annotations

import importlib.util

from vrtspike.config.run_schema import RunSettings
from vrtspike.errors import ConfigError

_PACKAGES = {"WANDB": ("wandb", "wandb"), "MLFLOW": ("mlflow", "mlflow-skinny")}
"""By key of LOG: the module that is imported, and the package that brings it."""


def check_packages(settings: RunSettings) -> None:
    """Refuse loggers whose package is not installed.

    Raises:
        ConfigError: naming the key and the package.
    """
    for key, (module, package) in _PACKAGES.items():
        if getattr(settings.LOG, key) is not None and importlib.util.find_spec(module) is None:
            raise ConfigError(
                f"LOG.{key} needs the package {package}, which is not installed: "
                f"pip install {package}, or remove the key"
            )
