"""What is valid at each level is a table of rows, and every row can fail: each has mutants of valid things that it refuses.

A new row without a mutant fails here.
"""

import functools
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import eqfuse
from eqfuse.egraph import saturate, schema
from eqfuse.egraph.frozen import ENode
from eqfuse.egraph.schema import LOOPS
from eqfuse.egraph.spec import GRAPH, check_graph
from eqfuse.errors import SpecError
from eqfuse.ir import build as b
from eqfuse.ir import dtypes
from eqfuse.ir.dtypes import DType
from eqfuse.ir.index import Axis, index
from eqfuse.ir.monoids import MONOIDS, Monoid
from eqfuse.ir.program import Output
from eqfuse.ir.spec import TERMS, check_program
from eqfuse.ir.terms import Cast, Const, Index, Map, Reduce, Scan, Term, View
from eqfuse.testing.programs import PROGRAMS
from eqfuse.tiles import program as t
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.kernel_spec import KERNEL, check_kernel
from eqfuse.tiles.lower import lower
from eqfuse.tiles.spec import TILES, check_tiles

FLOAT8 = DType("float8", "float", 1, "fp8", 448.0, 2.0**-3)  # not in the table
Z = Axis("z", 3)  # of no program


# -- valid things ------------------------------------------------------------------------------------------------------------------
@functools.cache
def planned(name):
    case = PROGRAMS[name]
    (k,) = eqfuse.optimize(case.fn, case.args("bench", device="meta"), **case.options, target="h200").plan.kernels
    return k


def kernel(name="attention"):
    return planned(name).kernel


def tiles(name="attention"):
    return planned(name).tiles


I, J = b.axes(i=4, j=8)
X = b.tensor("x", I, J)


def of(value, layout=(I, J), **more):
    return replace(b.program("small", y=(value, layout)), **more)


def stored(value):
    """Without asking for the type of the value."""
    return of(X, outputs=(Output("y", value, (I, J), dtypes.float32),))


@functools.cache
def graph():
    (s,) = b.axes(s=4)
    x = View(X, J, index(s) * 2)
    m = Reduce("max", s, x)
    e = Map("exp", (x - m,))
    return saturate(of(Cast(dtypes.float16, e * Reduce("sum", s, e)) + Const(2.0) * Index(I), (I, s)))


# -- mutations -----------------------------------------------------------------------------------------------------------------------
def forged(kind, *key):
    """A term that its constructor would refuse."""
    return Term.__new__(kind, *key)


def changed(program, kind, change, which=lambda s: True):
    """A tile program with what ``change`` makes of the first statement of a kind in its place: a statement, or several, or none."""
    done = False

    def block(body):
        nonlocal done
        out = []
        for s in body:
            if not done and isinstance(s, kind) and which(s):
                done = True
                made = change(s)
                out += made if isinstance(made, list) else [made]
            else:
                out.append(replace(s, body=block(s.body)) if isinstance(s, t.Loop) else s)
        return tuple(out)

    body = block(program.body)
    assert done, f"{program.name} has no such {kind.__name__}"
    return replace(program, body=body)


def dst(**changes):
    return lambda s: replace(s, dst=replace(s.dst, **changes))


def access(**changes):
    return lambda s: replace(s, access=replace(s.access, **changes))


def looked(dtype):
    """A statement before an access, and the access with its last axis read at what that makes."""

    def change(s):
        at = t.Fill(t.Value("place", (), dtype), 0.0)
        axis = s.access.index[-1].as_axis()
        return [at, access(looked=(t.Looked(axis, at.dst, frozenset()),))(s)]

    return change


def accumulator(**changes):
    return lambda s: replace(s, accumulators=(replace(s.accumulators[0], **changes), *s.accumulators[1:]))


def after(make):
    """A statement and another one behind it."""
    return lambda s: [s, make(s)]


def inner(program):
    """Values of the body of the first loop, by name."""
    loop = next(s for s in program.body if isinstance(s, t.Loop))
    return {v.name: v for s in loop.body for v in t.defines(s)}


def without(nodes, at, **changes):
    """The nodes with changes to one."""
    return (*nodes[:at], replace(nodes[at], **changes), *nodes[at + 1 :])


def node(of, name="attention", **changes):
    """A kernel with changes to its first node of an op; a change may be a function of the node."""
    k = kernel(name)
    at = next(i for i, n in enumerate(k.nodes) if n.op == of)
    made = {key: x(k.nodes[at]) if callable(x) else x for key, x in changes.items()}
    return replace(k, nodes=without(k.nodes, at, **made))


