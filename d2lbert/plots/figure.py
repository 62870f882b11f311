"""A drawn picture with its caption and its alternative text."""

from __future__ import annotations

import base64
import html
import io
from typing import Any

import matplotlib.pyplot as plt

_DOTS_PER_INCH = 130


class Figure:
    """A drawn picture with a caption (what to see in it) and alternative text (what it shows, in words)."""

    def __init__(self, figure: plt.Figure, caption: str, alt: str) -> None:
        plt.close(figure)  # out of pyplot's list, so that a notebook does not show it a second time
        if not caption or not alt:
            raise ValueError("a figure needs a caption and an alternative text")
        self.caption = caption
        self.alt = alt
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=_DOTS_PER_INCH, bbox_inches="tight", facecolor="white")
        self.png = stream.getvalue()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        image = base64.b64encode(self.png).decode("ascii")
        markup = (
            '<figure style="margin: 1em 0">'
            f'<img src="data:image/png;base64,{image}" alt="{html.escape(self.alt, quote=True)}" '
            'style="max-width: 100%; height: auto; background: white">'
            f"<figcaption>{html.escape(self.caption)}</figcaption></figure>"
        )
        return {"text/html": markup, "text/plain": f"[Figure: {self.caption}]"}
