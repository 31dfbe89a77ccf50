"""Faulty copies of the library: each is one substitution in one module.  The first ones are the faults of the paper's pseudo-code.  A mutant is caught if a property fails."""

import importlib
import importlib.util
import random
import shutil
import sys
import tempfile
from pathlib import Path

from layout_properties import PROPERTIES, Source

LIBRARY = Path(__file__).resolve().parents[2] / "ir" / "layout"
NAME = "eqfuse.ir._layout_mutant"  # as deep as the package itself, so that its imports of the rest hold

# (what, module, text, what takes its place)
MUTANTS = (
    ("slice: no test of capacity at a wrap", "slicing", "if n > above and ours[i][1] != theirs[j][1]:", "if False:"),
    ("slice: capacity off by one", "slicing", "start % it.extent + length <= it.extent:", "start % it.extent + length <= it.extent + 1:"),
    ("slice: rest 0 where it is 1", "slicing", "if start % it.extent == 0 and length % it.extent == 0:", "if length % it.extent == 0:"),
    ("slice: partial digits peeled", "slicing", "if start % it.extent == 0 and length % it.extent == 0:", "if start % it.extent == 0:"),
    ("slice: a stride on two axes keeps one", "digits", "        if len(stride) > 1:\n            return None\n", ""),
    ("slice: offset of the begin dropped", "layout", "origin = plus(self.offset, value_at(self.iters, start))", "origin = dict(self.offset)"),
    ("slice: offset of the layout dropped", "layout", "origin = plus(self.offset, value_at(self.iters, start))", "origin = value_at(self.iters, start)"),
    ("slice: replicas dropped", "layout", "return Layout(tuple(out), self.replicas, origin)", "return Layout(tuple(out), (), origin)"),
    ("slice: last period of a pair of levels not counted", "slicing", "(length - 1 - first) // period + 1", "(length - 1 - first) // period"),
    ("slice: dimensions joined that are not one interval", "slicing", "elif length == n:", "elif length >= n - 1:"),
    ("group: without D0 and D1 first", "digits", "rest = list(reversed(canonical(iters)))\n    blocks", "rest = [i for i in reversed(iters) if i.extent > 1]\n    blocks"),
    ("group: stride of the head not scaled", "digits", "block.append(Iter(need, it.stride * inner, it.axis))", "block.append(Iter(need, it.stride, it.axis))"),
    ("group: what is left of a split iter", "digits", "inner = it.extent // need", "inner = need"),
    ("merge: order of neighbours", "digits", "out[-1].stride == it.extent * it.stride:", "it.stride == out[-1].extent * out[-1].stride:"),
    ("merge: axis not asked", "digits", "if out and out[-1].axis == it.axis and", "if out and"),
    ("merge: stride of the head kept", "digits", "it = Iter(out.pop().extent * it.extent, it.stride, it.axis)", "it = Iter(out[-1].extent * it.extent, out.pop().stride, it.axis)"),
    ("canonicalize: axis of a stride of 0 kept", "digits", "if it.stride == 0 and it.axis != MEMORY:", "if False:"),
    ("absorb: q at most e dropped", "replicas", "and 1 <= t // s <= e:", "and 1 <= t // s:"),
    ("absorb: q may be e + 1", "replicas", "1 <= t // s <= e:", "1 <= t // s <= e + 1:"),
    ("absorb: multiple not asked", "replicas", "t % s == 0 and 1 <=", "1 <="),
    ("absorb: extent of the sum", "replicas", "(s, e + t // s * (f - 1))", "(s, e + t // s * f)"),
    ("canonical copies: gap condition dropped", "replicas", "return found if has_gaps(found) else _of_entangled(found)", "return found"),
    ("canonical copies: gap beyond a stride, not the whole walk", "replicas", "all(t > e * s for", "all(t > s for"),
    ("canonical copies: offset of a negative stride dropped", "layout", "return Layout(digits.canonical(self.iters), copies, plus(self.offset, shift))", "return Layout(digits.canonical(self.iters), copies, self.offset)"),
    ("canonical copies: unit not given back", "replicas", "return tuple((s * unit, e) for s, e in form)", "return tuple((s, e) for s, e in form)"),
    ("span: extent for extent less 1", "iters", "+ abs(it.stride) * (it.extent - 1)", "+ abs(it.stride) * it.extent"),
    ("span: sign of strides", "iters", "+ abs(it.stride) * (it.extent - 1)", "+ it.stride * (it.extent - 1)"),
    ("tile: span without replicas", "layout", "spans((*self.iters, *self.replicas)).get(a, 1) for a in", "spans(self.iters).get(a, 1) for a in"),
    ("tile: offset not scaled", "layout", "offset = {a: v * widths.get(a, 1) for a, v in self.offset.items()}", "offset = dict(self.offset)"),
    ("tile: replicas not scaled", "layout", "tiling.scaled(self.replicas, widths), offset)", "self.replicas, offset)"),
    ("tile: inner iters before outer ones", "tiling", "for it in (*a, *b))", "for it in (*b, *a))"),
    ("direct sum: replicas of the inner dropped", "layout", "(*self.replicas, *inner.replicas), plus", "self.replicas, plus"),
    ("tile of: what is inside not compared", "tiling", "if inside != canonical(inner):", "if len(inside) != len(canonical(inner)):"),
    ("tile of: multiple of the span not asked", "tiling", "if it.stride % width:", "if False:"),
    ("tile of: tile before what is outside", "tiling", "for m in (n // k, k)]", "for m in (k, n // k)]"),
    ("tile of: offset not asked", "layout", "if found is None or gap.get(axis, 0) % width:", "if found is None:"),
    ("tile of: copies that are not blocks", "replicas", "    if {width * n + x for n in numbers for x in inside} != set(values(whole_form)):\n        return None\n", ""),
    ("tile of: sign of the tile's copies", "layout", "plus(inner.offset, own_shift), -1)", "inner.offset, -1)"),
    ("permute: order turned round", "layout", "tuple(it for k in turn for it in blocks[k])", "tuple(it for k in range(len(turn)) for it in blocks[turn.index(k)])"),
    ("compose: digits may carry", "composition", "all(a >= 0 and b < it.extent for", "all(a >= 0 and b <= it.extent for"),
    ("compose: negative steps may borrow", "composition", "all(a >= 0 and b < it.extent for", "all(b < it.extent for"),
    ("compose: start dropped", "layout", "plus(self.offset, value_at(self.iters, start)))", "self.offset)"),
    ("compose: sign of a step dropped", "composition", "d if it.stride > 0 else -d)", "d)"),
    ("compose: replicas of the inner dropped", "layout", "return Layout(out, (*self.replicas, *apart)", "return Layout(out, self.replicas"),
    ("complement: multiple not asked", "replicas", "        if s % block:\n            return None\n", ""),
    ("complement: size rounded down", "replicas", "-(-size // block)", "size // block"),
    ("complement: unordered", "layout", "for s, e in reversed(found)]\n        return Layout(tuple(out))", "for s, e in found]\n        return Layout(tuple(out))"),
    ("recognise: not every index compared", "digits", "for x in range(size)) else None", "for x in range(size - 1)) else None"),
    ("recognise: coefficients of divisors not taken off", "digits", "            if m % d == 0:\n", "            if m == d:\n"),
    ("swizzle: field of a negative shift", "swizzle", "(self.base + max(self.shift, 0))", "(self.base + abs(self.shift))"),
    ("swizzle: tiles at any distance", "swizzle", "if it.stride % period:", "if False:"),
    ("swizzle: equal maps of other swizzles", "swizzle", "        return all(\n            {tuple", "        return False and all(\n            {tuple"),
    ("swizzle: bits of a tile not raised", "swizzle", "base=self.swizzle.base + width.bit_length() - 1)", "base=self.swizzle.base)"),
    ("inverse: a hole is no hole", "inverses", "if abs(it.stride) != block:", "if abs(it.stride) < block:"),
    ("inverse: a digit that walks down", "inverses", "weight if it.stride > 0 else -weight) for", "weight) for"),
    ("inverse: axes in their own order", "inverses", "for axis in order:", "for axis in own:"),
    ("right inverse: digits that walk down beyond a hole", "inverses", "{MEMORY: _back(every)[1]}", "{MEMORY: _back(_chain(every)[0])[1]}"),
    ("intersection: the smaller step", "iters", "step = math.lcm(self.stride, other.stride)", "step = max(abs(self.stride), abs(other.stride))"),
    ("intersection: one value too many", "iters", "// step\n        return Iter(extent,", "// step + 1\n        return Iter(extent,"),
    ("shards: mesh dimension inside of what is local", "placements", "            out += [it for it, p in pairs if p == Shard(dim)]\n            out.append(Iter(n, step))", "            out.append(Iter(n, step))\n            out += [it for it, p in pairs if p == Shard(dim)]"),
    ("shards: ragged ones rounded", "placements", "if local[p.dim] % it.extent:", "if False:"),
    ("strides: a dimension of several iters", "strides", "if len(block) > 1:", "if False:"),
    ("index: remainder of the first digit only", "expressions", "{p: 1, p * atom.divisor: -atom.divisor}", "{p: 1, p * atom.divisor: -1}"),
)  # fmt: skip


