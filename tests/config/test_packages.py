from __future__ import annotations

import importlib.util

import pytest

from vrtspike.config.packages import check_packages
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import ConfigError


@pytest.mark.parametrize(("key", "package"), [("WANDB", "wandb"), ("MLFLOW", "mlflow-skinny")])
def test_a_logger_whose_package_is_missing_is_told(monkeypatch, key, package):
    settings = Settings.model_validate({"LOG": {key: "mine"}})
    found = importlib.util.find_spec
    absent = {package.partition("-")[0]}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in absent else found(name)
    )
    with pytest.raises(ConfigError, match=f"LOG.{key} needs the package {package}, .*pip install"):
        check_packages(settings)
    # Another one's absence is no matter.
    absent = {"wandb", "mlflow"} - absent
    check_packages(Settings())
