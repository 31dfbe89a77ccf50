"""What others make of the same program."""

import torch

from . import operators
from .checks import program

BACKENDS = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION")
LIBRARY = {  # of the corpus
    "attention": {}, "attention_causal": {"is_causal": True}, "attention_grouped": {"enable_gqa": True}, "attention_decode": {},
    "attention_normalised_inside": {},
}  # fmt: skip


def light(case, device):
    """Those that compile nothing: eager code, and torch's own operation by each of its backends."""
    found = {"eager": program(case)}
    sdpa = None
    if case["source"] == "operators":
        sdpa = operators.scaled_dot_product(case["program"])
    elif case["program"] in LIBRARY:
        more = LIBRARY[case["program"]]
        sdpa = lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, **more)  # noqa: E731
    if sdpa is not None:
        for name in BACKENDS if device == "cuda" else ("MATH",):
            found[f"sdpa {name.split('_')[0].lower()}"] = _by(sdpa, name)
    return found


def _by(sdpa, name):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backend = getattr(SDPBackend, name)

    def call(*given):
        with sdpa_kernel([backend]):
            return sdpa(*given)

    return call


def heavy(case):
    """Those that compile."""
    found = {"torch.compile": torch.compile(program(case), dynamic=False)}
    if case["source"] == "operators":
        found["flex"] = operators.flexible(case["program"])
    return found
