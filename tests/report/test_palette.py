"""Figures are published in a palette: a line of few pixels keeps its colour beside bands of many."""

import io

import numpy as np
from PIL import Image

from flyrun.experiments.compare.publish import _small

OWN = (213, 94, 0)


def test_a_short_line_keeps_its_colour():
    """Median cut, which shares the palette by pixels, loses it."""
    shades = np.linspace(0, 255, 300)[:, None, None] * np.array([0.9, 0.6, 0.0])
    image = (
        np.broadcast_to(shades + np.arange(300)[:, None] / 10, (300, 300, 3)).clip(0, 255).astype(np.uint8)
    )
    image = image.copy()
    image[150, 100:140] = OWN
    png = io.BytesIO()
    Image.fromarray(image).save(png, "PNG")

    def off(small):
        there = np.asarray(small.convert("RGB"), int)[150, 100:140]
        return np.abs(there - OWN).max()

    assert off(Image.open(io.BytesIO(_small(png.getvalue())))) < 8
    assert off(Image.fromarray(image).quantize(256, dither=Image.Dither.NONE)) > 8
