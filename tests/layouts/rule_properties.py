"""The rules on layouts against the library's direct algorithms: a property draws a term, saturates it, audits the graph, and says in a word how the two compare.

``equal``      the smallest form is the one that the direct algorithm gives
``same map``   another form of the same map: only where sets of copies have no form with gaps, and the direct algorithm searches
``less``       the rules know no layout, and the library has one: slices that begin in the middle of a digit; or do not see that a value is what was stored
``neither``    both know none

Anything else is an AssertionError."""

import layout_properties as drawing

import eqfuse.ir.layout as lib
from eqfuse.egraph import layouts
from eqfuse.egraph.audit import audit
from eqfuse.egraph.saturate import saturate
from eqfuse.errors import LayoutError
from eqfuse.ir.build import program, tensor, view
from eqfuse.ir.index import Axis
from eqfuse.ir.layout.replicas import absorbed, by_axis, has_gaps
from eqfuse.ir.layout.terms import Term, term
from eqfuse.rewrites import registry


def bound(layout):
    """e-nodes of a canonicalisation, for n iters, r copies and offsets on o axes: see docs/decisions/layout-rules.md."""
    n, r, o = len(layout.iters), len(layout.replicas), len(layout.offset)
    return n * (n + 1) + 1 + 2**o * (5**r - 3**r) + 3**o * 4**r - 2**o * 3**r


def entangled(layout):
    return any(not has_gaps(absorbed(s)) for s in by_axis(layout.replicas)[0].values())


def saturated(of, **options):
    graph = layouts.saturate(of, **options)
    assert graph.report.stopped == "saturated", of
    return graph, layouts.audit(graph)


def compared(found, wanted, free=False):
    if found == wanted.canonicalize():
        return "equal"
    assert found.equivalent(wanted), f"{found} is not {wanted}"
    assert free or entangled(wanted), f"{found}, and canonically {wanted.canonicalize()}"
    return "same map"


def attempt(operation):
    try:
        return operation()
    except LayoutError:
        return None


def drawn(src, size=24):
    found = drawing.draw(lib, src, size)
    return drawing.rewritten(lib, src, found) if src.chance(2) else found


def canonicalised(found):
    graph, places = saturated(found)
    assert graph.report.enodes <= bound(found), found
    return compared(layouts.smallest(graph), found), graph.report.enodes, graph.report.enodes / bound(found), places


def canonicalize(src):
    return canonicalised(drawn(src))


def canonicalize_copies(src):
    """Copies that overlap, touch, and go backwards."""
    strides = (-3, -2, -1, 1, 1, 2, 2, 3, 4, 5, 6, 8, 0, 12)
    copies = [(src.choice((1, 2, 2, 3, 4, 6)), src.choice(strides), src.choice(("m", "m", "m", "lane"))) for _ in range(src.integers(1, 4))]
    return canonicalised(lib.Layout([], copies, {"m": 2} if src.chance(2) else {}))


def tile(src):
    outer, inner = drawn(src, 8), drawn(src, 6)
    graph, places = saturated(Term("tile", (), (term(outer), term(inner))))
    return compared(layouts.smallest(graph), outer.tile(inner)), graph.report.enodes, None, places


def tile_of_tiles(src):
    """Associativity is no rule: it follows, both sides having one smallest form."""
    outer, middle, inner = (drawing.draw(lib, src, 4) for _ in range(3))
    graph, places = saturated(Term("tile", (), (Term("tile", (), (term(outer), term(middle))), term(inner))))
    compared(layouts.smallest(graph), outer.tile(middle).tile(inner))
    return compared(layouts.smallest(graph), outer.tile(middle.tile(inner))), graph.report.enodes, None, places


def direct_sum(src):
    outer, inner = drawn(src, 8), drawn(src, 6)
    graph, places = saturated(Term("beside", (), (term(outer), term(inner))))
    return compared(layouts.smallest(graph), outer.direct_sum(inner)), graph.report.enodes, None, places


def slices(src):
    whole = drawn(src)
    first = src.integers(0, whole.size - 1)
    count = src.integers(1, whole.size - first)
    graph, places = saturated(Term("slice", (first, count), (term(whole),)))
    wanted, found = attempt(lambda: whole.slice([(first, first + count)])), attempt(lambda: layouts.smallest(graph))
    assert wanted is not None or found is None, (whole, first, count)
    word = ("less" if wanted is not None else "neither") if found is None else compared(found, wanted, entangled(whole))
    return word, graph.report.enodes, None, places


def group(src):
    whole = drawn(src)
    shape = drawing.draw_shape(src, whole.size, src.integers(1, 3))
    graph, places = saturated(lib.Layout(whole.iters), cuts=layouts.cuts_of(shape))
    wanted, found = attempt(lambda: whole.blocks(shape)), attempt(lambda: layouts.blocks(graph, shape))
    assert found == wanted, (whole, shape, found, wanted)
    return "equal" if found else "neither", graph.report.enodes, None, places


def stored_and_read_back(src):
    """A value of a random shape, stored in a random order of the digits of its elements and read back: ``equal`` if the graph says that it is the value itself."""
    extents = [src.choice((2, 2, 3, 4, 4, 6, 8)) for _ in range(src.integers(1, 4))]
    iters, stride = {}, 1
    for k in sorted(range(len(extents)), key=lambda k: src.integers(0, 99)):
        iters[k] = (extents[k], stride)
        stride *= extents[k]
    order = lib.Layout([iters[k] for k in range(len(extents))])
    shape = [n for n in drawing.draw_shape(src, order.size, src.integers(1, 3)) if n > 1]
    axes, m = [Axis(name, n) for name, n in zip("abc", shape, strict=False)], Axis("m", order.size)
    number, below = lib.inverse(order).to_index((m,))["m"], order.size
    stored = value = tensor("x", *axes)
    for axis in axes:
        below //= axis.size
        stored = view(stored, axis, number // below % axis.size)
    read = program("relayout", y=(view(stored, m, order.to_index(axes, shape)["m"]), tuple(axes)))
    graph = saturate(read, rules=[r for r in registry.rules("layout") if r.phase == "layout"])
    audit(graph, shrink_seconds=0, blame_seconds=0)
    assert value in read.terms()
    same = any(n.op == "input" for n in graph.classes[graph.roots["y"]])
    return "equal" if same else "less", graph.enodes, None, order.size


PROPERTIES = (canonicalize, canonicalize_copies, tile, tile_of_tiles, direct_sum, slices, group, stored_and_read_back)
