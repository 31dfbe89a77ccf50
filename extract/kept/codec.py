"""Values of a plan as JSON, and back: a closed list of frozen classes, tuples, mappings, numbers to the bit.

A value is decoded *as* a type: fields as their declarations say, and whatever is another one is refused.  So a text is never where a number
belongs, and no class is made but those of the list.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ...ir.dtypes import INPUTS, DType
from ...ir.index import Axis, FloorDiv, IndexExpr, Mod
from ...tiles.kernel import Buffer, Kernel, Node, Role, Root
from ..plan import Alternative, Cost, Decision, Launch, Split
from ..refined import Refined, Tried

CLASSES: Mapping[str, type] = {
    c.__name__: c
    for c in (
        Axis,
        FloorDiv,
        Mod,
        IndexExpr,
        Node,
        Role,
        Buffer,
        Root,
        Kernel,
        Cost,
        Alternative,
        Decision,
        Launch,
        Split,
        Refined,
        Tried,
    )
}
PLAIN = (str, int, bool, type(None))


class Unkept(Exception):
    """A value that is not of the list, or data that is no such value."""


def encoded(x: Any) -> Any:
    """A value as JSON has it.  Raises :class:`Unkept` for what is not of the list."""
    if type(x) in PLAIN:
        return x
    if type(x) is float:
        return {"float": x.hex()}
    if isinstance(x, DType) and INPUTS.get(x.name) is x:
        return {"dtype": x.name}
    if isinstance(x, tuple):
        return [encoded(e) for e in x]
    if isinstance(x, frozenset):
        return {"set": [encoded(e) for e in sorted(x)]}
    if isinstance(x, Mapping):
        return {"map": [[encoded(k), encoded(v)] for k, v in x.items()]}
    name = type(x).__name__
    made: Any = CLASSES.get(name)
    if made is type(x):
        return {name: [encoded(getattr(x, f.name)) for f in fields(made)]}
    raise Unkept(f"{name} is not of the classes that are kept")


def decoded(data: Any, hint: Any = Any) -> Any:
    """The value that was encoded, of a type.  Raises :class:`Unkept` for anything else."""
    x = _value(data)
    if not _is(x, hint):
        raise Unkept(f"{str(x)[:80]!r} where {hint} belongs")
    return x


def _value(data: Any) -> Any:
    if type(data) in PLAIN:
        return data
    if isinstance(data, list):
        return tuple(map(_value, data))
    if not isinstance(data, dict) or len(data) != 1:
        raise Unkept("no value")
    [(kind, inside)] = data.items()
    if kind == "float" and isinstance(inside, str):
        return float.fromhex(inside)
    if kind == "dtype" and inside in INPUTS:
        return INPUTS[inside]
    if not isinstance(inside, list):
        raise Unkept(f"no value of {kind}")
    if kind == "set":
        return frozenset(map(_value, inside))
    if kind == "map":
        return {_value(k): _value(v) for k, v in inside}
    made = CLASSES.get(kind)
    hints = {} if made is None else _hints(made)
    values = [_value(v) for v in inside]
    if made is None or len(hints) != len(values) or not all(map(_is, values, hints.values())):
        raise Unkept(f"no {kind}")
    return made(*values)


@functools.cache
def _hints(made: type) -> dict[str, Any]:
    """The fields of a class with their types, in order."""
    return get_type_hints(made)


def _is(x: Any, hint: Any) -> bool:
    """Whether a value has a type as a field declares it."""
    if hint is Any:
        return True
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_is(x, a) for a in args)
    if origin is Literal:
        return x in args
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return type(x) is tuple and all(_is(e, args[0]) for e in x)
        return type(x) is tuple and len(x) == len(args) and all(map(_is, x, args))
    if origin is frozenset:
        return type(x) is frozenset and all(_is(e, args[0]) for e in x)
    if origin is Mapping:
        return type(x) is dict and all(_is(k, args[0]) and _is(v, args[1]) for k, v in x.items())
    if hint is float:
        return type(x) in (float, int)
    return type(x) is hint if hint in PLAIN else isinstance(x, hint)
