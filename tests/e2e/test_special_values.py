"""Every pointwise operator on special values: zeros, infinities, NaN, subnormal and huge numbers, and all pairs of them."""

from pathlib import Path

import pytest
from special_values import DIFFERENCES, Operator, composed, differences, operators

import eqfuse
from eqfuse.errors import EqFuseError

OPERATORS = tuple(operators())
TOGETHER = 25  # operators in one program
GROUPS = {
    f"{kind} {k // TOGETHER}": chosen[k : k + TOGETHER]
    for kind, chosen in (
        ("numbers", [o for o in OPERATORS if o.arity == 1 and not o.whole]),
        ("pairs", [o for o in OPERATORS if o.arity == 2 and not o.whole]),
        ("integers", [o for o in OPERATORS if o.arity == 1 and o.whole]),
        ("pairs of integers", [o for o in OPERATORS if o.arity == 2 and o.whole]),
    )
    for k in range(0, len(chosen), TOGETHER)
}


def run(group: tuple[Operator, ...], target: str) -> list[str]:
    """What differs without leave, as text."""
    tensors = group[0].tensors()

    def program(*tensors):
        return tuple(o.call(*tensors) for o in group)

    compiled = eqfuse.optimize(program, tensors, target=target)
    found = compiled(*tensors) if target == "cpu" else compiled.interpret(*tensors)
    wrong = []
    for o, value in zip(group, found, strict=True):
        bad = differences(o, tensors, value).nonzero().flatten().tolist()
        shown = [f"{o.name}{tuple(t[k].item() for t in tensors)} = {value[k].item()}, eager {o.call(*tensors)[k].item()}" for k in bad[:4]]
        wrong += [f"{len(bad)} of {o.name}: {'; '.join(shown)}"] if bad else []
    return wrong


@pytest.mark.parametrize("name", GROUPS)
def test_operators_on_special_values_in_c(name):
    assert not (wrong := run(GROUPS[name], "cpu")), "\n".join(wrong)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n.startswith("numbers") else pytest.mark.exhaustive) for n in GROUPS])
def test_operators_on_special_values_in_triton(name):
    assert not (wrong := run(GROUPS[name], "h200")), "\n".join(wrong)


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["cpu", "h200"])
def test_what_torch_decomposes_on_special_values(target):
    wrong, read = [], 0
    for o in composed():
        try:
            wrong += run((o,), target)
            read += 1
        except EqFuseError:  # digamma and its like
            continue
    assert not wrong, "\n".join(wrong)
    assert read >= 30


def test_the_table_is_all_there():
    """The grid is read off the table of operators, so a new one is in it."""
    names = {o.name.split("(")[0] for o in OPERATORS}
    assert {"pow.Tensor_Tensor", "pow.Scalar", "atan2.default", "where.self", "softplus.default"} <= names
    assert len(names) > 100


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda d: d.says)
def test_what_is_allowed_is_documented(difference):
    text = (Path(eqfuse.__file__).parent / "docs" / "numerics.md").read_text(encoding="utf-8")
    assert difference.says in " ".join(text.split())
