"""Each operation of the library against enumeration.  A property draws its layouts from a source of integers (``random.Random``, or Hypothesis) and asserts; what the
library refuses must have no layout, by the oracle's own search.  ``lib`` is the package, or a mutant of it."""

import math
from functools import cache
from itertools import combinations_with_replacement, pairwise

import layout_oracle as oracle

AXES = ("m", "lane")


class Source:
    """Draws by a function ``integers(low, high)``, both included."""

    def __init__(self, integers):
        self.integers = integers

    def choice(self, options):
        return options[self.integers(0, len(options) - 1)]

    def chance(self, one_in):
        return self.integers(1, one_in) == 1


def draw_iters(src, most=4, size=24, axes=AXES, negative=True, extents=(1, 2, 2, 3, 4, 4, 6)):
    """Iters, often chained to those inside of them, so that there is something to merge."""
    out, total = [], 1
    for _ in range(min(most, src.choice((0, 1, 2, 3, 3, 4, 4)))):
        e = src.choice(extents)
        if total * e > size:
            continue
        total *= e
        if out and src.chance(2):
            below = out[0]
            stride, axis = below[0] * below[1], below[2]
        else:
            stride, axis = src.integers(-3 if negative else 0, 9), src.choice(axes)
        out.insert(0, (e, stride, axis))
    return out


def draw(lib, src, size=24, axes=AXES, plain=False, negative=True):
    copies = [] if plain or src.chance(2) else draw_iters(src, 2, 8, axes, negative)
    offset = {} if plain or src.chance(2) else {src.choice(axes): src.integers(-4, 8)}
    return lib.Layout(draw_iters(src, 4, size, axes, negative), copies, offset)


def draw_shape(src, size, rank):
    shape, p = [1] * rank, 2
    while size > 1:
        while size % p:
            p += 1
        shape[src.integers(0, rank - 1)] *= p
        size //= p
    return tuple(shape)


