"""Weights are fetched whole and right, or not at all."""

from __future__ import annotations

import hashlib
from http.client import IncompleteRead
from pathlib import Path
from unittest.mock import Mock
from urllib.request import HTTPHandler

import pytest

from vrtspike.io import backbone_weights
from vrtspike.system.errors import RunError

NAME = "vgg16-397923af.pth"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to fetch from, whose one file passes for the published one."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / NAME).write_bytes(b"weights")
    monkeypatch.setitem(backbone_weights.PUBLISHED, NAME, hashlib.sha256(b"weights").hexdigest())
    return folder


def test_fetches_and_verifies(source, tmp_path):
    path = tmp_path / "new" / NAME
    backbone_weights.fetch_weights(path, source.as_uri())
    assert path.read_bytes() == b"weights"
    backbone_weights.require_published_digest(path)


def test_refuses_another_file_and_leaves_nothing(source, tmp_path, monkeypatch):
    (source / NAME).write_bytes(b"something else")
    path = tmp_path / "new" / NAME
    with pytest.raises(RunError, match=r"expected [0-9a-f]{64}; this is not the published file"):
        backbone_weights.fetch_weights(path, source.as_uri())
    assert list(path.parent.iterdir()) == []
    (source / NAME).unlink()
    faults = Mock(side_effect=[ConnectionResetError("gone"), IncompleteRead(b"")])
    monkeypatch.setattr(HTTPHandler, "http_open", faults)
    for place in (source.as_uri(), str(source), "http://reset", "http://cut"):
        with pytest.raises(RunError, match="fetch the file on another machine and put it at"):
            backbone_weights.fetch_weights(path, place)


def test_verification_names_what_is_wrong(tmp_path):
    path = tmp_path / NAME
    with pytest.raises(RunError, match=r"no such file; .*snakemake --cores 1 weights"):
        backbone_weights.require_published_digest(path)
    path.write_bytes(b"not them")
    with pytest.raises(RunError, match="remove it and fetch it again"):
        backbone_weights.require_published_digest(path)
    with pytest.raises(RunError, match=r"unknown weights; known: alexnet.*, vgg16"):
        backbone_weights.fetch_weights(tmp_path / "resnet.pth")
