"""What a kernel may be: the language of :mod:`.kernel` as a table of laws (:mod:`..ir.spec`).

Whether the roles of a kernel are legal for its nodes is no law but a question, which lowering answers (PlanError): a search asks it of
every candidate.  The table is about what whoever makes a kernel hands to lowering.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..ir import nodes
from ..ir.index import Axis, IndexExpr
from ..ir.spec import (
    ADD_SPELLING,
    PRINTABLE_MONOID,
    Row,
    Spec,
    printable,
    rows_of_nodes,
    shaped,
)
from .kernel import Kernel, Node, Root, node_text, root_text

SHOWN = 64  # positions of an axis that are looked at
KINDS = nodes.KINDS.keys() - {"input", "view", "gather"}


@dataclass(frozen=True)
class _Nodes:
    """A kernel."""

    kernel: Kernel

    @cached_property
    def states(self) -> tuple[bool, ...]:
        """For each node: whether it reads the state of a roll around it."""
        found: list[bool] = []
        for n in self.kernel.nodes:
            below = n.args[:1] if n.op == "roll" else n.args  # the update is inside
            found.append(n.op == "acc" or any(found[a] for a in below))
        return tuple(found)

    @cached_property
    def reduced(self) -> tuple[frozenset[Axis], ...]:
        """For each node: the axes of the reductions in it, and below."""
        found: list[frozenset[Axis]] = []
        for n in self.kernel.nodes:
            own = frozenset((n.attrs[1],)) if n.op in nodes.REDUCTIONS else frozenset()
            found.append(own.union(*(found[a] for a in n.args)))
        return tuple(found)

    @cached_property
    def stores(self) -> frozenset[str]:
        """The buffers that it writes."""
        return frozenset(r.buffer for r in self.kernel.roots)


Numbered = tuple[int, Node]


def _own_axes(at: _Nodes, n: Node) -> frozenset[Axis]:
    """The axes that a node depends on, from what it is and those of its arguments."""
    return nodes.axes(n.op, n.attrs, [at.kernel.nodes[a].axes for a in n.args])


def _shaped(n: Node) -> bool:
    if n.op == "index":
        return not n.args and list(map(type, n.attrs)) == [IndexExpr]
    if not shaped(n.op, n.attrs, len(n.args)):
        return False
    return n.op != "load" or (all(isinstance(e, IndexExpr) for e in n.attrs[1]) and len(n.attrs[2]) == len(n.args))


def _axes_named(at: _Nodes, n: Node) -> frozenset[Axis]:
    """The axes that a node runs along or takes away; none where it says how many copies of a value there are alone."""
    below = [at.kernel.nodes[x].axes for x in n.args]
    if n.op == "extent" or (n.op == "reduce" and n.goes_along(*below) is None):
        return n.axes
    return n.axes | {a for a in n.attrs if isinstance(a, Axis)}


def _roles(kernel: Kernel) -> bool:
    return all(r.kind in ("grid", "stream", "resident") and r.tile > 0 and r.tile & r.tile - 1 == 0 for r in kernel.roles.values())


def _listed(kernel: Kernel) -> bool:
    """``order``, ``grid`` and ``packs`` name axes with roles, each once."""
    packed = [a for p in kernel.packs for a in p]
    lists = (kernel.order, kernel.grid, packed)
    return all(len(set(x)) == len(x) and all(a in kernel.roles for a in x) for x in lists)


def _apart(index: tuple[IndexExpr, ...]) -> bool:
    """Whether an index has another place for every position, as far as the first of each axis show."""
    moved = [e for e in index if e.as_axis() is None and e != IndexExpr()]
    axes = sorted(frozenset[Axis]().union(*(e.axes() for e in moved)))
    if not moved or {a for e in index if e not in moved for a in e.axes()} & {*axes}:
        return not moved
    shown = [min(a.size, SHOWN) for a in axes]
    grid = dict(zip(axes, np.indices(shown), strict=True))
    places = np.stack([np.broadcast_to(e.evaluate(grid), shown).reshape(-1) for e in moved])
    return bool(np.unique(places, axis=1).shape[1] == places.shape[1])


def _kind(x: Numbered | Kernel | Root) -> str:
    return "kernel" if isinstance(x, Kernel) else "root" if isinstance(x, Root) else x[1].op


KERNEL: Spec = Spec(
    "kernel",
    (
        Row("word", "a node is one of the language", lambda at, x: _kind(x) in KERNEL.kinds),
        *rows_of_nodes(tuple(KINDS), _shaped),
        Row(
            "defined before use",
            "arguments are earlier nodes",
            lambda at, x: all(0 <= a < x[0] for a in x[1].args),
            tuple(KINDS),
        ),
        Row("printable monoid", PRINTABLE_MONOID, lambda at, x: printable(x[1].attrs[0]), nodes.REDUCTIONS, ADD_SPELLING),
        Row(
            "known buffer",
            "what is loaded is a buffer of the kernel, which it does not store",
            lambda at, x: x[1].attrs[0] in at.kernel.buffers and x[1].attrs[0] not in at.stores,
            ("load",),
        ),
        Row(
            "rank",
            "a load has an index for each dimension of the buffer",
            lambda at, x: len(x[1].attrs[1]) == len(at.kernel.buffers[x[1].attrs[0]].shape),
            ("load",),
        ),
        Row(
            "axes",
            "a node depends on the axes that its arguments and indices have, without the one that it reduces",
            lambda at, x: x[1].axes == _own_axes(at, x[1]),
            tuple(KINDS),
        ),
        Row(
            "roles",
            "every axis of a node has a role",
            lambda at, x: all(a in at.kernel.roles for a in _axes_named(at, x[1])),
            tuple(KINDS),
        ),
        Row(
            "running value",
            "a reference over an axis is to something that is reduced over it",
            lambda at, x: x[1].attrs[1] in at.reduced[x[1].args[0]],
            ("ref",),
        ),
        Row(
            "prefix",
            "a prefix is of a sum over its axis",
            lambda at, x: (n := at.kernel.nodes[x[1].args[0]]).op in nodes.REDUCTIONS and n.attrs == ("sum", *x[1].attrs),
            ("pre",),
        ),
        Row(
            "kinds of roles",
            "a role is grid, stream or resident, with a tile that is a power of two",
            lambda at, k: _roles(k),
            ("kernel",),
        ),
        Row(
            "lists of axes",
            "the order of dims, the grid and the packs name axes that have roles, each once",
            lambda at, k: _listed(k),
            ("kernel",),
        ),
        Row(
            "groups of tiles",
            "tiles are taken in groups along the last but one of several grid axes",
            lambda at, k: k.grouped == 0 or (k.grouped > 1 and len(k.grid) > 1 and all(k.roles[a].kind == "grid" for a in k.grid)),
            ("kernel",),
        ),
        Row("stored node", "a root is one of the nodes", lambda at, r: 0 <= r.node < len(at.kernel.nodes), ("root",)),
        Row(
            "stored buffer",
            "a root is stored in a buffer of the kernel that is no input, with an index for each dimension",
            lambda at, r: (
                r.buffer in at.kernel.buffers
                and at.kernel.buffers[r.buffer].role != "input"
                and len(r.index) == len(at.kernel.buffers[r.buffer].shape)
            ),
            ("root",),
        ),
        Row(
            "stored index",
            "a root is stored at plain axes and zeros, or where no two of its elements are in one place",
            lambda at, r: _apart(r.index),
            ("root",),
        ),
        Row("state inside", "the state of a roll is read in its update only", lambda at, r: not at.states[r.node], ("root",)),
    ),
    _kind,
    lambda at, x: f"{len(x.nodes)} nodes" if isinstance(x, Kernel) else root_text(x) if isinstance(x, Root) else node_text(*x),
)


def check_kernel(kernel: Kernel) -> None:
    """Raise SpecError unless a kernel is valid."""
    place = _Nodes(kernel)
    KERNEL.check(kernel.name, ((place, x) for x in (*enumerate(kernel.nodes), kernel, *kernel.roots)))