def rewritten(lib, src, layout):
    """The same map, written otherwise: iters split, extents of 1, replicas turned round and split."""
    iters, copies, offset = [], [], dict(layout.offset)
    for it in layout.iters:
        d = src.choice([k for k in range(1, it.extent + 1) if it.extent % k == 0])
        iters += [(d, it.stride * (it.extent // d), it.axis), (it.extent // d, it.stride, it.axis)]
        if src.chance(3):
            iters.append((1, src.integers(-2, 5), src.choice(AXES)))
    for it in layout.replicas:
        d = src.choice([k for k in range(1, it.extent + 1) if it.extent % k == 0])
        for e, s in ((d, it.stride * (it.extent // d)), (it.extent // d, it.stride)):
            if src.chance(2):
                offset[it.axis] = offset.get(it.axis, 0) + (e - 1) * s
                s = -s
            copies.append((e, s, it.axis))
    return lib.Layout(iters, copies, offset)


def attempt(lib, operation):
    """The result, or None where it is refused with a cure."""
    try:
        return operation()
    except lib.layout.LayoutError as error:
        if not error.cure:
            raise AssertionError(f"no cure: {error}") from error
        return None


def agree(found, wanted, what):
    assert oracle.of(found) == wanted, f"{what}: {found!r}"


# ---- the properties --------------------------------------------------------------------------------------------------------------
def induced_map(lib, src):
    layout = draw(lib, src)
    wanted = oracle.of(layout)
    shape = draw_shape(src, layout.size, 2)
    arrays = layout.over(shape)
    assert layout.size == len(wanted) and layout.copies == len(wanted[0]), repr(layout)
    assert layout.span() == oracle.spans(layout), repr(layout)
    for x, u in enumerate(oracle.indices(shape)):
        places = layout(u, shape)
        assert places == layout(x) and list(places) == sorted(places, key=lambda p: [p[a] for a in layout.axes]), repr(layout)
        assert {oracle.place(p.items()) for p in places} == wanted[x] and len(places) == len(wanted[x]), repr(layout)
        for k in range(layout.copies if layout.axes else 0):
            assert {a: int(arrays[a][u][k]) for a in arrays} == places[k], repr(layout)


def canonicalize(lib, src):
    layout = draw(lib, src)
    form = layout.canonicalize()
    agree(form, oracle.of(layout), layout)
    assert form.canonicalize() == form
    assert rewritten(lib, src, layout).canonicalize() == form, repr(layout)


@cache
def _families():
    """Lists of (stride, extent) that make one set, for every set that more than one of a few small lists makes."""
    steps = [(s, e) for s in range(1, 6) for e in range(2, 7)]
    small = [x for x in steps if x[1] < 4]
    lists = [
        *combinations_with_replacement(steps, 1),
        *combinations_with_replacement(steps, 2),
        *combinations_with_replacement(small, 3),
    ]
    out = {}
    for of in lists:
        made = {0}
        for s, e in of:
            made = {x + s * d for x in made for d in range(e)}
        out.setdefault(frozenset(made), []).append(of)
    return [family for family in out.values() if len(family) > 1]


def equivalent(lib, src):
    """Small sets of copies on one axis and short lists, so that different ones are the same map now and then."""
    if src.chance(2):
        unit, family = src.integers(1, 2), src.choice(_families())
        layouts = [
            lib.Layout([(2, 1)], [(e, unit * s) for s, e in src.choice(src.choice((family, src.choice(_families()))))]) for _ in range(4)
        ]
        forms, maps = [a.canonicalize() for a in layouts], [oracle.of(a) for a in layouts]
        for k, form in enumerate(forms):
            agree(form, maps[k], layouts[k])
            assert all((form == forms[j]) == (maps[k] == maps[j]) for j in range(k)), layouts
        a, b = layouts[:2]
    else:
        a = draw(lib, src, 8)
        b = rewritten(lib, src, a)
        if src.chance(2) and b.iters:
            k = src.integers(0, len(b.iters) - 1)
            it = b.iters[k]
            b = lib.Layout(
                [*b.iters[:k], (it.extent, it.stride + src.integers(0, 1), src.choice((it.axis, *AXES))), *b.iters[k + 1 :]],
                b.replicas,
                b.offset,
            )
    same = oracle.of(a) == oracle.of(b)
    assert a.equivalent(b) == same == (a.canonicalize() == b.canonicalize()), f"{a!r} and {b!r}"


def group(lib, src):
    layout = draw(lib, src)
    shape = draw_shape(src, layout.size, src.integers(1, 3))
    found = attempt(lib, lambda: layout.group(shape))
    assert (found is not None) == oracle.separable(oracle.of(layout), shape), f"{layout!r} by {shape}"
    if found is not None:
        agree(found, oracle.of(layout), layout)
        blocks = layout.blocks(shape)
        assert tuple(math.prod(i.extent for i in b) for b in blocks) == shape
        assert all(len(lib.Layout(b).canonicalize().iters) == len(b) for b in blocks), "as few as can be"


def _pair(lib, src, size=12):
    a, b, rank = draw(lib, src, size), draw(lib, src, 6), src.integers(1, 2)
    return a, draw_shape(src, a.size, rank), b, draw_shape(src, b.size, rank)


def tile(lib, src):
    a, shape_a, b, shape_b = _pair(lib, src)
    found = attempt(lib, lambda: a.tile(b, shape_a, shape_b))
    groups = oracle.separable(oracle.of(a), shape_a) and oracle.separable(oracle.of(b), shape_b)
    assert (found is not None) == groups, f"{a!r} {b!r}"
    if found is not None:
        agree(found, oracle.tile(oracle.of(a), shape_a, oracle.of(b), shape_b, oracle.spans(b)), (a, b))


def direct_sum(lib, src):
    a, shape_a, b, shape_b = _pair(lib, src)
    found = attempt(lib, lambda: a.direct_sum(b, shape_a, shape_b))
    assert (found is not None) == (oracle.separable(oracle.of(a), shape_a) and oracle.separable(oracle.of(b), shape_b)), f"{a!r} {b!r}"
    if found is not None:
        agree(found, oracle.tile(oracle.of(a), shape_a, oracle.of(b), shape_b, {}), (a, b))
        assert a.scale(b.span()).direct_sum(b, shape_a, shape_b) == a.tile(b, shape_a, shape_b)


def tile_of(lib, src):
    a, shape_a, b, shape_b = _pair(lib, src, 8)
    whole = attempt(lib, lambda: a.tile(b, shape_a, shape_b))
    if whole is None or src.chance(4):
        whole = draw(lib, src)
        shape = draw_shape(src, whole.size, len(shape_b))
    else:
        shape = tuple(n * m for n, m in zip(shape_a, shape_b, strict=True))
        whole = rewritten(lib, src, whole)
        if src.chance(2):
            part = src.choice(("iters", "replicas", "offset"))
            parts = {"iters": list(whole.iters), "replicas": list(whole.replicas), "offset": dict(whole.offset)}
            if part == "offset":
                parts["offset"]["m"] = parts["offset"].get("m", 0) + src.integers(1, 6)
            elif parts[part]:
                k = src.integers(0, len(parts[part]) - 1)
                it = parts[part][k]
                parts[part][k] = (it.extent, it.stride + src.integers(1, 3), it.axis)
            whole = lib.Layout(*parts.values())
    found = attempt(lib, lambda: whole.tile_of(b, shape, shape_b))
    widths = oracle.spans(b)
    outer = oracle.outer_of_tile(oracle.of(whole), shape, oracle.of(b), shape_b, widths)
    outer_shape = [n // m for n, m in zip(shape, shape_b, strict=True)]
    there = (
        outer is not None and oracle.is_layout(outer) and oracle.separable(outer, outer_shape) and oracle.separable(oracle.of(b), shape_b)
    )
    assert (found is not None) == there, f"{whole!r} {shape} of {b!r} {shape_b}"
    if found is not None:
        agree(found, outer, (whole, b))
        assert found.tile(b, outer_shape, shape_b).equivalent(whole)


def slice_(lib, src):
    layout = draw(lib, src, 36)
    shape = draw_shape(src, layout.size, src.integers(1, 3))
    region = []
    for n in shape:
        first = src.integers(0, n - 1)
        region.append((first, src.integers(first + 1, n)))
    found = attempt(lib, lambda: layout.slice(region, shape))
    places = oracle.of(layout)
    wanted = [
        places[oracle.flat([b + i for (b, _), i in zip(region, u, strict=True)], shape)] for u in oracle.indices([e - b for b, e in region])
    ]
    if found is None:
        assert not oracle.is_layout(wanted), f"{layout!r} {shape} {region}"
    else:
        agree(found, wanted, (layout, shape, region))


def permute(lib, src):
    layout = draw(lib, src)
    rank = src.integers(1, 3)
    shape, order, left = draw_shape(src, layout.size, rank), [], list(range(rank))
    while left:
        order.append(left.pop(src.integers(0, len(left) - 1)))
    found = attempt(lib, lambda: layout.permute(order, shape))
    places, wanted = oracle.of(layout), []
    for u in oracle.indices([shape[k] for k in order]):
        back = dict(zip(order, u, strict=True))
        wanted.append(places[oracle.flat([back[k] for k in range(rank)], shape)])
    if found is None:
        assert not oracle.is_layout(wanted), f"{layout!r} {shape} {order}"
    else:
        agree(found, wanted, (layout, shape, order))


def compose(lib, src):
    outer = draw(lib, src, 36)
    inner = draw(lib, src, 12, ("m",))
    low, high = inner.bounds().get("m", (0, 0))
    if high - low >= outer.size:
        inner = lib.Layout([(2, 1), (2, src.integers(0, 2))] if outer.size >= 4 else [])
        low, high = inner.bounds().get("m", (0, 0))
    shift = src.integers(-low, outer.size - 1 - high)
    inner = lib.Layout(inner.iters, inner.replicas, {"m": inner.offset.get("m", 0) + shift})
    found = attempt(lib, lambda: outer.compose(inner))
    of_outer = oracle.of(outer)
    wanted = [frozenset().union(*(of_outer[dict(p).get("m", 0)] for p in s)) for s in oracle.of(inner)]
    if found is not None:
        agree(found, wanted, (outer, inner))
    elif not inner.replicas:  # with them, a result is only found where copies and elements are digits of their own
        assert not oracle.is_layout(wanted), f"{outer!r} {inner!r}"


def complement(lib, src):
    layout = draw(lib, src, 12, ("m",), negative=src.chance(3))
    if src.chance(2):  # digits of a number, some left out: what has a complement
        block, iters = 1, []
        for _ in range(src.integers(1, 4)):
            e = src.integers(2, 3)
            if src.chance(2):
                iters.insert(src.integers(0, len(iters)), (e, block))
            block *= e
        layout = lib.Layout(iters)
    size = src.integers(1, 40)
    found = attempt(lib, lambda: layout.complement(size))
    image = {dict(p).get("m", 0) for s in oracle.of(layout) for p in s}
    wanted = oracle.fills(image, size)
    assert (found is None) == (wanted is None), f"{layout!r} in {size}"
    if found is not None:
        assert [dict(p).get("m", 0) for s in oracle.of(found) for p in s] == wanted, f"{layout!r} in {size}: {found!r}"


def text(lib, src):
    layout = draw(lib, src)
    assert eval(repr(layout), {"Layout": lib.Layout}) == layout == lib.Layout.parse(str(layout)), repr(layout)
    assert hash(eval(repr(layout), {"Layout": lib.Layout})) == hash(layout)


def strides(lib, src):
    shape = tuple(src.integers(1, 4) for _ in range(src.integers(0, 3)))
    steps, offset = tuple(src.integers(-3, 9) for _ in shape), src.integers(0, 5)
    layout = lib.Layout.from_strides(shape, steps, offset)
    for x, u in enumerate(oracle.indices(shape)):
        at = offset + sum(i * s for i, s in zip(u, steps, strict=True))
        assert layout(x)[0].get("m", 0) == at, f"{layout!r} {u}"
    again, start = layout.to_strides(shape)
    assert start == offset and all(s == t or n == 1 for n, s, t in zip(shape, steps, again, strict=True))
    other = draw(lib, src, plain=True, axes=("m",))
    dims = draw_shape(src, other.size, src.integers(1, 3))
    found = attempt(lib, lambda: other.to_strides(dims))
    moves = [dict(next(iter(s))).get("m", 0) for s in oracle.of(other)]
    units = [moves[oracle.flat([int(k == d) for k in range(len(dims))], dims)] if n > 1 else 0 for d, n in enumerate(dims)]
    linear = all(sum(i * s for i, s in zip(u, units, strict=True)) == m for u, m in zip(oracle.indices(dims), moves, strict=True))
    assert (found is not None) == linear, f"{other!r} {dims}"
    assert found is None or all(n == 1 or s == t for n, s, t in zip(dims, units, found[0], strict=True))


def index_expressions(lib, src):
    from eqfuse.ir.index import Axis, index

    layout = draw(lib, src)
    layout = lib.Layout(layout.iters, (), layout.offset)
    shape = draw_shape(src, layout.size, src.integers(1, 2))
    axes = [Axis(f"a{k}", n) for k, n in enumerate(shape)]
    exprs = layout.to_index(axes, shape)
    wanted = oracle.of(layout)
    for x, u in enumerate(oracle.indices(shape)):
        at = dict(zip(axes, u, strict=True))
        assert {oracle.place((a, int(e.evaluate(at))) for a, e in exprs.items())} == wanted[x], repr(layout)
    found = attempt(lib, lambda: lib.Layout.from_index(exprs, axes))
    assert found is not None and found.equivalent(layout), f"{layout!r} {exprs}"
    # and expressions that nobody made a layout of
    a = Axis("a", src.choice((4, 6, 8, 12)))
    free = (
        index(a) * src.integers(-1, 2)
        + (index(a) // src.integers(1, 5)) * src.integers(-2, 3)
        + (index(a) % src.integers(1, 6)) * src.integers(-1, 1)
    )
    found = attempt(lib, lambda: lib.Layout.from_index({"m": free}, [a]))
    places = [frozenset({oracle.place([("m", int(free.evaluate({a: x})))])}) for x in range(a.size)]
    assert (found is not None) == oracle.is_layout(places), str(free)
    both = {"m": index(a) // src.integers(1, 4), "lane": index(a) % src.integers(1, 4)}
    two = attempt(lib, lambda: lib.Layout.from_index(both, [a]))
    of_both = [frozenset({oracle.place((n, int(e.evaluate({a: x}))) for n, e in both.items())}) for x in range(a.size)]
    assert (two is not None) == oracle.is_layout(of_both), both
    assert two is None or oracle.of(two) == of_both, both
    assert found is None or oracle.of(found) == places, str(free)


def swizzle(lib, src):
    bits = src.integers(0, 2)
    s = lib.Swizzle(bits, src.integers(0, 2), src.integers(bits, 3) * src.choice((1, -1)))
    assert sorted(map(s, range(2 * s.period))) == list(range(2 * s.period)) and all(s(s(x)) == x for x in range(-9, s.period))
    low, above = s.base + max(-s.shift, 0), abs(s.shift) * (1 if s.shift >= 0 else -1)
    for x in range(s.period):  # bit by bit
        wanted = x
        for k in range(s.bits):
            wanted ^= (x >> (low + k + above) & 1) << (low + k)
        assert s(x) == wanted, (s, x)
    layout = draw(lib, src, 24, ("m",), plain=True)
    both = lib.Swizzled(layout, s)
    wanted = [frozenset(oracle.place([("m", s(dict(p).get("m", 0)))]) for p in of) for of in oracle.of(layout)]
    assert [frozenset(oracle.place(p.items()) for p in both(x)) for x in range(layout.size)] == wanted, f"{both}"
    plain = attempt(lib, both.plain)
    assert (plain is not None) == oracle.is_list([next(iter(w)) for w in wanted]), f"{both}"
    assert plain is None or oracle.of(plain) == wanted, f"{both}"
    first = src.integers(0, layout.size - 1)
    part = attempt(lib, lambda: both.slice([(first, layout.size)]))
    assert part is None or all(part(x)[0].get("m", 0) == both(first + x)[0].get("m", 0) for x in range(part.size)), f"{both} from {first}"
    outer = lib.Layout([(2, src.integers(0, 4)), (2, src.integers(0, 2))])
    another = lib.Swizzled(rewritten(lib, src, layout), lib.Swizzle(src.integers(0, 1), 0, src.choice((1, 2))))
    same = [frozenset(oracle.place(p.items()) for p in another(x)) for x in range(layout.size)] == wanted
    assert both.equivalent(another) == another.equivalent(both) == same, f"{both} {another}"
    assert both.equivalent(layout) == layout.equivalent(both) == (wanted == oracle.of(layout)), f"{both}"
    fine = draw(lib, src, 6, ("m",), plain=True)
    filled, width = attempt(lib, lambda: both.tile(fine)), oracle.span(oracle.of(fine), "m")
    of_fine = [dict(next(iter(t))).get("m", 0) for t in oracle.of(fine)]
    of_both = [dict(next(iter(w))).get("m", 0) for w in wanted]
    if filled is not None:
        assert [filled(x)[0]["m"] for x in range(filled.size)] == [w * width + t for w in of_both for t in of_fine], f"{filled}"
    else:
        assert width & (width - 1) or min(of_fine), f"{both} {fine}"
    tiles = attempt(lib, lambda: outer.tile(both))
    assert tiles is None or tiles.tile_of(both).equivalent(outer) or both.layout.size == 1, f"{tiles}"
    if tiles is not None:
        width = oracle.span(oracle.of(layout), "m")
        for x, base in enumerate(oracle.of(outer)):
            for y, w in enumerate(wanted):
                at = dict(next(iter(base))).get("m", 0) * width + dict(next(iter(w))).get("m", 0)
                assert tiles(x * layout.size + y)[0].get("m", 0) == at, f"{tiles}"


def inverse(lib, src):
    digits = [src.integers(1, 4) for _ in range(src.integers(1, 3))]
    block, iters, offset = 1, [], 0
    for e in digits:
        sign = src.choice((1, 1, -1))
        offset += (e - 1) * block if sign < 0 else 0
        iters.insert(src.integers(0, len(iters)), (e, sign * block))
        block *= e
    layout = lib.Layout(iters, (), {"m": offset})
    if src.chance(3):
        layout = draw(lib, src, 12, ("m",))
    found = attempt(lib, lambda: lib.inverse(layout))
    places = oracle.of(layout)
    _inverses(lib, src, layout)
    onto = all(len(s) == 1 for s in places) and sorted(dict(p).get("m", 0) for s in places for p in s) == list(range(layout.size))
    assert (found is not None) == onto or not layout.canonicalize().iters, repr(layout)
    if found is not None:
        back = [dict(next(iter(s))).get("m", 0) for s in oracle.of(found)]
        assert [back[dict(next(iter(s))).get("m", 0)] for s in places] == list(range(layout.size)), repr(layout)


def _inverses(lib, src, layout):
    """Right and left inverses by their definitions; and inverses of layouts on two axes, what is no interval on one of them included."""
    if src.chance(2):  # one that begins at 0
        layout = draw(lib, src, 12, ("m",))
        layout = lib.Layout(layout.iters, (), {"m": -min(sum(v for _, v in w) for w in oracle.walks(oracle.raw(layout)[0]))})
    places = oracle.of(layout)
    right = attempt(lib, lambda: lib.right_inverse(layout))
    if right is not None:
        back = [dict(next(iter(s))).get("m", 0) for s in oracle.of(right)]
        assert [places[x] for x in back] == [frozenset({oracle.place([("m", i)])}) for i in range(right.size)], repr(layout)
        if not layout.replicas and sorted(dict(next(iter(s))).get("m", 0) for s in places) == list(range(layout.size)):
            assert right.size == layout.size, repr(layout)
    else:
        assert layout.replicas or min(dict(p).get("m", 0) for s in places for p in s), repr(layout)
    two = draw(lib, src, 24)
    if src.chance(2):  # onto a box: the digits of its places in any order
        digits = [("m", 2), ("m", 3), ("lane", 2), ("lane", 2)]
        block, iters = {"m": 1, "lane": 1}, []
        for axis, e in digits[: src.integers(1, 4)]:
            iters.insert(src.integers(0, len(iters)), (e, block[axis], axis))
            block[axis] *= e
        two = lib.Layout(iters)
    for axes in (("m", "lane"), ("lane", "m")):
        places = oracle.of(two)
        box = [oracle.span(places, a) for a in axes]
        at = [[dict(p).get(a, 0) for a in axes] for s in places for p in s]
        found, left = attempt(lib, lambda axes=axes: lib.inverse(two, axes)), attempt(lib, lambda axes=axes: lib.left_inverse(two, axes))
        onto = all(len(s) == 1 for s in places) and sorted(map(tuple, at)) == oracle.indices(box)
        assert (found is not None) == onto, f"{two!r} {axes}"
        if found is not None:
            assert [found(p, box)[0]["m"] for p in at] == list(range(two.size)), f"{two!r} {axes}"
            assert left is not None and left.equivalent(found), f"{two!r} {axes}"
        elif left is not None:
            steps = [[(abs(i.stride), i.extent) for i in two.canonicalize().iters if i.axis == a] for a in axes]
            shape = [math.prod(max(of, default=(1, 1))) for of in steps]
            assert [left(p, shape)[0]["m"] for p in at] == list(range(two.size)), f"{two!r} {axes}"


def intersection(lib, src):
    a, b = (lib.Iter(src.integers(1, 7), src.integers(-6, 6), "m") for _ in range(2))
    found = a.intersection(b)
    values = [{k * i.stride for k in range(i.extent)} for i in (a, b, found)]
    assert values[0] & values[1] == values[2] and found.extent == len(values[2]), (a, b)


def placements(lib, src):
    """Shards as torch cuts them: chunks of what the mesh dimensions before have left."""
    shape = tuple(src.choice((2, 4, 6, 8)) for _ in range(src.integers(1, 2)))
    mesh = {"dp": src.choice((1, 2, 2)), "tp": src.choice((2, 3))}
    chosen = tuple(src.choice((lib.Replicate(), *map(lib.Shard, range(len(shape))))) for _ in mesh)
    sharding = lib.Sharding(shape, mesh, chosen)
    layout = attempt(lib, lambda: sharding.layout)
    wanted = {u: set() for u in oracle.indices(shape)}
    ragged = False
    for d in range(mesh["dp"]):
        for t in range(mesh["tp"]):
            box = [(0, n) for n in shape]
            for many, p, at in zip(mesh.values(), chosen, (d, t), strict=True):
                if isinstance(p, lib.Shard):
                    low, high = box[p.dim]
                    ragged |= bool((high - low) % many)
                    part = -(-(high - low) // many)
                    box[p.dim] = (min(low + at * part, high), min(low + (at + 1) * part, high))
            local = [high - low for low, high in box]
            for u in oracle.indices(local):
                index = tuple(low + i for (low, _), i in zip(box, u, strict=True))
                wanted[index].add(oracle.place([("dp", d), ("tp", t), ("m", oracle.flat(u, local))]))
    assert (layout is None) == ragged, sharding
    if layout is not None:
        agree(layout, [frozenset(wanted[u]) for u in oracle.indices(shape)], sharding)
        assert lib.Sharding.of(layout, shape, mesh).layout.equivalent(layout)


def cute(lib, src):
    """CuTe's definitions: modes colexicographic, (A o B)(c) = A(B(c)), the complement disjoint, ordered and bounded, divide and product by them."""
    modes = [(src.integers(1, 4), src.integers(0, 6)) for _ in range(src.integers(1, 3))]
    layout = lib.cute.from_cute([n for n, _ in modes], [d for _, d in modes])
    for c in range(layout.size):
        rest, at = c, 0
        for n, d in modes:
            at += rest % n * d
            rest //= n
        assert layout(c) == ({"m": at},)
    shape, stride = lib.cute.to_cute(layout)
    assert lib.cute.from_cute(shape, stride).equivalent(layout)
    block, tile = 1, []
    for _ in range(src.integers(1, 3)):
        e = src.integers(2, 3)
        if src.chance(2):
            tile.append((e, block))
        block *= e
    tiler = lib.cute.from_cute([n for n, _ in tile], [d for _, d in tile])
    big = lib.cute.from_cute((block, src.integers(1, 3)), (src.integers(1, 5), src.integers(1, 40)))
    rest = lib.cute.complement(tiler, big.size)

    def values(of):
        return [dict(next(iter(s))).get("m", 0) for s in oracle.of(of)]

    a, b = values(tiler), values(rest)
    assert all(x < y for x, y in pairwise(b)), "ordered"
    assert not set(a[1:]) & set(b[1:]) and len({x + y for x in a for y in b}) == len(a) * len(b) >= big.size, "disjoint"
    assert rest.size <= -(-big.size // tiler.size) and lib.cute.cosize(rest) <= -(-big.size // lib.cute.cosize(tiler)) * lib.cute.cosize(
        tiler
    ), "bounded"
    divided = attempt(lib, lambda: lib.cute.logical_divide(big, tiler))
    of_big = values(big)
    wanted = [of_big[x + y] if x + y < len(of_big) else None for y in b for x in a]
    if divided is not None:
        assert values(divided) == wanted, (big, tiler)
        assert values(lib.Layout(divided.blocks((rest.size, tiler.size))[1], (), divided.offset)) == wanted[: tiler.size], "first mode"
        assert math.prod(i.extent for i in divided.iters) == rest.size * tiler.size
        assert tiler.size in [math.prod(i.extent for i in divided.iters[k:]) for k in range(len(divided.iters) + 1)], "ends between iters"
    else:  # CuTe goes on beyond the last mode; here that is refused.  A tile that is no mode of the result is no division
        moves = [oracle.place([("m", v or 0)]) for v in wanted]
        whole = None not in wanted and oracle.is_list(moves)
        assert not whole or attempt(lib, lambda: big.compose(rest.direct_sum(tiler)).group((rest.size, tiler.size))) is None, (big, tiler)
    repeats = lib.cute.from_cute((2, src.integers(1, 3)), (src.integers(1, 3), src.integers(1, 3)))
    made = attempt(lib, lambda: lib.cute.logical_product(tiler, repeats))
    whole = values(lib.cute.complement(tiler, tiler.size * lib.cute.cosize(repeats)))
    wanted = [x + whole[y] for y in values(repeats) for x in a]
    if made is not None:
        assert values(made) == wanted, (tiler, repeats)
    else:
        assert not oracle.is_list([oracle.place([("m", v)]) for v in wanted]), (tiler, repeats)


PROPERTIES = (
    induced_map, canonicalize, equivalent, group, tile, direct_sum, tile_of, slice_, permute, compose, complement, text, strides, index_expressions, swizzle, inverse,
    intersection, placements, cute,
)  # fmt: skip