class mutant:  # noqa: N801
    """The library with a substitution, as a package that can be imported, for as long as the block lasts."""

    def __init__(self, module, text, instead):
        self.module, self.text, self.instead = module, text, instead

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="eqfuse-layout-")
        root = Path(self.directory.name) / "layout"
        shutil.copytree(LIBRARY, root, ignore=shutil.ignore_patterns("__pycache__"))
        path = root / f"{self.module}.py"
        source = path.read_text()
        assert self.text in source, f"{self.module} has no {self.text!r}"
        path.write_text(source.replace(self.text, self.instead))
        spec = importlib.util.spec_from_file_location(NAME, root / "__init__.py", submodule_search_locations=[str(root)])
        package = importlib.util.module_from_spec(spec)
        sys.modules[NAME] = package
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        try:
            spec.loader.exec_module(package)
            importlib.import_module(f"{NAME}.cute")
        finally:
            sys.dont_write_bytecode = before
        return package

    def __exit__(self, *error):
        for name in [n for n in sys.modules if n == NAME or n.startswith(NAME + ".")]:
            del sys.modules[name]
        self.directory.cleanup()


FIRST = {
    "slice": "slice_", "group": "group", "merge": "canonicalize", "canonicalize": "canonicalize", "absorb": "equivalent", "canonical copies": "equivalent",
    "span": "induced_map", "tile": "tile", "direct sum": "direct_sum", "tile of": "tile_of", "permute": "permute", "compose": "compose",
    "complement": "complement", "recognise": "permute", "swizzle": "swizzle", "inverse": "inverse", "right inverse": "inverse", "intersection": "intersection", "shards": "placements", "strides": "strides", "index": "index_expressions",
}  # fmt: skip


def caught(lib, what, draws=400):
    """(name of the property, draw) that failed first, or None.  The property of that name is asked first, then all in turns."""
    named = [check for check in PROPERTIES if check.__name__ == FIRST[what.partition(":")[0]]]
    for checks, many in ((named, draws), (PROPERTIES, draws // 4)):
        for k in range(many):
            for check in checks:
                try:
                    check(lib, Source(random.Random(k).randint))
                except Exception:
                    return check.__name__, k
    return None


__all__ = ["MUTANTS", "caught", "mutant"]
