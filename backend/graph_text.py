"""A graph of ATen ops as text: two of the same text are the same program, in every process with the same versions of torch and EqFuse.

Said are the nodes in order, with names (which texts of a plan speak of), operators by their schema, arguments by value, and of every value
type, shape, strides and device; sizes that are symbols with the number that torch has for them; constants by their bits.  What a text
cannot tell apart is not spelled at all: operators that are not torch's own, for others may mean something else in another process, graphs
inside of a graph, and objects.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.fx import GraphModule, Node

NAMESPACES = ("aten", "prims")  # of operators that are torch's own
LIBRARIES = ("torch", "operator", "_operator", "math")  # of functions that a graph may call
LARGEST = 64 << 20  # bytes of a constant
_PLAIN = (type(None), bool, int, str, float, complex, torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Unspelled(Exception):
    """Something of which no text says what it is."""


def graph_text(module: GraphModule, values: Sequence[Any] | None = None, names: Sequence[str] = ()) -> str:
    """A graph; ``values``: what its placeholders are, where that is known better than the graph says, ``names`` what they are called.

    Raises :class:`Unspelled`.
    """
    lines = [f"{n.name} = {_called(module, n)} -> {_value(n.meta.get('val'))}{_meant(n)}" for n in module.graph.nodes]
    lines += [] if values is None else [_value(v) for v in values]
    return "\n".join([*lines, repr(list(names))])


def _called(module: GraphModule, n: Node) -> str:
    if n.op == "get_attr":
        return f"constant {_constant(_attribute(module, str(n.target)))}"
    if n.op in ("placeholder", "output"):
        return f"{n.op} {n.target} {_argument((n.args, n.kwargs))}"
    if n.op != "call_function":
        raise Unspelled(n.op)
    return f"{_operator(n.target)} {_argument((n.args, n.kwargs))}"


def _attribute(module: GraphModule, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _operator(target: Any) -> str:
    """An operator by its schema; a function of torch or Python by the place where everybody finds it."""
    if isinstance(target, torch._ops.OpOverload):
        if target.namespace not in NAMESPACES:
            raise Unspelled(str(target))
        return str(target._schema)
    module, name = str(getattr(target, "__module__", "")), str(getattr(target, "__qualname__", ""))
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not target or module.split(".")[0] not in LIBRARIES or isinstance(target, torch._ops.HigherOrderOperator):
        raise Unspelled(str(target))
    return f"{module}.{name}"


def _argument(x: Any) -> str:
    if isinstance(x, Node):
        return f"%{x.name}"
    if type(x) in _PLAIN:
        return repr(x)
    if isinstance(x, _SYMBOLS):
        return _symbol(x)
    if isinstance(x, tuple):
        return f"({''.join(f'{_argument(e)}, ' for e in x)})"
    if isinstance(x, list):
        return f"[{''.join(f'{_argument(e)}, ' for e in x)}]"
    if isinstance(x, Mapping):
        return f"{{{''.join(f'{k!r}: {_argument(v)}, ' for k, v in x.items() if isinstance(k, str) or _no(k))}}}"
    if isinstance(x, slice):
        return f"slice{_argument((x.start, x.stop, x.step))}"
    return _no(x)


def _no(x: Any) -> Any:
    raise Unspelled(type(x).__name__)


def _symbol(x: Any) -> str:
    """A number that is a symbol, with the one that torch has for it: which dimension of a result is outermost may depend on it."""
    if x.node.is_nested_int():
        return "a ragged size"  # which says what has the same rows, and is no number
    if x.node.hint is None:
        raise Unspelled("a number that comes from data")
    return f"{x.node.expr}={x.node.hint}"


def _value(x: Any) -> str:
    """What a value is, without its numbers."""
    if not isinstance(x, torch.Tensor):
        return f"({''.join(f'{_value(e)}, ' for e in x)})" if type(x) in (list, tuple) else _argument(x)
    if type(x) not in (torch.Tensor, torch.nn.Parameter, FakeTensor) or x.layout != torch.strided:
        raise Unspelled(f"{type(x).__name__} of layout {x.layout}")
    shape, strides = (",".join(map(_size, sizes)) for sizes in (x.shape, x.stride()))
    signs = f" conj={x.is_conj()}" if x.is_complex() else ""
    return f"{x.dtype} ({shape}) ({strides}) +{_size(x.storage_offset())} {x.device}{signs} neg={x.is_neg()}"


def _size(n: int | torch.SymInt) -> str:
    return str(n) if isinstance(n, int) else _symbol(n)


def _meant(n: Node) -> str:
    """What an argument or a result is for AOTAutograd."""
    found = n.meta.get("desc")
    every = found if isinstance(found, list | tuple) else [found]
    if not all(x is None or type(x).__module__.startswith("torch.") for x in every):
        raise Unspelled("an argument of another library")
    return "" if found is None else f" for {found!r}"


def _constant(t: Any) -> str:
    """A tensor that the graph holds, to the bit; on no device it has no numbers."""
    if type(t) not in (torch.Tensor, torch.nn.Parameter) or t.numel() * t.element_size() > LARGEST:
        raise Unspelled("no constant, or a long one")
    said = _value(t)
    if t.is_meta:
        return said
    with torch.no_grad():
        plain = t.detach().resolve_conj().resolve_neg().to("cpu", copy=True).contiguous().reshape(-1).view(torch.uint8)
    return f"{said} {hashlib.sha256(plain.numpy().tobytes()).hexdigest()}"


def constants(module: GraphModule) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that a graph holds, by the names that it has for them."""
    for n in module.graph.nodes:
        value = _attribute(module, str(n.target)) if n.op == "get_attr" else None
        if isinstance(value, torch.Tensor):
            yield str(n.target), value
