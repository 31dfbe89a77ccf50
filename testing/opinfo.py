"""PyTorch's own database of operators, OpInfo, as a test: what is read of it, and whether what is read means what torch computes.

A sample of an operator is read as any function is (:func:`~eqfuse.frontends.trace`), its program evaluated by the reference, and the
results compared with torch's: their shapes and types exactly, their numbers with those of torch in float64 or, where rounding decides
(``floor``, comparisons), in the type itself.  Nothing is planned, so that a sample costs some hundredths of a second.
"""

from __future__ import annotations

import importlib.util
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..errors import EmptyProgramError, EqFuseError
from ..frontends import trace
from ..frontends.capture import capture, exported
from ..frontends.spec import torch_dtype
from ..ir.reference import evaluate

READ, NOTHING, REFUSED, WRONG, FAILED = "read", "nothing to compute", "refused", "wrong", "failed"
DTYPES = ("float32", "float16", "int64", "uint8", "bool")
_CLOSE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 1e-5, torch.float64: 1e-7}


@dataclass(frozen=True)
class Verdict:
    """What became of one sample; ``why``: the reason of a refusal, or the first difference."""

    kind: str
    why: str = ""
    sample: str = ""


@cache
def database() -> tuple[Any, ...]:
    """The operators of PyTorch's OpInfo database."""
    if importlib.util.find_spec("expecttest") is None:  # torch's own tests derive from its class, and the database from nothing of it
        stub: Any = types.ModuleType("expecttest")
        stub.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stub
    from torch.testing._internal.common_methods_invocations import op_db

    return tuple(op_db)


def name_of(op: Any) -> str:
    """The name of an entry, with that of its variant if it has one."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def samples(op: Any, dtype: torch.dtype, most: int) -> list[Any]:
    """At most so many samples of an operator, evenly from all that there are; the same ones each time."""
    if dtype not in op.supported_dtypes("cpu"):
        return []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        found = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    if len(found) <= most:
        return found
    return [found[k * (len(found) - 1) // max(most - 1, 1)] for k in range(most)]


def case(op: Any, sample: Any) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """A sample as a function of its tensors, and these."""
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [k for k, x in enumerate(leaves) if isinstance(x, torch.Tensor)]

    def call(*given: torch.Tensor) -> Any:
        full = list(leaves)
        for k, t in zip(places, given, strict=True):
            full[k] = t
        first, args, kwargs = pytree.tree_unflatten(full, spec)
        return op.op(first, *args, **kwargs)

    return call, [leaves[k].detach() for k in places]


def operators(op: Any, sample: Any) -> set[str]:
    """The ATen ops of a sample, as torch exports it and as they are read."""
    call, tensors = case(op, sample)
    graphs = (exported(call, tuple(tensors), {}).program.graph, capture(call, tuple(tensors), {}).graph)
    return {str(n.target) for g in graphs for n in g.nodes if isinstance(n.target, torch._ops.OpOverload)}


def judged(op: Any, sample: Any) -> Verdict:
    """Read a sample, evaluate what was read, and compare."""
    call, tensors = case(op, sample)
    if not tensors:
        return Verdict(NOTHING)
    text = _shown(sample)
    try:
        traced = trace(call, tuple(tensors))
    except EmptyProgramError:
        return Verdict(NOTHING)
    except EqFuseError as error:
        return Verdict(REFUSED, error.message, text)
    except Exception as error:
        return Verdict(FAILED, f"{type(error).__name__}: {error}".split("\n")[0], text)
    try:
        inputs = {k: _array(v) for k, v in traced.bind(*tensors).items()}
        arrays = evaluate(traced.program, inputs, casts=True)
        values = [torch.from_numpy(arrays[o.name]).to(torch_dtype(o.dtype)) for o in traced.program.outputs]
        found = _tensors(traced.unflatten(values))
    except Exception as error:
        return Verdict(FAILED, f"{type(error).__name__}: {error}".split("\n")[0], text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        why = _difference(found, *_expected(call, tensors))
    return Verdict(WRONG, why, text) if why else Verdict(READ)


def _array(t: torch.Tensor) -> Any:
    t = t.detach()
    return (t.double() if t.is_floating_point() else t).numpy()


def _tensors(values: Any) -> list[Any]:
    return [v for v in pytree.tree_leaves(values) if isinstance(v, torch.Tensor)]


def _expected(call: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The results in the tensors' own type, and in float64; where torch has none in float64, the former."""
    own = _tensors(call(*(t.clone() for t in tensors)))
    try:
        wide = _tensors(call(*(t.double() if t.is_floating_point() else t.clone() for t in tensors)))
    except Exception:
        return own, own
    same = len(wide) == len(own) and all(w.shape == o.shape for w, o in zip(wide, own, strict=True))
    return own, wide if same else own


def _difference(found: Sequence[torch.Tensor], own: Sequence[torch.Tensor], wide: Sequence[torch.Tensor]) -> str:
    if len(found) != len(own):
        return f"{len(found)} results, torch has {len(own)}"
    for f, o, w in zip(found, own, wide, strict=True):
        if f.shape != o.shape:
            return f"shape {tuple(f.shape)}, torch's {tuple(o.shape)}"
        if f.dtype != o.dtype:
            return f"type {f.dtype}, torch's {o.dtype}"
        close = _CLOSE.get(o.dtype, 0.0)
        good = _close(f, o, close) | _close(f, w, close)
        if not good.all():
            k = int((~good).flatten().nonzero()[0])
            numbers = [x.flatten()[k].item() for x in (f, o, w)]
            return f"{numbers[0]} at {k}, torch's {numbers[1]}, {numbers[2]} in float64 ({int((~good).sum())} of {good.numel()})"
    return ""


def _close(found: torch.Tensor, expected: torch.Tensor, tolerance: float) -> torch.Tensor:
    if expected.is_complex():
        return torch.zeros(expected.shape, dtype=torch.bool)
    if not expected.is_floating_point() and not tolerance:
        return found.to(torch.int64) == expected.to(torch.int64)
    sizes = expected.double().abs().nan_to_num(0.0, 0.0, 0.0)
    size = float(sizes.amax()) if sizes.numel() else 0.0
    return torch.isclose(found.double(), expected.double(), rtol=tolerance, atol=tolerance * max(size, 1.0) * 0.1, equal_nan=True)


def _shown(sample: Any) -> str:
    def text(x: Any) -> str:
        if isinstance(x, torch.Tensor):
            plain = "" if x.is_contiguous() else f", strides {tuple(x.stride())}"
            return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}{plain}"
        if isinstance(x, list | tuple):
            return f"[{', '.join(map(text, x))}]"
        return repr(x)

    keywords = [f"{k}={text(v)}" for k, v in sample.kwargs.items()]
    return ", ".join([text(sample.input), *map(text, sample.args), *keywords])
