"""Which kernels: covers of the outputs by cuts of the e-graph, and the search for the best."""

from .cover import Cover
from .extractor import Extractor, extract, extract_like

__all__ = ["Cover", "Extractor", "extract", "extract_like"]
