"""From a saturated e-graph to the cheapest plan: choice of representatives, tile search, covers, cost."""

from .covers import extract, extract_like

__all__ = ["extract", "extract_like"]
