"""The preset that a run's findings propose."""

from __future__ import annotations

import copy
import io
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML

from vrtspike.analysis.finding import Finding
from vrtspike.config.run_schema import RunSettings

FILLING = frozenset(
    {"TRAIN.BATCH_SIZE", "TRAIN.GRADIENT_ACCUMULATION_STEPS"}
    | {"TRAIN.SCALE_LR", "TRAIN.BASE_BATCH_SIZE"}
    | {"MODEL.VRT.USE_CHECKPOINT_FFN", "MODEL.VRT.USE_CHECKPOINT_ATTN"}
)
"""Keys that say how much memory a step takes, and those of batches, which go together."""


def proposed_keys(findings: Sequence[Finding], settings: RunSettings) -> dict[str, Any]:
    """The changes of all findings together; where two disagree, the more important one wins.

    A change that the schema refuses in this preset is left out: a finding knows one key, the
    schema knows what goes together. Of several that fill the GPU's memory the first one is taken:
    each was counted alone.
    """
    accepted: dict[str, Any] = {}
    for finding in findings:
        keys = dict(finding.keys)
        if FILLING & accepted.keys():
            keys = {key: value for key, value in keys.items() if key not in FILLING}
        candidate = {**keys, **accepted}
        if _is_valid(candidate, settings):
            accepted = candidate
    return accepted


def preset_text(preset: str, keys: Mapping[str, Any], findings: Sequence[Finding]) -> str:
    """A preset file on top of ``preset`` that holds ``keys``, each with the figure behind it.

    Args:
        preset: name of the preset the run was trained with; the text names it as ``BASE``.
        keys: dotted keys and values.
        findings: where they come from.
    """
    lines = [f"# Proposed from a run of {preset}. Save as config/presets/<name>.yaml to use it."]
    if not keys:
        lines.append("# No finding proposes another value; this preset equals its base.")
    for key, value in keys.items():
        origin = next(f for f in findings if key in f.keys and f.keys[key] == value)
        lines.append(f"# {key}: {origin.symptom}: {origin.figure}")
    tree: dict[str, Any] = {"BASE": preset}
    for key, value in keys.items():
        _put(tree, key, value)
    stream = io.StringIO()
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.dump(tree, stream)
    return "\n".join(lines) + "\n" + stream.getvalue()


def _is_valid(keys: Mapping[str, Any], settings: RunSettings) -> bool:
    tree = copy.deepcopy(settings.model_dump(mode="json"))
    for key, value in keys.items():
        _put(tree, key, value)
    try:
        type(settings).model_validate(tree)
    except ValidationError:
        return False
    return True


def _put(tree: dict[str, Any], key: str, value: object) -> None:
    *sections, name = key.split(".")
    for section in sections:
        tree = tree.setdefault(section, {})
    tree[name] = value
