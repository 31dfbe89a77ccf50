"""A plan as one page of HTML: what was written, what it became, and why, for people without the code."""

from .data import SCHEMA, graph_data, page_data
from .html import page

__all__ = ["SCHEMA", "graph_data", "page", "page_data"]
