"""The keys of DATA that decide the contents of stores, as programs and manifests hold them.

A further such key is declared in :class:`vrtspike.deblurring_settings.data.DataSettings` and here;
rules, programs and manifests pass :class:`StoreOptions` on as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, cast

from pydantic import BaseModel, Field

from vrtspike.io.manifests import Manifest

if TYPE_CHECKING:
    from vrtspike.deblurring_settings.data import DataSettings


class StoreOptions(BaseModel, frozen=True, extra="forbid"):
    """Options of the stores of a data set; their names are those of the entries in manifests.

    Attributes:
        bins: K, the bins of a voxel grid.
        context: maximum spike steps before and after an exposure that its bins include.
    """

    bins: int = Field(ge=1, title="DATA.NUM_VOXEL_BINS")
    context: int = Field(default=0, ge=0, title="DATA.CONTEXT_STEPS")

    @classmethod
    def from_settings(cls, data: DataSettings) -> Self:
        """Return the options of the stores that a preset reads."""
        return cls(bins=data.NUM_VOXEL_BINS, context=data.CONTEXT_STEPS)

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, object]) -> Self:
        """Return the options in a manifest of a store or a data set.

        An option that is younger than the manifest has its default.
        """
        entries: dict[str, Any] = {
            name: manifest[name] for name in cls.model_fields if name in manifest
        }
        # The stage that wrote them has checked them.
        return cls.model_construct(**entries)

    def add_to(self, manifest: Manifest) -> Manifest:
        """Return a manifest with the options as further entries, for :meth:`from_manifest`.

        >>> StoreOptions(bins=8).add_to({"schema": 4})
        {'schema': 4, 'bins': 8, 'context': 0}
        """
        return cast("Manifest", {**manifest, **self.model_dump()})

    @property
    def by_key(self) -> dict[str, object]:
        """The value of each key.

        >>> StoreOptions(bins=8).by_key
        {'DATA.NUM_VOXEL_BINS': 8, 'DATA.CONTEXT_STEPS': 0}
        """
        fields = type(self).model_fields
        return {str(fields[name].title): value for name, value in self}

    @property
    def suffix(self) -> str:
        """The suffix of a data set's name for options other than the defaults.

        The bins are left out: stores with other bins are in another folder of the data set.

        >>> StoreOptions(bins=8).suffix, StoreOptions(bins=8, context=4).suffix
        ('', '-context4')
        """
        changed = self.model_dump(exclude={"bins"}, exclude_defaults=True)
        return "".join(f"-{name}{value}" for name, value in changed.items())
