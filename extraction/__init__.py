"""Extraction: from an e-graph, whose classes hold many ways to compute a value, to one way for each value that is needed.

Stands alone: a :class:`Graph` is plain data, of whatever language; the files are the community's (``egraph-serialize``).  The
planner of tensor programs has an extraction of its own, :mod:`eqfuse.extract`, because the price of a kernel is no sum over its
nodes.
"""

from .drawing import dot
from .graph import Graph, Member, Selection
from .methods import METHODS, Found, choose
from .serialized import graph_data, read_graph, selection_data

__all__ = ["METHODS", "Found", "Graph", "Member", "Selection", "choose", "dot", "graph_data", "read_graph", "selection_data"]
