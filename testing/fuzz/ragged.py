"""Random programs over ragged data, written in torch as people write them: lengths, offsets, documents and windows, masks and gathers.

What :mod:`.grammar` draws in terms is drawn here as the text of a function, which the front end reads: a seed is a function, its example
and other data for the same program, whose lengths may be zero, equal, skewed, beyond the buffer, negative or at the ends of their type.
The program must mean what torch computes in float64; everything behind it is that of any random program (:mod:`.whole_path`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...errors import EqFuseError
from ...frontends import trace
from ...ir.program import Program
from ...ir.terms import Map, Reduce, Scan
from ..strategies import DOCUMENTS, OFFSETS, WILD_LENGTHS, WILD_WINDOWS, sample
from .grammar import Drawn, Span

DRAWS = 3  # of data for one program
WIDE = (1, 1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 23, 33)
LONG = (130, 200, 257, 400, 600)  # keys of a row: plans have loops over them
LONG_ROWS = 0.15  # of programs
VALUES = ("normal", "normal", "normal", "ties", "zeros", "equal")
LARGE = ("large", "wide")  # products of which float16 has not
POINTWISE = (
    "{}",
    "{}",
    "torch.relu({})",
    "torch.tanh({})",
    "{} * 0.5",
    "torch.sigmoid({})",
    "torch.nn.functional.gelu({})",
    "{}.abs() + 0.5",
)
NOTHING = ("float('-inf')", "float('-inf')", "-1e9")  # the last one float16 has not


@dataclass(frozen=True)
class Argument:
    """A parameter, and how its data are drawn."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    kinds: Sequence[str]
    below: int | None = None
    parts: bool = False  # the lengths between offsets

    def drawn(self, rng: random.Random) -> torch.Tensor:
        """Data of one of the kinds."""
        found = sample(self.dtype, self.shape, values=rng.choice(self.kinds), seed=rng.randrange(2**16), below=self.below)
        return found.diff() if self.parts else found


def draw_ragged(seed: int) -> Drawn:
    """The ragged program of a seed, read from torch.  What cannot be read raises as it does for users, with a note of the source."""
    writer = _Writer(seed)
    writer.write()
    space: dict[str, Any] = {"torch": torch}
    exec(compile(writer.source, f"<ragged program {seed}>", "exec"), space)
    function = space["program"]
    draws = [tuple(a.drawn(writer.rng) for a in writer.arguments) for _ in range(DRAWS)]
    try:
        program = trace(function, draws[0]).program
    except EqFuseError as error:
        error.add_note(writer.source)
        raise
    for t in program.terms():
        if isinstance(t, Map):
            writer.used[f"op {t.op}"] += 1
        elif isinstance(t, Reduce | Scan):
            writer.used[f"monoid {t.monoid}"] += 1
    data = [{i.name: _numbers(x) for i, x in zip(program.inputs, given, strict=True)} for given in draws]
    wanted = [_torch(function, program, given) for given in draws]
    span = None
    if writer.span is not None:
        (low, high), of = writer.span, program.inputs[0].layout
        if len(of) == 2 and of[0] is not None and of[1] is not None:
            span = Span(of[0], of[1], tuple(_ends(low, high, writer, given) for given in draws))
    return Drawn(program, data[0], writer.used, again=tuple(data[1:]), source=writer.source, meant=tuple(wanted), span=span)


def _numbers(x: torch.Tensor) -> np.ndarray:
    return (x.double() if x.dtype.is_floating_point else x).numpy()


def _torch(function: Callable[..., Any], program: Program, given: Sequence[torch.Tensor]) -> dict[str, np.ndarray]:
    """What torch computes in float64, by output."""
    found = function(*(x.double() if x.dtype.is_floating_point else x for x in given))
    several = found if isinstance(found, tuple) else (found,)
    return {o.name: _numbers(x) for o, x in zip(program.outputs, several, strict=True)}