def root(**changes):
    k = kernel()
    return replace(k, roots=(replace(k.roots[0], **changes),))


def number(op, name="attention"):
    return next(i for i, n in enumerate(kernel(name).nodes) if n.op == op)


def member(of, **changes):
    """The graph with changes to its first node of an op."""
    g = graph()
    c, n = next((c, n) for c, row in enumerate(g.classes) for n in row if n.op == of)
    row = tuple(replace(n, **changes) if m is n else m for m in g.classes[c])
    return replace(g, classes=(*g.classes[:c], row, *g.classes[c + 1 :]))


@dataclass(frozen=True)
class Sort:
    dst: t.Value


def tile_of(s, *dims, dtype=dtypes.float32):
    return t.Value("mutant", dims, dtype)


def prefixes(monoid, kept=None):
    """A scan of a loaded tile, in so many of its dims."""
    return lambda s: t.Scan(tile_of(s, *s.dst.dims[:kept], dtype=s.dst.dtype), monoid, s.dst.dims[-1], s.dst)


def transposed_store(s):
    v = t.Value("turned", s.src.dims[::-1], s.src.dtype)
    return [t.Permute(v, s.src), replace(s, src=v)]


def hoisted(program, kind):
    """The first statement of a kind in a loop, moved in front of all loops."""
    loop = next(s for s in program.body if isinstance(s, t.Loop))
    s = next(s for s in loop.body if isinstance(s, kind))
    return replace(program, body=(s, *changed(program, kind, lambda s: []).body))


# -- the tables: row -> things that it refuses, made when they are asked for ------------------------------------------------------------
PROGRAM_MUTANTS = {
    "known op": [lambda: stored(forged(Map, "cosecant", (X,))), lambda: stored(forged(Map, "add", (X,)))],
    "known monoid": [lambda: of(forged(Reduce, "xor", J, X), (I,)), lambda: of(forged(Reduce, "orphan", J, X), (I,))],
    "scanned monoid": [lambda: of(forged(Scan, "mean", J, X))],
    "known type": [lambda: of(forged(Cast, FLOAT8, X)), lambda: of(X, outputs=(Output("y", X, (I, J), FLOAT8),))],
    "number": [lambda: of(X * forged(Const, 987654321))],
    "listed input": [lambda: of(X * 2.0, inputs=())],
    "one size": [lambda: of(X * b.tensor("w", Axis("j", 9)))],
    "view inside": [lambda: of(View(X, J, index(J) + 1)), lambda: of(View(X, J, index(J) - 1))],
    "read at whole numbers": [lambda: of(b.gather(X, J, b.sum_over(J, X)), (I,)), lambda: of(b.gather(X, J, Index(J)), (I, J))],
    "exact integers": [
        lambda: of(forged(Reduce, "sum", J, Cast(dtypes.int64, X)), (I,)),
        lambda: of(forged(Reduce, "isum", J, X), (I,)),
    ],
    "bits of integers": [lambda: of(Map("bitand", (X, X)))],
    "stored axes": [
        lambda: of(X, outputs=(Output("y", X, (I,), dtypes.float32),)),
        lambda: of(X, outputs=(Output("y", X, (I, J, J), dtypes.float32),)),
    ],
    "word": [lambda: of(type("Sort", (Map,), {})("exp", (X,)))],
}


def levelled(change):
    """The graph with other levels."""
    rows = tuple((c, axis, change(n)) for c, axis, n in graph().facts["level"])
    return replace(graph(), facts={**graph().facts, "level": rows})


def looped(name):
    """A graph made with a broken table of levels: this node changes nothing."""

    def make():
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("EQFUSE_SPEC")
            patch.setitem(schema.LOOPS, name, "{}")
            return saturate(graph().program)

    return make


