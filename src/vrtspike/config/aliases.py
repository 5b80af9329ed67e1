"""Older and alternative names of keys, replaced by those of the schema."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class DeprecatedKey:
    """A key of older files that has no effect.

    Attributes:
        decided_by: what has its effect now.
        only: the only value it may have; None for any.
    """

    decided_by: str
    only: object = None


@dataclass(frozen=True)
class Aliases:
    """Names of keys and values that files may use beside those of the schema.

    Attributes:
        renamed: other name to the schema's name; two different values are an error.
        deprecated: keys that are ignored, with a warning.
        values: by key, former values and their replacements, used with a warning.
    """

    renamed: Mapping[KeyPath, KeyPath] = field(default_factory=dict)
    deprecated: Mapping[KeyPath, DeprecatedKey] = field(default_factory=dict)
    values: Mapping[KeyPath, Mapping[str, str]] = field(default_factory=dict)

    def __or__(self, other: Aliases) -> Aliases:
        """Both."""
        return Aliases(
            {**self.renamed, **other.renamed},
            {**self.deprecated, **other.deprecated},
            {**self.values, **other.values},
        )


COMMON = Aliases(
    renamed={
        ("TOTAL_WORKERS",): ("DATALOADER", "TOTAL_WORKERS"),
        ("TRAIN", "NUM_WORKERS"): ("DATALOADER", "TRAIN_WORKERS"),
        ("TRAIN", "AMP_ENABLED"): ("TRAIN", "PRECISION"),
        ("TRAIN", "AMP_OPT_LEVEL"): ("TRAIN", "PRECISION"),
    },
    deprecated={
        ("LOG", "SAVE_DIR"): DeprecatedKey("runs are written to RUNS of config/config.yaml"),
        ("TRAIN", "CUDA_GRAPH"): DeprecatedKey(
            "TRAIN.COMPILE_MODE reduce-overhead brings PyTorch's own CUDA graphs"
        ),
        ("TRAIN", "SCHED", "TYPE"): DeprecatedKey("the learning rate follows a cosine", "cosine"),
    },
)
"""Those of every preset; a problem adds its own (``aliases`` of its settings)."""

_PRECISION_OF_LEVEL = {"O0": "32", "O1": "mixed", "O2": "bf16-true"}


def canonical_keys(
    tree: dict[str, Any], aliases: Aliases, places: Mapping[KeyPath, str] | None = None
) -> dict[str, Any]:
    """A copy of one file's mapping with the schema's names of keys.

    Deprecated keys and values give a DeprecationWarning.

    Args:
        tree: the mapping.
        aliases: of the presets' problem.
        places: file and line of each key, for warnings.

    Raises:
        ValueError: if a key is given under two names with different values, or a deprecated key has
            a value that is no longer possible.

    >>> canonical_keys({"TOTAL_WORKERS": 4, "TRAIN": {"AMP_OPT_LEVEL": "O2"}}, COMMON)
    {'TRAIN': {'PRECISION': 'bf16-true'}, 'DATALOADER': {'TOTAL_WORKERS': 4}}
    """
    result = copy.deepcopy(tree)
    _remove_deprecated(result, aliases, places or {})
    _replace_values(result, aliases, places or {})
    _translate_amp(result)
    for old, new in aliases.renamed.items():
        parent = _mapping(result, old[:-1])
        if parent is None or parent.get(old[-1]) is None:
            if parent is not None:
                parent.pop(old[-1], None)  # runs of older versions have null for unset keys
            continue
        target: Any = result
        for name in new[:-1]:
            target = target.setdefault(str(name), {}) if isinstance(target, dict) else None
        if not isinstance(target, dict):
            continue  # not a section; the schema refuses it and names the line
        value = parent.pop(old[-1])
        if target.setdefault(str(new[-1]), value) != value:
            raise ValueError(
                f"{dotted(new)} is {target[str(new[-1])]!r} and {dotted(old)} is {value!r}; "
                "they are the same key: keep one"
            )
    return result


def dotted(path: KeyPath) -> str:
    """``TRAIN.OPTIM.LR`` for its path.

    >>> dotted(("TRAIN", "BETAS", 0))
    'TRAIN.BETAS.0'
    """
    return ".".join(str(part) for part in path)


def _mapping(tree: dict[str, Any], path: KeyPath) -> dict[Any, Any] | None:
    node: Any = tree
    for name in path:
        if not isinstance(node, dict):
            return None
        node = node.get(name)
    return node if isinstance(node, dict) else None


def _remove_deprecated(
    tree: dict[str, Any], aliases: Aliases, places: Mapping[KeyPath, str]
) -> None:
    for path, key in aliases.deprecated.items():
        parent = _mapping(tree, path[:-1])
        if parent is None or path[-1] not in parent:
            continue
        value = parent.pop(path[-1])
        if key.only is not None and value != key.only:
            raise ValueError(
                f"{dotted(path)} is {value!r}, expected {key.only!r}: {key.decided_by}; "
                "remove the key"
            )
        _warn_deprecated(path, places, f"has no effect: {key.decided_by}; remove the key")


def _replace_values(tree: dict[str, Any], aliases: Aliases, places: Mapping[KeyPath, str]) -> None:
    for path, replaced in aliases.values.items():
        parent = _mapping(tree, path[:-1])
        value = None if parent is None else parent.get(path[-1])
        if parent is not None and isinstance(value, str) and value in replaced:
            parent[path[-1]] = replaced[value]
            message = f"is {value}, which no longer exists; {replaced[value]} is used instead"
            _warn_deprecated(path, places, message)


def _warn_deprecated(path: KeyPath, places: Mapping[KeyPath, str], message: str) -> None:
    place = f"{places[path]}: " if path in places else ""
    warnings.warn(f"{place}{dotted(path)} {message}", DeprecationWarning, stacklevel=4)


def _translate_amp(tree: dict[str, Any]) -> None:
    """Replace AMP_ENABLED and AMP_OPT_LEVEL by PRECISION."""
    train = _mapping(tree, ("TRAIN",))
    if train is None:
        return
    if train.get("PRECISION") == 32:  # YAML reads the precision '32' as a number
        train["PRECISION"] = "32"
    if not {"AMP_ENABLED", "AMP_OPT_LEVEL"} & train.keys():
        return
    enabled = train.pop("AMP_ENABLED", True)
    level = train.pop("AMP_OPT_LEVEL", "O1")
    if enabled not in (True, False, "on", "off"):
        raise ValueError(f"TRAIN.AMP_ENABLED is {enabled!r}, expected true or false")
    if level not in _PRECISION_OF_LEVEL:
        raise ValueError(f"TRAIN.AMP_OPT_LEVEL is {level!r}, expected O0, O1 or O2")
    precision = _PRECISION_OF_LEVEL[level] if enabled in (True, "on") else "32"
    if train.setdefault("PRECISION", precision) != precision:
        raise ValueError(
            f"TRAIN.PRECISION is {train['PRECISION']!r} but AMP_ENABLED and AMP_OPT_LEVEL mean "
            f"{precision!r}; keep PRECISION alone"
        )
