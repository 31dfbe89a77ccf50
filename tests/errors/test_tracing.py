"""What cannot be traced is refused with the user's line and a cure: one tiny program for each."""

import pytest
import torch

from eqfuse.errors import DeviceError, EmptyProgramError, ShapeError, TraceError, UnsupportedOpError
from eqfuse.frontends import TensorSpec, trace

X = torch.ones(5, 7)


def branches(x):
    if x.sum() > 0:
        return x + 1
    return x


def counts(x):
    return x * x.sum().item()


def sorts(x):
    y = x + 1
    return y.sort(-1).values * 2


def looks_up(x, table):
    return table[x.long()[:, 0]]


def joins(x):
    return torch.cat([x, x])


def scans(x):
    return x.cumsum(-1)


def finds(x):
    return x.argmax(-1)


def finds_pair(x):
    return x.max(-1).indices


def helper(x):
    return x.median(-1).values


def calls_helper(x):
    return helper(x) + 1


def draws(x):
    return x + torch.rand(5, 7)


def selects(x):
    return x[x > 0]


def misfits(x):
    return x + torch.ones(3)


def multiplies(x):
    return x @ x


def reshapes(x):
    return x.view(4, 9)


def writes(x):
    x.add_(1)
    return x * 2


def drops(x):
    return torch.nn.functional.dropout(x) * 2


def attends(x):
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1)


def breaks(x):
    return x.no_such_method()


UNSUPPORTED = {
    branches: (TraceError, "if x.sum() > 0:", "torch.where"),
    counts: (TraceError, "return x * x.sum().item()", "torch.where"),
    selects: (TraceError, "return x[x > 0]", ""),
    sorts: (UnsupportedOpError, "return y.sort(-1).values * 2", "aten.sort"),
    joins: (UnsupportedOpError, "return torch.cat([x, x])", "concatenate outside"),
    scans: (UnsupportedOpError, "return x.cumsum(-1)", "aten.cumsum"),
    finds: (UnsupportedOpError, "return x.argmax(-1)", "compute the position outside"),
    finds_pair: (UnsupportedOpError, "return x.max(-1).indices", "positions"),
    calls_helper: (UnsupportedOpError, "return helper(x) + 1", "aten.median"),
    draws: (UnsupportedOpError, "return x + torch.rand(5, 7)", "draw random numbers outside"),
    misfits: (ShapeError, "return x + torch.ones(3)", "shapes"),
    multiplies: (ShapeError, "return x @ x", "shapes"),
    reshapes: (ShapeError, "return x.view(4, 9)", "shapes"),
    writes: (TraceError, "", "return the new value"),
    drops: (UnsupportedOpError, "return torch.nn.functional.dropout(x) * 2", "call .eval()"),
    attends: (TraceError, "return torch.nn.functional.scaled_dot", "dropout_p=0.0"),
    breaks: (TraceError, "return x.no_such_method()", "no_such_method"),
}


@pytest.mark.parametrize("fn", UNSUPPORTED)
def test_refused_with_place_and_cure(fn):
    kind, line, text = UNSUPPORTED[fn]
    with pytest.raises(kind) as info:
        trace(fn, (X,))
    assert type(info.value) is kind
    if line:
        assert info.value.where.startswith("test_tracing.py:")
        assert line in str(info.value)
    assert text in str(info.value)
    assert len(str(info.value).splitlines()) <= 2, "torch's own text is left out"


def test_embedding_is_refused():
    with pytest.raises(UnsupportedOpError, match="look"):
        trace(looks_up, (X, torch.ones(9, 4)))
    with pytest.raises(UnsupportedOpError, match=r"aten\.embedding.*\n.*look the embedding up outside"):
        trace(torch.nn.Embedding(9, 4), (torch.tensor([1, 2]),))


@pytest.mark.parametrize("fn", [lambda x: x, lambda x: None, lambda x: 3, lambda x: torch.ones(3), lambda x: (x, x.clone())])
def test_empty_programs(fn):
    with pytest.raises(EmptyProgramError):
        trace(fn, (X,))


def test_arguments_that_are_no_tensors():
    with pytest.raises(TraceError, match="'x' is a object"):
        trace(lambda x: x, (object(),))
    with pytest.raises(TraceError, match="example arguments"):
        trace(lambda x: x)
    with pytest.raises(TraceError, match="cannot trace a int"):
        trace(3, (X,))
    with pytest.raises(TraceError, match="complex64"):
        trace(lambda x: x * 2, (X.to(torch.complex64),))


def test_mixed_devices():
    with pytest.raises(DeviceError, match=r"'a' on cpu, 'b' on cuda:0\n  try: move them"):
        trace(lambda a, b: a + b, (X, TensorSpec((5, 7), device="cuda:0")))