GRAPH_MUTANTS = {
    "axes of each class": [lambda: replace(graph(), axes=graph().axes[1:])],
    "roots": [lambda: replace(graph(), roots={}), lambda: replace(graph(), roots={"y": 10_000})],
    "originals": [lambda: replace(graph(), original=graph().original[1:])],
    "word": [lambda: member("cast", op="sort")],
    "shape": [lambda: member("cast", attrs=()), lambda: member("cast", args=()), lambda: member("const", attrs=("2",))],
    "known op": [lambda: member("map", attrs=("cosecant",)), lambda: member("map", attrs=("where",))],
    "known monoid": [lambda: member("reduce", attrs=("xor", J)), lambda: member("roll", attrs=("orphan", J))],
    "scanned monoid": [lambda: member("reduce", op="scan", attrs=("mean", J))],
    "known type": [lambda: member("cast", attrs=(FLOAT8,))],
    "known input": [lambda: member("input", attrs=("nowhere",))],
    "which": [lambda: member("ref", attrs=("newest", J))],
    "arguments": [lambda: member("cast", args=(10_000,)), lambda: member("cast", args=(-1,))],
    "one size": [lambda: member("reduce", attrs=("max", Z)), lambda: member("view", attrs=(J, index(I) * 2 + index(Z)))],
    "axes": [lambda: replace(graph(), axes=tuple(a | {Z} for a in graph().axes[:1]) + graph().axes[1:])],
    "grounded": [lambda: replace(graph(), classes=((),) * len(graph().classes)), lambda: replace(graph(), classes=tuple(
        (ENode("map", ("neg",), (c,)),) if c == graph().roots["y"] else row for c, row in enumerate(graph().classes)))],
    "levels": [lambda: levelled(lambda n: n + 1), lambda: levelled(lambda n: max(n - 1, 0)), *(looped(name) for name in LOOPS)],
}  # fmt: skip

