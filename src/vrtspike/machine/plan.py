"""The configuration of the project in this folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vrtspike.config.merging import parse_overrides
from vrtspike.config.workflow import Workflow, load_workflow
from vrtspike.errors import UserError


def read_plan(configfiles: Sequence[Path], overrides: Sequence[str]) -> Workflow:
    """The configuration of this folder's project.

    Args:
        configfiles: laid over ``config/config.yaml``.
        overrides: ``KEY=value``, as ``--config`` of snakemake takes them.

    Raises:
        UserError: if there is none here, or it is wrong.
    """
    main = Path("config/config.yaml")
    if not main.is_file():
        raise UserError(f"{Path.cwd()}: no {main} here; go to the project's folder first")
    return load_workflow([main, *configfiles], parse_overrides(overrides, "--config").tree)
