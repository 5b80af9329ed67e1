"""Kinds of pictures of restored frames, and their words on pages."""

from __future__ import annotations

from vrtspike.reporting.error_maps import ERROR_TOP
from vrtspike.reporting.page_data import Gallery

TOPS = {"error": ERROR_TOP, "difference": 2 * ERROR_TOP, "residual": ERROR_TOP // 4}
"""Grey values that maps show in the brightest colour."""

_TITLES = {
    "blurry": "Blurry",
    "restored": "Restored",
    "sharp": "Sharp",
    "spikes": "Spike image",
    "error": "Error map",
    "difference": "Difference",
    "residual": "Blurred again",
}

_AT_BOUNDARY = ("blurry", "restored")

_NOTES = {
    "spikes": "The spike image is what the sensor saw, made from its spikes alone.",
    "error": "The error map is the distance of restored and sharp, mean over the colours: black is "
    "0, the lightest colour {top} or more of 255 grey values.",
    "difference": "The difference is the distance of restored and blurry, mean over the colours: "
    "the lightest colour is {top} or more of 255 grey values.",
    "residual": "Blurred again: the restored frame, with the blur that the spikes measure added, "
    "against the blurry frame. Black is equal, the lightest colour {top} or more of 255 grey "
    "values.",
}


GALLERY: Gallery = {
    "kinds": [
        {
            "name": name,
            "title": title,
            "is_beside": name not in _AT_BOUNDARY,
            "note": _NOTES.get(name, "").format(top=TOPS.get(name)),
            "top": TOPS.get(name),
        }
        for name, title in _TITLES.items()
    ],
    "left": "blurry",
    "right": "restored",
    "by": "Restored by",
}
"""All kinds of pictures of restored frames; pages show those that a frame has."""
