"""A small program and fusion rules about two of its values, shared by the tests of what becomes of verdicts and of their errors."""

import torch

import eqfuse
from eqfuse.rewrites import Map, allow, forbid, match, require


@eqfuse.fusion(register=False)
def joined(y, x):
    """A tanh is made where its argument is."""
    return [match(y, Map("tanh", x))], require(y, x)


@eqfuse.fusion(register=False)
def parted(y, x):
    """A tanh is not made where its argument is."""
    return [match(y, Map("tanh", x))], forbid(y, x)


@eqfuse.fusion(register=False)
def excepted(y, x):
    """A tanh may be made where its argument is."""
    return [match(y, Map("tanh", x))], allow(y, x)


def layer(a, b):
    product = a @ b
    bounded = torch.tanh(product)
    return bounded * 2


def optimised(fn=layer, **options):
    args = [torch.empty(64, 64, device="meta", dtype=torch.float16)] * 2
    return eqfuse.optimize(fn, args, target="h200", **options)
