"""What layouts mean, by enumeration.  Nothing here knows an algorithm of the library: a layout is its lists of (extent, stride, axis), a place is a frozenset of
(axis, value) without zeros, a map is the list of the sets of places of each index."""

import itertools
import math


def product_of(extents):
    return itertools.product(*(range(e) for e in extents))


def place(parts):
    total = {}
    for axis, value in parts:
        total[axis] = total.get(axis, 0) + value
    return frozenset((a, v) for a, v in total.items() if v)


def raw(layout):
    """The three parts as plain data, from a layout's public fields."""
    return (
        [(i.extent, i.stride, i.axis) for i in layout.iters],
        [(i.extent, i.stride, i.axis) for i in layout.replicas],
        dict(layout.offset),
    )


def walks(iters):
    """The value of each choice of digits, in row-major order."""
    return [[(a, d * s) for d, (_, s, a) in zip(ds, iters, strict=True)] for ds in product_of(e for e, _, _ in iters)]


def of(layout):
    iters, copies, offset = raw(layout)
    return [frozenset(place([*w, *r, *offset.items()]) for r in walks(copies)) for w in walks(iters)]


def added(a, b, factor=1):
    return place([*a, *((axis, factor * v) for axis, v in b)])


def scaled(p, widths):
    return frozenset((a, v * widths.get(a, 1)) for a, v in p)


def span(places, axis):
    values = [dict(p).get(axis, 0) for of_index in places for p in of_index]
    return max(values) - min(values) + 1


def spans(layout):
    return {a: span(of(layout), a) for a in layout.axes}


def indices(shape):
    return list(product_of(shape))


def flat(index, shape):
    out = 0
    for i, n in zip(index, shape, strict=True):
        out = out * n + i
    return out


def steps(places):
    """What each index adds to the first, if all its copies move alike; else None."""
    axes = sorted({a for s in places for p in s for a, _ in p})

    def key(p):
        return [dict(p).get(a, 0) for a in axes]

    first = min(places[0], key=key)
    out = []
    for s in places:
        if not s:
            return None
        move = added(min(s, key=key), first, -1)
        if frozenset(added(p, move) for p in places[0]) != s:
            return None
        out.append(move)
    return out


def is_list(moves):
    """Whether some iters make these values: every ordered factorisation is tried; its strides are forced."""
    moves = [added(m, moves[0], -1) for m in moves]

    def factorisations(n):
        if n == 1:
            yield ()
        for e in range(2, n + 1):
            if n % e == 0:
                for rest in factorisations(n // e):
                    yield (e, *rest)

    for extents in factorisations(len(moves)):
        weights = [math.prod(extents[k + 1 :]) for k in range(len(extents))]
        strides = [moves[w] for w in weights]
        if any(len(s) > 1 for s in strides):
            continue
        if all(
            m == place((a, v * d) for d, s in zip(ds, strides, strict=True) for a, v in s)
            for m, ds in zip(moves, product_of(extents), strict=True)
        ):
            return True
    return False


def is_copies(places):
    """Whether replica iters and an offset make this set: a product of one set per axis, each a sum of walks."""
    axes = sorted({a for p in places for a, _ in p})
    sets = [{dict(p).get(a, 0) for p in places} for a in axes]
    if math.prod(map(len, sets)) != len(places):
        return False
    return all(sum_of_walks(frozenset(v - min(s) for v in s)) for s in sets)


def sum_of_walks(goal):
    seen, stack = set(), [frozenset({0})]
    while stack:
        made = stack.pop()
        if made == goal:
            return True
        for s in goal - {0}:
            for e in range(2, max(goal) // s + 2):
                grown = frozenset(x + s * d for x in made for d in range(e))
                if not grown <= goal:
                    break
                if grown != made and grown not in seen:
                    seen.add(grown)
                    stack.append(grown)
    return False


def is_layout(places):
    moves = steps(places)
    return moves is not None and is_list(moves) and is_copies(places[0])


def separable(places, shape):
    """Whether each dimension adds its own part: the map of a shape that groups."""
    moves = steps(places)
    if moves is None:
        return False
    along = [[moves[flat([i if k == d else 0 for k in range(len(shape))], shape)] for i in range(n)] for d, n in enumerate(shape)]
    for u in indices(shape):
        total = frozenset()
        for d, i in enumerate(u):
            total = added(total, along[d][i])
        if total != moves[flat(u, shape)]:
            return False
    return True


def interleaved(x, y):
    return [i for pair in zip(x, y, strict=True) for i in pair]


def tile(a, shape_a, b, shape_b, widths):
    """The map of x || y -> a(x)·widths + b(y), in row-major order of the interleaved shape."""
    both = interleaved(shape_a, shape_b)
    out = []
    for z in indices(both):
        of_a, of_b = a[flat(z[0::2], shape_a)], b[flat(z[1::2], shape_b)]
        out.append(frozenset(added(scaled(p, widths), q) for p in of_a for q in of_b))
    return out


def outer_of_tile(whole, shape, b, shape_b, widths):
    """The map C with whole = C (x) b, or None: for each x the places c with c·widths + b(y) in whole(x || y) for all y, which must be all of it."""
    if any(n % m for n, m in zip(shape, shape_b, strict=True)):
        return None
    shape_c = [n // m for n, m in zip(shape, shape_b, strict=True)]
    out = []
    for x in indices(shape_c):
        inside = [whole[flat([i * m + j for i, m, j in zip(x, shape_b, y, strict=True)], shape)] for y in indices(shape_b)]
        origin = next(iter(b[0]))
        found = set()
        for p in inside[0]:
            c = added(p, origin, -1)
            if all(v % widths.get(a, 1) == 0 for a, v in c):
                c = frozenset((a, v // widths.get(a, 1)) for a, v in c)
                if all(added(scaled(c, widths), q) in s for q_all, s in zip(b, inside, strict=True) for q in q_all):
                    found.add(c)
        for q_all, s in zip(b, inside, strict=True):
            if {added(scaled(c, widths), q) for c in found for q in q_all} != s:
                return None
        out.append(frozenset(found))
    return out


def fills(image, size):
    """The numbers c, ascending, whose sums with the image are each number below some n >= size once; None if there are none.  Each is forced: the least
    number that is missing can only be c + 0."""
    if min(image) != 0:
        return None
    covered, starts = set(), []
    for _ in range(size + 2 * max(image) + 3):
        missing = next(n for n in itertools.count() if n not in covered)
        if missing >= size and max(covered, default=-1) == missing - 1:
            return starts
        moved = {missing + x for x in image}
        if moved & covered:
            return None
        covered |= moved
        starts.append(missing)
    return None
