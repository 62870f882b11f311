"""Figures for the chapters: one call makes the picture, its caption and its alternative text.

Every function returns a :class:`Figure`; :class:`Interactive` is one that the reader changes. A notebook shows it as an
HTML figure whose image has the alternative text. So the book can be read with a screen reader, and the caption stays
with the picture on Colab.
"""

from d2lbert.plots.attention_view import AttentionView
from d2lbert.plots.charts import bars, curves, heat_map, heat_maps, points
from d2lbert.plots.diagram import Diagram
from d2lbert.plots.figure import Figure
from d2lbert.plots.interactive import Interactive

__all__ = ["AttentionView", "Diagram", "Figure", "Interactive", "bars", "curves", "heat_map", "heat_maps", "points"]
