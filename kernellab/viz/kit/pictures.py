"""Small pictures of tiles: numbers as color codes, codes as PNG."""

from __future__ import annotations

import struct
import zlib

import numpy

from kernellab.viz.kit.palette import VIRIDIS

NAN, INFINITE = 255, 254
"""The codes of elements that are not finite;
the others go from 0, the smallest, to `LARGEST`."""

LARGEST = 249

TOUCHED = {"load": (220, 91, 0), "store": (27, 60, 255), "atomic": (27, 60, 255)}
"""The colors that mark the elements of an access: orange is read, blue is written.
With any color vision they differ from each other, from the scale, and from NaN and infinity."""


def _palette() -> numpy.ndarray:
    anchors = numpy.array(VIRIDIS, numpy.float64)
    places = numpy.linspace(0, len(anchors) - 1, LARGEST + 1)
    steps = numpy.arange(len(anchors))
    colors = numpy.zeros((256, 3), numpy.uint8)
    for channel in range(3):
        scale = numpy.interp(places, steps, anchors[:, channel])
        colors[: LARGEST + 1, channel] = numpy.rint(scale)
    colors[INFINITE], colors[NAN] = (255, 160, 255), (150, 0, 20)
    return colors


PALETTE = _palette()
"""Code -> red, green, blue."""


def codes_of(numbers: numpy.ndarray, scale: tuple[float, float] | None = None) -> numpy.ndarray:
    """The color codes of numbers, uint8: the smallest finite one is 0, the largest 249;
    equal ones are in the middle. `scale` says outright what 0 and 249 are.
    """
    codes = numpy.full(numbers.shape, LARGEST // 2, numpy.uint8)
    finite = numpy.isfinite(numbers)
    if finite.any():
        low, high = scale or (float(numbers[finite].min()), float(numbers[finite].max()))
        if high > low:
            scaled = (numbers[finite].astype(numpy.float64) - low) / (high - low)
            codes[finite] = numpy.rint(scaled * LARGEST).astype(numpy.uint8)
    codes[numpy.isinf(numbers)] = INFINITE
    codes[numpy.isnan(numbers)] = NAN
    return codes


def colored(codes: numpy.ndarray) -> numpy.ndarray:
    """Codes as colors, shape (rows, columns, 3)."""
    colors: numpy.ndarray = PALETTE[codes]
    return colors


def png(colors: numpy.ndarray) -> bytes:
    """A PNG file (ISO/IEC 15948) of a picture of shape (rows, columns, 3), uint8."""
    height, width, _ = colors.shape
    rows = numpy.zeros((height, 1 + 3 * width), numpy.uint8)  # filter type 0 before each row
    rows[:, 1:] = colors.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
