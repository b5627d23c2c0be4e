"""Grids of numbers as small PNG images inside a page: a heat map of a thousand rows is one element, not a million."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import numpy.typing as npt

__all__ = ["heat_image", "palette_image"]

# From zero over yellow and red to dark red; opacity grows too, so that both themes of the page work.
_STOPS = np.array([[254, 240, 138, 90], [251, 191, 36, 210], [239, 68, 68, 255], [127, 29, 29, 255]], dtype=float)


def heat_image(cells: npt.NDArray[np.float64], top: float) -> str:
    """A data URI of an image with one pixel per cell; 0 is transparent, `top` dark red."""
    share = np.clip(cells / top, 0.0, 1.0) if top > 0 else np.zeros_like(cells)
    at = share * (len(_STOPS) - 1)
    below = np.minimum(at.astype(int), len(_STOPS) - 2)
    mixed = _STOPS[below] + (_STOPS[below + 1] - _STOPS[below]) * (at - below)[..., None]
    pixels = mixed.round().astype(np.uint8)
    pixels[cells <= 0] = 0
    return _data_uri(pixels)


def palette_image(cells: npt.NDArray[np.uint8], colours: list[str]) -> str:
    """A data URI of an image with one pixel per cell, coloured by number; an empty colour is transparent."""
    table = np.array([_rgba(colour) for colour in colours], dtype=np.uint8)
    return _data_uri(table[cells])


def _rgba(colour: str) -> tuple[int, int, int, int]:
    if not colour:
        return 0, 0, 0, 0
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16), 255


def _data_uri(pixels: npt.NDArray[np.uint8]) -> str:
    return "data:image/png;base64," + base64.b64encode(_png(pixels)).decode()


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """PNG of [rows, columns, RGBA]."""
    height, width, _ = pixels.shape
    # Every row begins with its filter type: 0, none.
    rows = np.concatenate((np.zeros((height, 1), np.uint8), pixels.reshape(height, width * 4)), axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    data = zlib.compress(rows.tobytes(), 9)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