def _ends(low: str, high: str, writer: _Writer, given: Sequence[torch.Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """The columns that each row sees: the first, and the one behind the last."""
    space: dict[str, Any] = {"torch": torch, **{a.name: x for a, x in zip(writer.arguments, given, strict=True)}}
    rows, columns = writer.arguments[0].shape
    found = []
    for text in (low, high):
        exec(compile("\n".join([*writer.before, f"found = {text}"]), "<ends>", "exec"), space)
        found.append(np.clip(np.broadcast_to(np.asarray(space["found"], dtype=np.int64), (rows,)), 0, columns))
    return found[0], found[1]


class _Writer:
    """Writes one function."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"ragged {seed}")
        self.arguments: list[Argument] = []
        self.lines: list[str] = []
        self.results: list[str] = []
        self.used: Counter[str] = Counter()
        self.before: list[str] = []  # lines that the ends of rows need
        self.span: tuple[str, str] | None = None
        r = self.rng
        self.real = r.choice((torch.float32,) * 6 + (torch.float16, torch.bfloat16))
        self.whole = r.choice((torch.int32, torch.int64, torch.int64))
        long = r.random() < LONG_ROWS
        self.batch, self.rows = r.choice((0, 1, 2, 3, 4, 5)) if r.random() < 0.3 else r.choice((2, 3, 4)), r.choice(WIDE)
        self.keys = r.choice(LONG) if long else r.choice(WIDE)
        self.wide = r.choice((1, 2, 3, 5, 8))

    # pieces ---------------------------------------------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The text of the function."""
        body = [*self.before, *self.lines, f"return {', '.join(self.results)}"]
        return "\n".join([f"def program({', '.join(a.name for a in self.arguments)}):", *(f"    {line}" for line in body), ""])

    def one(self, **choices: str) -> str:
        """One of some spellings, counted by its name."""
        name = self.rng.choice(list(choices))
        self.used[name.replace("_", " ")] += 1
        return choices[name]

    def real_of(self, name: str, *shape: int) -> str:
        """A new parameter of numbers."""
        self.arguments.append(Argument(name, self.real, shape, VALUES + LARGE * (self.real == torch.float32)))
        return name

    def whole_of(self, name: str, shape: tuple[int, ...], kinds: Sequence[str], below: int, *, parts: bool = False) -> str:
        """A new parameter of integers."""
        self.arguments.append(Argument(name, self.whole, shape, kinds, below, parts))
        return name

    def let(self, name: str, text: str, *, before: bool = False) -> str:
        """A new local variable."""
        (self.before if before else self.lines).append(f"{name} = {text}")
        return name

    def act(self, x: str) -> str:
        """Something of each element."""
        return self.rng.choice(POINTWISE).format(x)

    def positions(self, count: int) -> str:
        """As many positions."""
        return f"torch.arange({count})" if self.rng.random() < 0.8 else f"torch.arange({count}, dtype=torch.int32)"

    def masked(self, x: str, m: str) -> str:
        """Zeros where a mask says no."""
        return self.rng.choice((
            f"torch.where({m}, {x}, 0.0)", f"({x}) * {m}", f"({x}) * {m}.to(({x}).dtype)", f"({x}).masked_fill(~{m}, 0.0)",
            f"torch.where(~{m}, 0.0, {x})",
        ))  # fmt: skip

    # programs -------------------------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """The whole function."""
        kind = self.rng.choice(("scores", "scores", "scores", "batched", "batched", "linear", "linear", "packed", "packed"))
        getattr(self, f"_{kind}")()
        self.used[f"program of {kind}"] += 1

    def _scores(self) -> None:
        """Rows and columns, of which each row sees some."""
        documents = self.rng.random() < 0.4
        rows = self.rows
        if documents:
            rows = self.keys = self.rng.choice(WIDE) if self.keys < LONG[0] else LONG[0]
        product = self.rng.random() < 0.3
        if product:
            q, k = self.real_of("q", rows, self.wide), self.real_of("k", self.keys, self.wide)
        else:
            s = self.real_of("s", rows, self.keys)
        v = self.real_of("v", self.keys, self.rng.choice((1, 3, 4)))
        m, interval = self._of_documents(rows) if documents else self._of_rows(rows)
        m = self.let("m", m)
        if product:
            s = self.let("s", f"{q} @ {k}.T" + self.rng.choice(("", " * 0.3")))
        elif interval is not None:
            self.span = interval
        self._folded(s, v, m, last="-1")

    def _of_rows(self, rows: int) -> tuple[str, tuple[str, str] | None]:
        """Lengths or windows of the rows."""
        keys, j = self.keys, self.let("j", self.positions(self.keys))
        i = f"torch.arange({rows})[:, None]"
        if self.rng.random() < 0.45:
            n = self.whole_of("n", (rows,), WILD_LENGTHS, keys)
            column = self.rng.choice((f"{n}[:, None]", f"{n}.unsqueeze(1)", f"{n}.view(-1, 1)"))
            text, span = self.rng.choice((
                (f"{j} < {column}", ("0", n)), (f"{column} > {j}", ("0", n)), (f"~({j} >= {column})", ("0", n)),
                (f"{j} >= {column}", (n, str(keys))), (f"({j} < {column}) & ({j} <= {i})", ("0", n)),
                (f"{j} < ({column} + 3) // 4 * 4", None), (f"{j} + 1 <= {column}", None), (f"({j} - {i}).abs() < {column}", None),
                (f"{j} < torch.clamp({column}, 0, {keys})", ("0", n)), (f"({j} < {column}) & ({column} > 2)", None),
                (f"torch.logical_and({j} < {column}, {j} >= 2)", ("0", n)), (f"{j} != {column}", None),
                (f"{j} < torch.minimum({column}, {i} + 1)", ("0", n)), (f"{j} >= {keys} - {column}", None),
            ))  # fmt: skip
            self.used["mask by lengths"] += 1
            return text, span
        both = self.whole_of("windows", (rows, 2), WILD_WINDOWS, keys)
        low, high = self.let("low", f"{both}[:, 0]", before=True), self.let("high", f"{both}[:, 1]", before=True)
        a, b = f"{low}[:, None]", f"{high}[:, None]"
        text, span = self.rng.choice((
            (f"({a} <= {j}) & ({j} < {b})", (low, high)), (f"({j} >= {a}) & ({b} > {j})", (low, high)),
            (f"~(({j} < {a}) | ({j} >= {b}))", (low, high)), (f"({j} < {a}) | ({j} >= {b})", None),
            (f"({a} <= {j}) & ({j} < {b}) & ({j} <= {i})", (low, high)), (f"({a} <= {j}) ^ ({j} < {b})", None), (f"{j} - {a} < {b}", None),
        ))  # fmt: skip
        self.used["mask by windows"] += 1
        return text, span

    def _of_documents(self, total: int) -> tuple[str, tuple[str, str] | None]:
        """Tokens that see those of their own document."""
        count = self.rng.choice((1, 2, 3, 5))
        t = self.let("t", self.positions(total), before=True)
        given = self.rng.random() < 0.4  # documents as an argument, in whatever order
        if given and self.rng.random() < 0.5:
            doc = self.whole_of("doc", (total,), DOCUMENTS, count)
            self.used["documents by number"] += 1
            return f"{doc}[:, None] == {doc}[None, :]" + self.rng.choice(("", f" & ({t} <= {t}[:, None])")), None
        cu = self._offsets(count, total, before=True)
        if given:
            doc = self.whole_of("doc", (total,), DOCUMENTS, count)
        else:
            doc = self.let("doc", self.one(
                searchsorted=f"torch.searchsorted({cu}[1:], {t}, right=True)", bucketize=f"torch.bucketize({t}, {cu}[1:], right=True)",
            ), before=True)  # fmt: skip
            if self.rng.random() < 0.2:
                return f"{doc}[:, None] == {doc}", (f"{cu}[{doc}]", f"{cu}[{doc} + 1]")
        if self.rng.random() < 0.5:
            low, high = f"{cu}[{doc}]", f"{cu}[{doc} + 1]"
        else:
            low = self.let("low", f"{cu}[:-1][{doc}]", before=True)
            high = self.let("high", f"{cu}[1:][{doc}]", before=True)
        more = self.rng.choice(("", "", f" & ({t} <= {t}[:, None])", f" & ({t}[:, None] - {t} < 3)"))
        self.used["mask by offsets"] += 1
        return f"({low}[:, None] <= {t}) & ({t} < {high}[:, None])" + more, (low, high)

    def _offsets(self, count: int, total: int, *, before: bool = False) -> str:
        """Offsets, or what is made into them."""
        if self.rng.random() < 0.5:
            return self.whole_of("cu", (count + 1,), OFFSETS, total)
        n = self.whole_of("n", (count + 1,), OFFSETS, total, parts=True)
        return self.let("cu", self.one(
            joined=f"torch.cat([torch.zeros(1, dtype={n}.dtype), {n}.cumsum(0)])", padded=f"torch.nn.functional.pad({n}.cumsum(0), (1, 0))",
        ), before=before)  # fmt: skip

    def _batched(self) -> None:
        """Rows of a batch, padded to the longest."""
        batch, keys = self.batch, self.keys
        heads = self.rng.random() < 0.4
        if heads:
            q, k = self.real_of("q", batch, min(self.rows, 8), self.wide), self.real_of("k", batch, keys, self.wide)
        else:
            s = self.real_of("s", batch, keys)
        v = self.real_of("v", batch, keys, self.rng.choice((1, 3, 4)))
        n = self.whole_of("n", (batch,), WILD_LENGTHS, keys)
        j = self.let("j", self.positions(keys))
        m = self.let("m", f"{j}[None, :] < {n}[:, None]" if self.rng.random() < 0.6 else f"~({j} >= {n}.unsqueeze(-1))")
        if heads:
            s = self.let("s", f"{q} @ {k}.transpose(-1, -2) * 0.4")
            m = self.let("m", f"{m}[:, None, :]" + self.rng.choice(("", f" & ({j} <= torch.arange({min(self.rows, 8)})[:, None])")))
            self._folded(s, v, m, last="-1")
        elif self.rng.random() < 0.5:
            self._folded(s, None, m, last="-1")
        else:
            self._pooled(v, f"{m}[..., None]", "1", f"{n}[:, None]")

    def _folded(self, s: str, v: str | None, m: str, last: str) -> None:
        """A reduction of the elements that a mask keeps, or something in their place."""
        low = self.rng.choice(NOTHING)
        low = NOTHING[0] if self.real == torch.float16 else low
        kept = self.one(where_infinite=f"torch.where({m}, {s}, {low})", filled_infinite=f"{s}.masked_fill(~{m}, {low})")
        a, norm = f"{s}.abs()", ".sum(-1, keepdim=True).clamp(min=0.1)"
        forms = {
            "sum": f"({self.masked(s, m)}).sum({last})",
            "largest": f"({kept}).amax({last})",
            "logsumexp": f"torch.logsumexp({kept}, {last})",
            "mean": f"({self.masked(s, m)}).sum({last}) / {m}.sum({last}).clamp(min=1)",
            "softmax": f"torch.softmax({kept}, {last})",
            "square": f"({self.masked(f'{s}.square()', m)}).sum({last})",
            "scan": f"({self.masked(s, m)}).cumsum({last})",
            "count": f"({m} & ({s} > 0)).sum({last})",
            "softmax of what is kept": f"torch.softmax({kept}, {last}).masked_fill(~{m}, 0.0)",
            "masked scan": f"torch.where({m}, {s}.cumsum({last}), 0.0)",
            "log softmax": f"torch.where({m}, torch.log_softmax({kept}, {last}), 0.0)",
        }
        if v is not None:
            forms |= {
                "attention": f"torch.softmax({kept}, {last}) @ {v}",
                "attention without empty rows": f"torch.where({m}.any(-1, keepdim=True), torch.softmax({kept}, {last}) @ {v}, 0.0)",
                "weighted": f"({self.masked(s, m)}) @ {v}",
                "activated": f"({self.masked(self.act(s), m)}) @ {v}",
                "normal": f"(({self.masked(a, m)}) @ {v}) / ({self.masked(a, m)}){norm}",
            }
        names = self.rng.sample(sorted(forms), self.rng.choice((1, 1, 1, 2)))
        if v is not None and self.rng.random() < 0.5:
            names[0] = self.rng.choice(("attention", "attention without empty rows", "weighted", "activated"))
        if set(names) & {"scan", "masked scan", "softmax"} or "-1e9" in kept:
            self.span = None  # what is not kept is read, too
        for k, name in enumerate(dict.fromkeys(names)):
            self.used[name] += 1
            y = self.let(f"y{k}", forms[name])
            self.results.append(y if name == "count" else self.act(y))

    def _pooled(self, x: str, m: str, axis: str, count: str) -> None:
        """The same along a dimension that is not the last."""
        low = "float('-inf')"
        text = self.one(
            pooled_sum=f"({self.masked(x, m)}).sum({axis})",
            pooled_mean=f"({self.masked(x, m)}).sum({axis}) / {count}.clamp(min=1)",
            pooled_largest=f"torch.where({m}, {x}, {low}).amax({axis})",
            pooled_scan=f"({self.masked(x, m)}).cumsum({axis})",
            pooled_weights=f"torch.softmax({x}.masked_fill(~{m}, {low}), {axis})",
            scan_and_mask=f"torch.where({m}, {x}.cumsum({axis}), 0.0)",
            pooled_logsumexp=f"torch.logsumexp({x}.masked_fill(~{m}, {low}), {axis})",
        )
        self.results.append(self.act(self.let("y", text)))

    def _linear(self) -> None:
        """A linear layer of padded rows."""
        batch, rows, wide, out = self.batch, self.rng.choice(WIDE), self.wide, self.rng.choice((1, 2, 4, 7))
        x, w, b = self.real_of("x", batch, rows, wide), self.real_of("w", wide, out), self.real_of("b", out)
        n = self.whole_of("n", (batch,), WILD_LENGTHS, rows)
        m = self.let("m", f"(torch.arange({rows}) < {n}[:, None])[..., None]")
        y = self.let("y", self.act(f"({x} @ {w} + {b})"))
        z = self.let("z", self.act(f"(({self.masked(x, m)}) @ {w})"))
        forms = {
            "mask after": self.masked(y, m), "mask before": z, "mask both": self.masked(z, m),
            "mask and norm": self.masked(f"torch.nn.functional.layer_norm({y}, ({out},))", m),
            "mask and softmax": self.masked(f"torch.softmax({y}, -1)", m), "chain": self.masked(f"({y} @ {w}.T)", m),
            "residual": f"{x} + {self.masked(f'({y} @ {w}.T)', m)}",
        }  # fmt: skip
        name = self.rng.choice(sorted(forms))
        self.used[name] += 1
        if self.rng.random() < 0.5:
            self.results.append(self.let("o", forms[name]))
        else:
            self._pooled(self.let("o", forms[name]), m, "1", f"{n}[:, None]")

    def _packed(self) -> None:
        """Rows that lie one after the other."""
        count, total, wide = self.rng.choice((1, 2, 3, 5)), self.keys, self.rng.choice((1, 3, 4))
        x = self.real_of("x", total, wide)
        cu = self._offsets(count, total)
        form = self.rng.choice(("segments", "padded", "indexed", "gathered", "repeated", "added", "normalized", "chosen"))
        self.used[form] += 1
        longest = self.rng.choice((total, total, max(total // 2, 1)))
        t = f"torch.arange({total})"
        doc = f"torch.searchsorted({cu}[1:], {t}, right=True)"
        if form == "segments":
            how = self.rng.choice(("sum", "mean", "max", "min"))
            self.results.append(f"torch.segment_reduce({self.act(x)}, {how!r}, offsets={cu}, axis=0)")
        elif form == "padded":
            p = self.let(
                "p", f"torch.ops.aten._jagged_to_padded_dense_forward({self.act(x)}, [{cu}], [{longest}], {self.rng.choice((0.0, -1.0))})"
            )
            if self.rng.random() < 0.5:
                self.results.append(self.one(sum_of_padded=f"{p}.sum(1)", largest_of_padded=f"{p}.amax(1)", padded_itself=self.act(p)))
            else:
                back = self.one(scaled=f"{p} * 2.0", softmax_of_padded=f"torch.softmax({p}, 1)", scan_of_padded=f"{p}.cumsum(1)")
                back = back if longest == total else f"torch.nn.functional.pad({back}, (0, 0, 0, {total - longest}))"
                self.results.append(f"torch.ops.aten._padded_dense_to_jagged_forward({back}, [{cu}], {total})")
        elif form == "indexed":
            at = self.let("at", f"{cu}[:-1, None] + torch.arange({longest})")
            m = self.let("m", f"({at} < {cu}[1:, None])[..., None]")
            p = self.let("p", f"{x}[{at}.clamp(max={total - 1})]")
            self._pooled(p, m, "1", f"{cu}.diff()[:, None]")
        elif form == "gathered":
            g = self.real_of("g", count, wide)
            doc = self.whole_of("doc", (total,), DOCUMENTS, count) if self.rng.random() < 0.5 else self.let("doc", doc)
            self.results.append(self.act(f"({x} * {g}[{doc}])"))
        elif form == "chosen":
            w = self.real_of("w", count, wide, self.rng.choice((2, 5)))
            several = self.rng.random() < 0.4
            at = self.whole_of("at", (total, 2) if several else (total,), DOCUMENTS, count)
            terms = "td,tkdf->tkf" if several else "td,tdf->tf"
            y = f"torch.einsum({terms!r}, {self.act(x)}, {w}[{at}])"
            self.results.append(self.act(y) if self.rng.random() < 0.5 else f"({y}).sum(-1)")
        elif form == "repeated":
            g = self.real_of("g", count, wide)
            r = f"{g}.repeat_interleave({cu}.diff(), 0, output_size={total})"
            self.results.append(self.act(f"({x} + {r})"))
        elif form == "added":
            doc = self.whole_of("doc", (total,), DOCUMENTS, count) if self.rng.random() < 0.5 else self.let("doc", doc)
            self.results.append(f"torch.zeros({count}, {wide}, dtype={x}.dtype).index_add(0, {doc}, {self.act(x)})")
        else:  # each by the sum of its row
            doc = self.let("doc", doc)
            e = self.let("e", f"{x}.abs() + 0.1")
            r = self.let("r", f"torch.segment_reduce({e}, 'sum', offsets={cu}, axis=0)")
            self.results.append(f"{e} / {r}[{doc}]")