KERNEL_MUTANTS = {
    "word": [lambda: node("map", op="sort")],
    "shape": [
        lambda: node("map", attrs=()),
        lambda: node("reduce", args=(0, 1)),
        lambda: node("load", attrs=("q", (0, 0, 0, 0), ())),
        lambda: node("load", attrs=lambda n: (*n.attrs[:2], (J,))),
    ],
    "defined before use": [lambda: node("map", args=lambda n: (n.args[0], 20)), lambda: node("reduce", args=(-1,))],
    "known op": [lambda: node("map", attrs=("cosecant",)), lambda: node("map", args=lambda n: n.args[:1])],
    "known monoid": [lambda: node("reduce", attrs=lambda n: ("xor", n.attrs[1]))],
    "printable monoid": [lambda: node("reduce", attrs=lambda n: ("bare", n.attrs[1]))],
    "scanned monoid": [lambda: node("reduce", op="scan", attrs=lambda n: ("mean", n.attrs[1]))],
    "known type": [lambda: node("map", op="cast", attrs=(FLOAT8,), args=lambda n: n.args[:1])],
    "which": [lambda: node("ref", attrs=lambda n: ("newest", n.attrs[1]))],
    "known buffer": [
        lambda: node("load", attrs=lambda n: ("nowhere", *n.attrs[1:])),
        lambda: node("load", attrs=lambda n: ("out", *n.attrs[1:])),
    ],
    "rank": [lambda: node("load", attrs=lambda n: ("q", n.attrs[1][1:], ()))],
    "axes": [lambda: node("map", axes=lambda n: n.axes | {Z}), lambda: node("reduce", axes=lambda n: n.axes | {n.attrs[1]})],
    "roles": [lambda: replace(kernel(), roles={a: r for a, r in kernel().roles.items() if r.kind != "stream"})],
    "running value": [lambda: node("ref", args=lambda n: (0,), axes=lambda n: kernel().nodes[0].axes)],
    "prefix": [lambda: node("pre", "mean_variance", args=(0,), axes=lambda n: kernel("mean_variance").nodes[0].axes - {n.attrs[-1]})],
    "groups of tiles": [lambda: replace(kernel(), grouped=1)],
    "kinds of roles": [
        lambda: replace(kernel(), roles=dict.fromkeys(kernel().roles, Role("block", 16))),
        lambda: replace(kernel(), roles=dict.fromkeys(kernel().roles, Role("grid", 3))),
        lambda: replace(kernel(), roles=dict.fromkeys(kernel().roles, Role("grid", 0))),
    ],
    "lists of axes": [lambda: replace(kernel(), order=(*kernel().order, Z)), lambda: replace(kernel(), grid=kernel().grid * 2)],
    "stored node": [lambda: root(node=1000), lambda: root(node=-1)],
    "stored buffer": [lambda: root(buffer="nowhere"), lambda: root(index=())],
    "stored index": [lambda: root(index=tuple(e // 2 for e in kernel().roots[0].index))],
    "state inside": [lambda: root(node=number("acc"))],
}

TILE_MUTANTS = {
    "dims of axes": [lambda: replace(tiles(), dims=(replace(tiles().dims[0], size=7), *tiles().dims[1:])), lambda: replace(tiles(), dims=tiles().dims * 2)],
    "tiles of roles": [lambda: replace(tiles(), fixed=(replace(tiles().fixed[0], tile=2), *tiles().fixed[1:]))],
    "complete": [lambda: changed(tiles(), t.Store, lambda s: [])],
    "word": [lambda: changed(tiles(), t.Load, after(lambda s: Sort(tile_of(s))))],
    "defined before use": [
        lambda: changed(tiles(), t.Load, lambda s: []),
        lambda: changed(tiles(), t.Store, lambda s: replace(s, src=inner(tiles())["dot_q_cols"])),  # out of the loop
        lambda: changed(tiles(), t.Let, lambda s: replace(s, args=tuple(replace(a, dims=()) if isinstance(a, t.Value) else a for a in s.args))),
        lambda: changed(tiles(), t.Loop, accumulator(start=t.Value("nobody", (), dtypes.float32))),
    ],
    "named once": [lambda: changed(tiles(), t.Load, after(lambda s: s)), lambda: changed(tiles(), t.Loop, lambda s: replace(s, accumulators=s.accumulators * 2))],
    "open bindings": [lambda: hoisted(tiles(), t.Load), lambda: hoisted(tiles("mean_variance"), t.Count)],
    "dims": [lambda: changed(tiles(), t.Let, dst(dims=(t.Dim("z", (Z,), (4,), 4),))), lambda: changed(tiles(), t.Let, dst(dims=tiles().dims[:1] * 2))],
    "known op": [lambda: changed(tiles(), t.Let, lambda s: replace(s, op="cosecant")), lambda: changed(tiles(), t.Let, lambda s: replace(s, args=s.args * 3))],
    "known monoid": [lambda: changed(tiles(), t.Reduce, lambda s: replace(s, monoid="xor")), lambda: changed(tiles(), t.Loop, accumulator(monoid="orphan"))],
    "printable monoid": [
        lambda: changed(tiles(), t.Reduce, lambda s: replace(s, monoid="bare")),
        lambda: changed(tiles(), t.Reduce, lambda s: replace(s, monoid="mean")),
    ],
    "known buffer": [lambda: changed(tiles(), t.Load, access(buffer="nowhere")), lambda: changed(tiles(), t.Load, access(buffer="out"))],
    "index": [lambda: changed(tiles(), t.Load, access(index=())), lambda: changed(tiles(), t.Store, access(index=(index(0),) * 4))],
    "looked up": [
        lambda: changed(tiles(), t.Load, looked(dtypes.float32), lambda s: s.access.buffer == "k"),
        lambda: changed(tiles(), t.Store, looked(dtypes.int32)),
    ],
    "masks": [lambda: changed(tiles("cross_entropy"), t.Load, access(valid=()), lambda s: s.access.valid)],
    "bounds": [
        lambda: changed(tiles(), t.Load, lambda s: access(index=tuple(e + 1 for e in s.access.index))(s)),
        lambda: changed(tiles(), t.Store, lambda s: access(index=tuple(e - 1 for e in s.access.index))(s)),
    ],
    "lanes": [lambda: changed(tiles(), t.Load, lambda s: access(dims=s.access.dims[1:])(s))],
    "loaded tile": [lambda: changed(tiles(), t.Load, dst(dtype=dtypes.float32)), lambda: changed(tiles(), t.Load, dst(dims=()))],
    "stored tile": [lambda: changed(tiles(), t.Store, transposed_store)],
    "one number": [lambda: changed(tiles("mean_variance"), t.Count, dst(dims=tiles("mean_variance").dims[:1]))],
    "position": [lambda: changed(tiles("linear_cross_entropy"), t.IndexValue, dst(dtype=dtypes.float32)), lambda: changed(tiles("linear_cross_entropy"), t.IndexValue, lambda s: replace(s, bindings=()))],
    "broadcast": [lambda: changed(tiles(), t.Let, dst(dims=())), lambda: changed(tiles(), t.Let, lambda s: replace(s, dst=replace(s.dst, dims=tiles().dims[:2])))],
    "types agree": [
        lambda: changed(tiles(), t.Let, dst(dtype=dtypes.float16)),
        lambda: changed(tiles("attention_lse"), t.Let, dst(dtype=dtypes.float32), lambda s: s.op == "eq"),
        lambda: changed(tiles(), t.Cast, after(lambda s: t.Let(replace(s.dst, name="mutant"), "exp", (s.dst,)))),
        lambda: changed(tiles("row_softmax"), t.Let, lambda s: replace(s, args=(s.args[2], *s.args[1:])), lambda s: s.op == "where"),
    ],
    "same tile": [lambda: changed(tiles("mean_variance"), t.Lost, dst(dtype=dtypes.float16)), lambda: changed(tiles("cross_entropy"), t.Where, dst(dims=()))],
    "padded along": [lambda: changed(tiles("cross_entropy"), t.Where, lambda s: replace(s, bindings=()))],
    "reduced dim": [lambda: changed(tiles(), t.Reduce, lambda s: replace(s, dst=replace(s.dst, dims=s.src.dims))), lambda: changed(tiles(), t.Reduce, lambda s: replace(s, dim=tiles().dims[1])), lambda: changed(tiles("cross_entropy"), t.Reduce, lambda s: replace(s, lanes=None), lambda s: s.lanes)],
    "scanned monoid": [lambda: changed(tiles(), t.Load, after(prefixes("mean")))],
    "scanned dim": [lambda: changed(tiles(), t.Load, after(prefixes("max", kept=1)))],
    "mean": [lambda: changed(tiles("mean_variance"), t.Mean, lambda s: replace(s, which="final" if s.binding else "old"))],
    "product": [lambda: changed(tiles(), t.Dot, lambda s: replace(s, a=s.b, b=s.a)), lambda: changed(tiles(), t.Dot, lambda s: replace(s, dst=replace(s.dst, dims=s.dst.dims[::-1])))],
    "precision": [lambda: changed(tiles(), t.Dot, lambda s: replace(s, precision="tf32")), lambda: changed(tiles(), t.Dot, dst(dtype=dtypes.float16))],
    "block": [lambda: changed(tiles(), t.Load, lambda s: replace(s, block=(1,)), lambda s: len(s.access.index) > 1)],
    "other order": [lambda: changed(tiles(), t.Load, after(lambda s: t.Permute(tile_of(s, *s.dst.dims), s.dst)))],
    "other type": [lambda: changed(tiles(), t.Cast, dst(dtype=FLOAT8)), lambda: changed(tiles(), t.Cast, dst(dims=()))],
    "edges of data": [lambda: changed(tiles(), t.Loop, lambda s: replace(s, stops=(t.Edge((), 0, tiles().body[0].dst),)))],
    "loop": [
        lambda: changed(tiles(), t.Loop, lambda s: replace(s, binding=replace(s.binding, kind="grid"))),
        lambda: changed(tiles(), t.Loop, lambda s: replace(s, accumulators=(), body=(replace(s, accumulators=()),))),
    ],
    "state at the end": [lambda: changed(tiles(), t.Loop, lambda s: accumulator(new=t.Value("never", s.accumulators[0].old.dims, dtypes.float32))(s))],
    "state": [lambda: changed(tiles(), t.Loop, accumulator(new=inner(tiles())["dot_q_cols"], inplace=False))],
    "identity": [lambda: changed(tiles(), t.Loop, accumulator(identity=1.0))],
    "in place": [lambda: changed(tiles(), t.Loop, lambda s: replace(s, accumulators=tuple(replace(a, inplace=True) for a in s.accumulators)))],
    "parameters": [lambda: replace(tiles(), parameters=tiles().parameters * 2)],
}  # fmt: skip

LEVELS = {
    spec.level: (spec, check, valid, mutants)
    for spec, check, valid, mutants in (
        (TERMS, check_program, lambda: [of(X * 2.0), graph().program], PROGRAM_MUTANTS),
        (GRAPH, check_graph, lambda: [graph()], GRAPH_MUTANTS),
        (KERNEL, check_kernel, lambda: [kernel(n) for n in ("attention", "mean_variance")], KERNEL_MUTANTS),
        (TILES, check_tiles, lambda: [tiles(n) for n in ("attention", "mean_variance", "cross_entropy")], TILE_MUTANTS),
    )
}
ROWS = [(level, row.name) for level, (spec, *_) in LEVELS.items() for row in spec.rows]


@pytest.fixture(autouse=True)
def monoids_that_lack_something(monkeypatch):
    """``bare`` has no Triton spelling, ``orphan`` a state that no monoid carries."""
    monkeypatch.setitem(MONOIDS, "bare", Monoid("bare", 1.0, "mul", np.prod, "bare", False, False))
    monkeypatch.setitem(MONOIDS, "orphan", Monoid("orphan", 1.0, "mul", np.prod, "nobody", False, False))


@pytest.mark.parametrize("level", LEVELS)
def test_valid_things_pass(level):
    _, check, valid, _ = LEVELS[level]
    for x in valid():
        check(x)


@pytest.mark.parametrize(("level", "row"), ROWS)
def test_every_row_refuses_its_mutants(level, row):
    _, check, _, mutants = LEVELS[level]
    for make in mutants[row]:
        mutant = make()
        with pytest.raises(SpecError) as info:
            check(mutant)
        assert (info.value.level, info.value.rule) == (level, row), str(info.value)


@pytest.mark.parametrize("level", LEVELS)
def test_rows_have_names_of_their_own_and_every_mutant_a_row(level):
    spec, _, _, mutants = LEVELS[level]
    assert len({r.name for r in spec.rows}) == len(spec.rows)
    assert set(mutants) == {r.name for r in spec.rows}


def test_an_error_names_level_node_and_row():
    with pytest.raises(SpecError) as info:
        check_tiles(changed(tiles(), t.Reduce, lambda s: replace(s, monoid="bare")))
    assert str(info.value) == (
        "tile program attention_out: tile_max: fp32[q_rows/128] = bare k_rows of dot_q_cols\n"
        "  printable monoid: kernels reduce tiles by monoids that have a Triton spelling\n"
        "  try: add triton= (and the helper that it calls as prelude=) to the monoid's entry in ir/monoids.py"
    )


def test_the_switch_is_off_by_default_and_on_in_tests(monkeypatch):
    broken = root(node=number("acc"))
    with pytest.raises(SpecError, match="state inside"):
        lower(broken)
    monkeypatch.setenv("EQFUSE_SPEC", "0")
    with pytest.raises(AssertionError, match="acc outside a roll"):
        lower(broken)


def test_a_program_is_checked_before_it_is_saturated():
    with pytest.raises(SpecError, match="listed input"):
        saturate(of(X * 2.0, inputs=()))


# -- a monoid is one entry of one table ------------------------------------------------------------------------------------------------
PROD = '''
@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def _product(x, axis: tl.constexpr):
    """The product along an axis."""
    return tl.reduce(x, axis, _times)
'''


def product_of_rows(n=40):
    i, j = b.axes(i=5, j=n)
    x = b.tensor("x", i, j)
    return b.program("products", y=(Reduce("product", j, Map("exp", (x * 0.1,))), (i,)))


def declared(**more):
    return Monoid("product", 1.0, "mul", np.prod, "product", False, False, **more)


@pytest.mark.parametrize("n", [40, 20_001])  # on chip, and streamed with a masked tail
def test_a_new_monoid_touches_one_place(monkeypatch, n):
    monkeypatch.setitem(MONOIDS, "product", declared(triton="_product({}, axis={})", prelude=PROD))
    c = eqfuse.optimize(product_of_rows(n), target="h200")
    x = torch.randn(5, n) * (40 / n) ** 0.5
    wanted = torch.exp(x.double() * 0.1).prod(-1)
    torch.testing.assert_close(c.eager(x).double(), wanted, rtol=1e-5, atol=0)
    torch.testing.assert_close(torch.as_tensor(c.simulate(x)).double(), wanted, rtol=1e-4, atol=0)
    assert "_product(" in c.source
    torch.testing.assert_close(c.interpret(x).double(), wanted, rtol=1e-4, atol=0)


def test_what_a_new_monoid_lacks_is_said(monkeypatch):
    monkeypatch.setitem(MONOIDS, "product", declared())
    with pytest.raises(SpecError, match="add triton="):
        eqfuse.optimize(product_of_rows(), target="h200")


@pytest.mark.parametrize("n", [0, 1, 7, 20_001])  # nothing, itself, on chip, and streamed
def test_a_monoid_that_does_not_say_what_copies_make_combines_them(monkeypatch, n):
    monkeypatch.setitem(MONOIDS, "product", declared(triton="_product({}, axis={})", prelude=PROD))
    i, j = b.axes(i=5, j=n)
    x = np.array([0.0, 1.0, -1.0, 1 + 1e-5, 1 - 1e-5], np.float32)
    c = eqfuse.optimize(b.program("copies", y=(Reduce("product", j, b.tensor("x", i)), (i,))), target="h200")
    wanted = torch.as_tensor(x.astype(np.float64) ** n)
    for found in (c.eager, c.simulate, c.interpret):
        torch.testing.assert_close(torch.as_tensor(found(torch.as_tensor(x))).double(), wanted, rtol=2e-3, atol=0)
