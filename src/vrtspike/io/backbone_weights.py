"""Published weights of pretrained backbones, verified by SHA-256."""

from __future__ import annotations

import http.client
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vrtspike.io.files import atomic_path, file_digest
from vrtspike.system.errors import RunError

if TYPE_CHECKING:
    import torch

ALEXNET = "alexnet-owt-7be5be79.pth"
VGG16 = "vgg16-397923af.pth"

PUBLISHED = {
    ALEXNET: "7be5be791159472b1fbf3c69796f7cb30dca7ad8466c2df70058c37116cdee02",
    VGG16: "397923af8e79cdbb6a7127f12361acd7a2f83e06b05044ddf496e83de57a5bf0",
}
"""SHA-256 of torchvision's ImageNet weights, by their published file names."""

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet's RGB values (0 to 1), by which published networks
standardise their input."""

Net = Literal["alex", "vgg"]

BACKBONES: dict[Net, str] = {"alex": ALEXNET, "vgg": VGG16}
"""File of each backbone of LPIPS."""

SOURCE = "https://download.pytorch.org/models"


def require_published_digest(path: Path) -> None:
    """Verify the SHA-256 of a file of :data:`PUBLISHED` weights.

    Raises:
        RunError: if the file is missing or its SHA-256 is another.
    """
    require_weights(path)
    _compare(path, path.name)


def require_weights(path: Path) -> None:
    """Reject a missing file of published weights.

    Raises:
        RunError: if it is missing.
    """
    if not path.is_file():
        raise RunError(
            f"{path}: no such file; `snakemake --cores 1 weights` fetches and verifies it"
        )


def read_backbone(folder: str | Path, name: str) -> dict[str, torch.Tensor]:
    """Return the state dictionary in a file of published weights, on the CPU.

    Args:
        folder: folder of the weights (WEIGHTS.DIR).
        name: the file's published name.

    Raises:
        RunError: if the file is missing, or is not the published one.
    """
    import torch

    path = Path(folder) / name
    require_published_digest(path)
    state: dict[str, torch.Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def fetch_weights(path: Path, source: str = SOURCE) -> None:
    """Download published weights to ``path`` and verify their SHA-256.

    Args:
        path: path of the file to write, with its published name.
        source: URL of the folder.

    Raises:
        RunError: if the name is unknown, the download fails, or the SHA-256 differs.
    """
    if path.name not in PUBLISHED:
        raise RunError(f"{path}: unknown weights; known: {', '.join(PUBLISHED)}")
    address = f"{source}/{path.name}"
    with atomic_path(path) as temporary:
        try:
            with urllib.request.urlopen(address, timeout=60) as response:
                contents = response.read()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RunError(
                f"{address}: cannot be fetched ({error}); fetch the file on another machine and "
                f"put it at {path}"
            ) from error
        temporary.write_bytes(contents)
        _compare(temporary, address)


def _compare(path: Path, source: str) -> None:
    """Reject a file that is not the published one.

    Args:
        path: path of the downloaded copy.
        source: path or URL of the file, which ends with its published name.
    """
    digest = file_digest(path)
    expected = PUBLISHED[Path(source).name]
    if digest != expected:
        raise RunError(
            f"{source}: found SHA-256 {digest}, expected {expected}; this is not the published "
            "file: remove it and fetch it again"
        )
