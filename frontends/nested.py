"""Functions of nested tensors (``torch.jagged``) as functions of the dense tensors of which these consist.

    x: [batch, rows of its own, 16]    ->    x_values: [all rows, 16], x_offsets: [batch + 1], x_longest: [longest, 0]

Nested arguments with one tensor of offsets share it: only then torch takes their rows to be the same.  The longest row is the length of an
empty tensor, as torch keeps it: a size like any other.  A nested result has the very offsets of an argument, or new ones.

What torch asks of any subclass of tensors (``__tensor_flatten__``) would not do: it keeps the longest row on the CPU, if at all, says
nothing of shared offsets, and makes no views that are differentiated.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ..errors import TraceError
from .calls import SYMBOLS, CalledFunction
from .capture import attention_by_definition
from .naming import function_name
from .spec import is_nested


class Place(NamedTuple):
    """Where the parts of a nested argument are among the dense ones; the longest row stands behind ``offsets``.  ``ragged``: the dimension
    that has lengths of its own."""

    values: int
    offsets: int
    ragged: int


class Rows(NamedTuple):
    """A nested result in its parts: ``offsets`` are new ones, or those at this place among the dense arguments."""

    values: torch.Tensor
    offsets: torch.Tensor | int
    ragged: int


@dataclass(frozen=True)
class Opened:
    """Flat arguments as dense tensors.  ``names``: what each of these is called; ``places``: where each argument is among them; ``owners``:
    by the places of offsets, a nested tensor that has them."""

    dense: tuple[Any, ...]
    names: tuple[str, ...]
    places: tuple[int | Place, ...]
    owners: Mapping[int, Any]


def opened(flat: Sequence[Any], names: Sequence[str]) -> Opened:
    """Flat arguments as dense tensors.  TraceError for rows with gaps between them."""
    dense: list[Any] = []
    called: list[str] = []
    places: list[int | Place] = []
    owners: dict[int, Any] = {}
    for x, name in zip(flat, names, strict=True):
        here = len(dense)
        if not is_nested(x):
            dense, called, places = [*dense, x], [*called, name], [*places, here]
            continue
        offsets = next((at for at, owner in owners.items() if _lengths(owner) == _lengths(x)), here + 1)
        places.append(Place(here, offsets, x._ragged_idx))
        dense, called = [*dense, _without_gaps(x).values()], [*called, f"{name}_values"]
        if offsets == here + 1:
            owners[offsets] = x
            dense += [x.offsets(), torch.empty((_longest(x), 0), device=x.device)]
            called += [f"{name}_offsets", f"{name}_longest"]
    return Opened(tuple(dense), tuple(called), tuple(places), owners)


def _lengths(x: Any) -> Any:
    """What torch compares for the lengths of rows: a number that stands for the offsets."""
    return x._size[x._ragged_idx]


def _without_gaps(x: Any) -> Any:
    if x.lengths() is not None:
        raise TraceError("a nested tensor has lengths beside its offsets: there are gaps between its rows", cure="pass x.contiguous()")
    return x


def _longest(x: Any) -> int:
    """The longest row.  Where nobody has told it, torch reads the offsets, once; without data it is at most all rows."""
    unknown = x._max_seqlen_tensor is None and x.offsets().is_meta
    return int(x.values().shape[x._ragged_idx - 1] if unknown else x._get_max_seqlen())


def closed(values: torch.Tensor, offsets: torch.Tensor, ragged: int, shortest: Any = None, longest: Any = None) -> Any:
    """The nested tensor of its parts, a view of the values also where these are differentiated."""
    from torch.nested._internal.nested_tensor import _nt_view_dummy

    return torch._nested_view_from_jagged(values, offsets, _nt_view_dummy(), None, ragged, shortest, longest)


def dense_function(fn: Any, call: Opened, spec: Any) -> Any:
    """A function of nested tensors as one of the dense tensors of a call, with :class:`Rows` for nested results; of a module, a module with
    its parameters and its mode.

    It says which dimensions of the dense tensors may be symbols.  Values have them where rows are: torch multiplies lengths of rows with no
    other symbol.
    """
    is_module = isinstance(fn, torch.nn.Module)
    called = fn if is_module else CalledFunction(fn).f
    places = call.places
    nested = [p for p in places if isinstance(p, Place)]

    def forward(*dense: Any) -> Any:
        for p in nested:
            _numbered(dense[p.offsets], p.offsets)
        without_data = any(isinstance(x, torch._subclasses.FakeTensor) or x.is_meta for x in dense if isinstance(x, torch.Tensor))
        args, kwargs = pytree.tree_unflatten([_argument(p, dense) for p in places], spec)
        with _ByDefinition() if without_data or not torch.is_grad_enabled() else nullcontext():  # torch differentiates its own alone
            found = called(*args, **kwargs)
        return pytree.tree_map(lambda y: _rows(y, dense) if is_nested(y) else y, found)

    rows = {p.values: (p.ragged - 1,) for p in nested} | {p.offsets + k: (0,) for p in nested for k in (0, 1)}
    symbols = [rows.get(k, tuple(range(x.dim())) if isinstance(x, torch.Tensor) else ()) for k, x in enumerate(call.dense)]
    named = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in call.names]
    wrapped = fn.forward if is_module else fn
    vars(forward).update({"__wrapped__": wrapped, "__signature__": inspect.Signature(named), SYMBOLS: symbols})
    if not is_module:
        forward.__name__ = function_name(fn)
        return forward
    hooks = (k for k, v in vars(fn).items() if k.startswith(("_forward", "_backward")) and isinstance(v, dict))
    own = {"forward": property(lambda _: forward), SYMBOLS: symbols, **{k: property(lambda _: {}) for k in hooks}}
    made: torch.nn.Module = object.__new__(type(type(fn).__name__, (torch.nn.Module,), own))
    object.__setattr__(made, "__dict__", vars(fn))  # what either is assigned both have; hooks are called for what is nested
    return made


def _argument(place: int | Place, dense: Sequence[Any]) -> Any:
    if isinstance(place, int):
        return dense[place]
    return closed(dense[place.values], dense[place.offsets], place.ragged, longest=dense[place.offsets + 1])


def _numbered(offsets: torch.Tensor, number: int) -> None:
    """Say what number stands for the lengths of rows without data: one that torch thought of would be in no graph."""
    from torch._subclasses.functional_tensor import mb_unwrap_functional_tensor

    fake = mb_unwrap_functional_tensor(offsets)
    if isinstance(fake, torch._subclasses.FakeTensor):
        fake.nested_int_memo = torch._C._get_nested_int(number, 1)


def _rows(y: Any, dense: Sequence[Any]) -> Rows:
    """A nested result in its parts."""
    offsets = _without_gaps(y).offsets()
    known = next((k for k, x in enumerate(dense) if x is offsets), None)
    return Rows(y.values(), offsets if known is None else known, y._ragged_idx)


# attention ----------------------------------------------------------------------------------------------------------------------------
class _ByDefinition(TorchFunctionMode):
    """Where attention of nested tensors is that of all rows with a mask: torch's own is traced on no CPU, and computed in some layouts."""

    def __torch_function__(self, f: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        ours = f is functional.scaled_dot_product_attention and args and is_nested(args[0]) and args[0]._ragged_idx == args[0].dim() - 2
        return (attention if ours else f)(*args, **(kwargs or {}))


def attention(
    q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """``scaled_dot_product_attention`` of nested tensors as that of all rows, each of which sees its own sequence: loops begin and end with
    one."""
    if attn_mask is not None:
        raise TraceError(
            "attention of nested tensors takes no mask, nor does it in torch", cure="pass padded tensors, and a mask of lengths"
        )
    inside = _same_sequence(q, k, is_causal)
    out = attention_by_definition(_packed(q), _packed(k), _packed(v), inside, dropout_p, False, scale, enable_gqa)
    return closed(out.movedim(-2, q._ragged_idx - 1), q.offsets(), q._ragged_idx, longest=q._max_seqlen_tensor)


def _packed(x: Any) -> Any:
    """The rows of all sequences, one after the other, in the place where attention has rows."""
    return x.values().movedim(x._ragged_idx - 1, -2)


def _same_sequence(q: Any, k: Any, causal: bool) -> Any:
    """Which rows of a nested tensor see which of another: those of their own sequence, the first ones if it is ``causal``."""
    (of_q, of_k), device = (q.offsets(), k.offsets()), q.device
    rows, columns = (torch.arange(x.values().shape[x._ragged_idx - 1], device=device) for x in (q, k))
    sequence = (of_q[1:-1] <= rows.unsqueeze(-1)).sum(-1)
    first, end = (cu.index_select(0, sequence).unsqueeze(-1) for cu in (of_k[:-1], of_k[1:]))
    inside = (first <= columns) & (columns < end)
    if causal:
        inside = inside & (columns - first <= (rows - of_q.index_select(0, sequence)).unsqueeze(-1))
    return inside
