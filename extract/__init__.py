"""From a saturated e-graph to the cheapest plan: choice of representatives, tile search, covers, cost."""

from .cover import extract

__all__ = ["extract"]
