"""A rule says what it says: whatever Python would answer about pattern variables, or take silently, is an error when the rule is made."""

import functools
import math
import re

import numpy as np
import pytest
import torch

import eqfuse
from eqfuse.egraph.saturate import saturate
from eqfuse.errors import EqFuseError, RuleError
from eqfuse.ir.build import axes, maximum, program, sum_over, tanh, tensor
from eqfuse.rewrites import (
    Axis,
    Const,
    OtherAxis,
    Scalar,
    Sum,
    Where,
    free,
    less,
    match,
    nonneg,
)  # fmt: skip
from eqfuse.rewrites.check import check_rule
from eqfuse.rewrites.rule import make_rule

I, J = axes(i=4, j=8)
PUBLIC = eqfuse.rewrites.__all__
EVERYTHING = {name: getattr(eqfuse.rewrites, name) for name in PUBLIC} | {"torch": torch, "math": math, "np": np}
HERE = "rewrites/test_notation.py:"


def made(function, **options):
    """The rule, unchecked."""
    return make_rule(function, **{"family": "user", "licence": "real", "phase": "factor", "mirrored": True} | options)


def refused(function, **options):
    with pytest.raises(RuleError) as info:
        made(function, **options)
    return info.value


def well_said(error):
    """An error in the user's words: no exception of Python's, and a cure."""
    assert not re.search(r"AttributeError|TypeError|ValueError|AssertionError|object has no attribute|0x[0-9a-f]{6}", error.message), error
    assert error.cure, error


# questions -------------------------------------------------------------------------------------------------------------------------


def body(text, signature="x, y, k: Axis, a: Scalar, g: AnyMonoid, o: Op1, e: Position, t: TypeName"):
    """A function whose body is an expression, then a true equation."""
    scope = EVERYTHING | globals()
    exec(compile(f"def r({signature}):\n    'some equation'\n    {text}\n    return x + y, y + x", "body", "exec"), scope)
    return scope["r"]


QUESTIONS = {
    "Where(x == y, x, y)": 'Map("eq", x, y)',
    "Where(x != y, x, y)": 'Map("ne", x, y)',
    "Where(x == 0, x, y)": 'Map("eq", x, 0)',
    "0 == x": 'Map("eq", x, 0)',
    "Where(x < y, x, y)": 'Map("lt", x, y)',
    "x <= 0": 'Map("le", x, 0)',
    "x > y": 'Map("gt", x, y)',
    "3 >= x": 'Map("le", x, 3)',
    "0 < x < 1": 'Map("gt", x, 0)',
    "x if x else y": "Where(c, x, y)",
    "x and y": "Where(c, x, y)",
    "x or y": "Where(c, x, y)",
    "not x": "Where(c, x, y)",
    "assert nonneg(x)": "a premise stands after the two sides",
    "free(x, k) and free(y, k)": "a premise stands after the two sides",
    "not free(x, k)": "depends for free",
    "free(x, k) == True": "a premise stands after the two sides",
    "x & y": 'Map("and", x, y)',
    "x | y": 'Map("or", x, y)',
    "~x": 'Map("not", x)',
    "x @ y": "Sum(k, x * y)",
    "x ** y": "a power is a number",
    "x ** True": "1.0 or 0.0",
    "(-2.0) ** x": "a power is a number",
    "x[0]": "View(x, k, e)",
    "x[k]": "View(x, k, e)",
    "x(y)": 'Map("exp", x)',
    "o(x)": "Map(o, x)",
    "g(x)": "Reduce(g, k, x)",
    "for z in x: pass": "Sum(k, x)",
    "p, q = x": "Sum(k, x)",
    "sum(x)": "Sum(k, x)",
    "len(x)": "Sum(k, x)",
    "len(k)": "Extent(k)",
    "y in x": "Sum(k, x)",
    "x in [y]": 'Map("eq", y, x)',
    "math.exp(x)": 'Map("exp", x)',
    "int(x)": 'Map("exp", x)',
    "range(k)": "Extent(k)",
    "max(x, y)": 'Map("gt", y, x)',
    "a == 2": "equals(a, 2)",
    "a != 0": "differs(a, 0)",
    "a < 1": "less(a, 1)",
    "a >= 0": "at_least(a, 0)",
    "1 < a < 2": "less(1, a)",
    "x if a else y": "differs(a, 0)",
    "k == k.name": "equals(Extent(k)",
    "k != 3": "OtherAxis(k, 3)",
    "k < 4": "less(Extent(k), Extent(4))",
    "k + 1": "",
    "if k: pass": "NonEmpty(k)",
    "g == 'sum'": "write the name itself",
    "o != 'exp'": "increasing(o)",
    "t == 'bfloat16'": 'one_of(t, "float16", "bfloat16")',
    "e == 0": "one variable in two places",
    "e < 3": 'View(Index(k), k, e)',
    "Where(True, x, y)": 'Map("eq", x, y)',
    "Where(x is None, x, y)": 'Map("eq", x, y)',
    "Where(None, x, y)": "a value is a variable",
    "x + True": 'Map("eq", x, y)',
    "False * x": 'Map("eq", x, y)',
    "x - True": 'Map("eq", x, y)',
    "x / False": 'Map("eq", x, y)',
    "a * True": 'Map("eq", x, y)',
    "x + np.bool_(True)": 'Map("eq", x, y)',
    "x + np.ones(3)": "a value is a variable",
    "np.ones(3) * x": "a value is a variable",
    "x * torch.ones(3)": "a value is a variable",
    "x + 1j": "a value is a variable",
    "x + 'y'": "a value is a variable",
    "x + [1]": "a value is a variable",
    "x + None": "a value is a variable",
    "x + k": "Extent(k)",
    "x + e": "",
    "x + g": "a value is a variable",
    "x + free(x, k)": "a value is a variable",
    "x / 0": 'Map("recip", y)',
    "x * math.nan": 'Map("ne", x, x)',
    "Const(math.nan)": 'Map("ne", x, x)',
    "x + 10**400": "inf",
    "x ** math.inf": "a power is a number",
    "x ^ y": 'Map("ne", x, y)',
    "x << 1": "x * 2.0**n",
    "x >> 1": "x / 2.0**n",
    "divmod(x, y)": "x // y and x % y",
    "round(x)": 'Map("round", x)',
    "math.trunc(x)": 'Map("exp", x)',
    "np.exp(x)": 'Map("exp", x)',
    "np.dot(x, y)": 'Map("exp", x, y)',
    "np.sum(x)": 'Reduce("sum", k, x)',
    "np.where(x, x, y)": 'Map("where", x, x, y)',
    "torch.exp(x)": 'Map("exp", x)',
    "torch.maximum(x, y)": 'Map("maximum", x, y)',
    "torch.ones(3) * x": 'Map("mul", x)',
    "x.sqrt()": 'Map("sqrt", x)',
    "x.sum(k)": 'Reduce("sum", k, x)',
    "Sum(x)": "Sum(axis, x)",
    "free(x)": "free(x, axis)",
    "Max(k, k, x)": "Max(axis, x)",
    "Turns['add']": 'Turns["add", "mul"]',
    "Turns['plus', 'mul']": "the ops are those",
    "Turns['add', 'mul', 'minus']": 'Turns["add", "mul"]',
}  # fmt: skip


@pytest.mark.parametrize("text", QUESTIONS)
def test_what_python_would_answer_is_refused(text):
    error = refused(body(text))
    if QUESTIONS[text]:  # else Python itself has no such operation: its words are kept, with the line
        well_said(error)
        assert QUESTIONS[text] in error.cure
    assert error.message.startswith("rule r: ")
    assert error.where.startswith("body:3") or error.where.endswith("body:3  ")


def test_the_place_is_the_line_of_the_body():
    def r(x, y):
        """where(x = y, x, y) = y."""
        same = x == y
        return Where(same, x, y), y

    error = refused(r)
    assert error.where == f"{HERE}{r.__code__.co_firstlineno + 2}  same = x == y"
    assert error.message == "rule r: x == y is Python's question, which has no answer when the rule is made"


def test_numbers_of_numpy_are_numbers():
    def r(x):
        """2 x = x + x, by numpy's number on either side."""
        return np.float64(2.0) * x, x * np.float32(1.0) + x / np.int64(1)

    check_rule(made(r), 20)


# arguments -------------------------------------------------------------------------------------------------------------------------

A = {  # what stands for each kind of argument
    "value": "x", "axis": "k", "number": "a", "op": "o", "monoid": "g", "position": "e", "type": "t", "literal": "2.0",
    "none": "None", "truth": "True", "text": "'wobble'", "list": "[x]", "tuple": "(x,)", "array": "np.ones(3)", "tensor": "torch.ones(2)",
    "class": "Axis", "nan": "math.nan", "object": "object()", "premise": "nonneg(x)", "complex": "1j", "lambda": "(lambda: x)",
}  # fmt: skip
VALUE, NUMBER = {"value", "number", "literal"}, {"number", "literal"}
AXIS, POSITION = {"axis"}, {"position", "literal"}
OP, MONOID, TYPE, NAME = {"op"}, {"monoid"}, {"type"}, {"op", "monoid", "type"}
CALLS = {  # call, with {} for one argument: the kinds that it may be
    "Map({}, x)": OP, "Map(o, {})": VALUE, "Map('add', x, {})": VALUE,
    "Const({})": NUMBER, "Extent({})": AXIS, "Index({})": AXIS,
    "Cast({}, x)": TYPE, "Cast(t, {})": VALUE,
    "Gather({}, k, x)": VALUE, "Gather(x, {}, y)": AXIS, "Gather(x, k, {})": VALUE,
    "View({}, k, e)": VALUE, "View(x, {}, e)": AXIS, "View(x, k, {})": POSITION,
    "Scan({}, k, x)": MONOID, "Scan(g, {}, x)": AXIS, "Scan('sum', k, {})": VALUE,
    "Merge({}, x, y, x, y)": MONOID, "Merge('linear[0]', {}, x, y, x)": VALUE,
    "Reduce({}, k, x)": MONOID, "Reduce(g, {}, x)": AXIS, "Reduce('sum', k, {})": VALUE,
    "Sum({}, x)": AXIS, "Sum(k, {})": VALUE, "Max({}, x)": AXIS, "Max(k, {})": VALUE,
    "Mean({}, x)": AXIS, "Mean(k, {})": VALUE,
    "Where({}, x, y)": VALUE, "Where(x, {}, y)": VALUE, "Where(x, y, {})": VALUE,
    "free({}, k)": VALUE, "free(x, {})": AXIS, "depends({}, k)": VALUE, "depends(x, {})": AXIS,
    "nonneg({})": VALUE, "nonpos({})": VALUE, "positive({})": VALUE, "finite({})": VALUE,
    "truth({})": VALUE, "at_least_one({})": VALUE, "at_most_one({})": VALUE,
    "within({}, a)": VALUE, "within(x, {})": NUMBER,
    "finite_or({}, a)": VALUE, "finite_or(x, {})": NUMBER, "FiniteOr(x, {})": NUMBER,
    "has_type({}, t)": VALUE, "has_type(x, {})": TYPE,
    "NonEmpty({})": AXIS, "OtherAxis({}, k)": AXIS, "OtherAxis(k, {})": AXIS,
    "Nonzero({})": {"number"}, "NotNegative({})": {"number"}, "equals({}, a)": NUMBER, "equals(a, {})": NUMBER, "differs(a, {})": NUMBER,
    "less({}, a)": NUMBER, "at_most(a, {})": NUMBER, "at_least(a, {})": NUMBER, "divides({}, Extent(k))": NUMBER,
    "power_of_two({})": {"number"}, "one_of({}, 'sum')": MONOID, "one_of(t, {})": set(),
    "match({}, x)": {"value"}, "match(x, {})": VALUE, "equal({}, x)": VALUE, "equal(x, {})": VALUE,
    "linear({})": MONOID, "idempotent({})": MONOID, "selective({}, a)": MONOID,
    "selective(g, {})": NUMBER, "increasing({})": OP, "associative({})": OP,
    "turns({}, 'add', 'mul')": OP, "turns(o, {}, 'mul')": OP,
    "turns_nonneg(o, 'add', {})": OP, "rounding({})": TYPE, "wide({})": TYPE,
    "integer({})": TYPE, "operand({}, x, x, y)": OP, "operand('add', {}, x, y)": VALUE,
    "operand('add', x, {}, y)": VALUE, "operands('mul', x, y, {}, y)": VALUE,
    "e.at({}, e)": AXIS, "e.at(k, {})": POSITION,
    "forbid({}, y)": {"value"}, "require(x, {})": {"value"}, "allow({}, y)": {"value"},
    "offer('m:f', {}, us=1.0)": {"tuple"}, "offer({}, (x, k), us=1.0)": set(),
    "offer('m:f', (x, k), {}, us=1.0)": {"tuple"}, "offer('m:f', (x, k), us={})": {"literal", "lambda", "class"},
    "offer('m:f', (x, {}), us=1.0)": AXIS, "offer('m:f', ({}, k), us=1.0)": {"value"},
}  # fmt: skip
OUTSIDE = {  # names that are no part of an equation: called as anybody would, with nonsense
    "active", "check_all", "check_rule", "disable", "enable", "fact_rule", "families", "register", "relation", "rule", "rules", "unregister",
}  # fmt: skip
ANNOTATIONS = {
    "AnyMonoid", "AnyOp", "Arguments", "Axis", "Each", "EitherWay", "IdempotentMonoid", "LinearMonoid", "Op1", "Op2", "Op3", "PairMonoid",
    "Position", "Scalar", "SelectiveMonoid", "TripleMonoid", "TwoStates", "Turns", "TypeName", "CheckSummary", "Rule",
}  # fmt: skip


def test_every_public_name_is_in_a_table():
    called = {w for call in CALLS for w in re.findall(r"(\w+)\(", call)}
    assert set(PUBLIC) <= called | OUTSIDE | ANNOTATIONS


@pytest.mark.parametrize("call", CALLS)
def test_arguments_of_another_kind_are_refused(call):
    for kind, argument in A.items():
        function = body(call.format(argument))
        if kind in CALLS[call]:
            made(function)
        else:
            error = refused(function)
            well_said(error)
            assert error.where.startswith("body:3"), (call, kind)


def test_names_that_do_not_exist_are_refused_with_what_is_near():
    for text, near in (
        ("Map('tanhh', x)", "'tanh'"), ("Reduce('som', k, x)", "'sum'"), ("Cast('float31', x)", "'float32'"), ("one_of(t, 'bfloat61')", "'bfloat16'"),
        ("turns(o, 'addd', 'mul')", "'add'"), ("linear('summ')", "'sum'"), ("has_type(x, 'int46')", "'int64'"),
    ):  # fmt: skip
        error = refused(body(text))
        assert f"did you mean {near}?" in error.cure
        assert "there is no" in error.message


def test_the_number_of_arguments_is_counted():
    for text in ("Map('exp')", "Map('exp', x, y)", "Map(o, x, y)", "Map('add', x)", "Map(o)"):
        assert "argument" in refused(body(text)).message


# rules that say nothing -----------------------------------------------------------------------------------------------------------

SAYS_NOTHING = {
    "x + 0.0, x + 0.0": "both sides are the same",
    "x - y, x + -y": "both sides are the same",
    "x, x * 1.0": "which every value of every program matches",
    "x, x * 1.0, less(a, 1.0), match(y, Const(a))": "which every value of every program matches",
    "[match(y, x * x)], [equal(y, y)]": "both sides are the same",
    "[match(y, x * x)], [equal(y, x * x)]": "both sides are the same",
    "[match(y, x * x)], [match(y, x * x)]": "one of its premises",
    "[match(y, x * x), nonneg(y)], [nonneg(y)]": "one of its premises",
    "[free(x, k)], [free(x, k)]": "one of its premises",
    "[match(y, x * x), equal(y, x)], [nonneg(y)]": "Equal is a conclusion",
    "[match(y, x * x)], None": "None is no conclusion",
    "[match(y, x * x)], x": "x is no conclusion",
    "x + 0.0, x, nonneg(y)": "nothing but a premise mentions 'y'",
    "x + 0.0, x, within(y, a)": "nothing but a premise mentions 'y'",
    "x + 0.0, x, free(x, k)": "nothing but a premise mentions 'k'",
    "x + 0.0, x, free(y, k)": "nothing but a premise mentions",
    "Sum(k, x) + 0.0, Sum(k, x), free(y, k)": "nothing but a premise mentions 'y'",
    "x + 0.0, x, NonEmpty(k)": "nothing but a premise mentions 'k'",
    "x + 0.0, x, linear(g)": "nothing but a premise mentions 'g'",
    "x + 0.0, x, linear('sum')": "mentions no variable",
    "x + 0.0, x, nonneg(-3.0)": "mentions no variable",
    "Map('minimum', x, Const(a)), x, within(x, a)": "within binds 'a'",
}  # fmt: skip


@pytest.mark.parametrize("text", SAYS_NOTHING)
def test_a_rule_that_says_nothing_is_refused(text):
    error = refused(body(f"return {text}"))
    well_said(error)
    assert SAYS_NOTHING[text] in error.message


def test_rules_that_only_look_so_are_made():
    for text in (
        "x, Const(0.0), nonneg(x), nonpos(x)", "x + 0.0, x, has_type(x, t)", "x + 0.0, x, nonneg(x * y)", "[nonneg(x)], [at_least_one(x + 1.0)]",
        "Sum(k, x), Extent(k) * x, free(x, k)", "x + y, y + x",
    ):  # fmt: skip
        made(body(f"return {text}"))


def test_a_bound_that_is_a_number_is_asked_for():
    """Not that it is the least bound known."""
    clip = made(body("return Map('maximum', x, -5.0), x, within(x, 5.0)"))
    check_rule(clip, 50)
    y = maximum(tanh(tensor("x", I)), -5.0)
    graph = saturate(program("clipped", y=(y, (I,))), rules=[*eqfuse.rewrites.rules("signs"), clip])
    assert any(c.rule == "r" and c.matches for c in graph.report.rules)


def test_a_function_of_no_module_is_a_rule():
    function = body("return x + 0.0, x")
    function.__module__ = None
    assert made(function).builtin is False


# signatures ------------------------------------------------------------------------------------------------------------------------


def many(*xs):
    """sum of xs."""
    return xs[0], xs[0]


def named(x, **kw):
    """x."""
    return x, x


def keyword_only(x, *, k: Axis):
    """x."""
    return Sum(k, x), Sum(k, x)


def default(x, a=2.0):
    """a x."""
    return x * a, x * a


def optional(x, k: Axis = None):
    """x."""
    return x, x


def dunder(x, whole__):
    """x."""
    return x + whole__, whole__ + x


async def later(x):
    """x."""
    return x, x


def lazily(x):
    """x."""
    yield x
    yield x


def one_side(x):
    """x."""
    return (x,)


def nothing(x):
    """x."""


def no_premise(x):
    """x."""
    return x + 0.0, x, x


def with_list(x, k: Axis):
    """x."""
    return x + 0.0, x, [free(x, k)]


def three_lists(t, x):
    """x."""
    return [match(t, x + 0.0)], [match(t, x)], [nonneg(x)]


def no_conclusion(t, x):
    """x."""
    return [match(t, x + 0.0)], []


def listed(x: [Axis]):
    """x."""
    return x, x


def unbound_by_a_test(x, a: Scalar, b: Scalar):
    """x + a = a + x."""
    return x + Const(a), Const(a) + x, less(a, b)


def unbound_axis(x, j: Axis, k: Axis):
    """sum_k x = sum_k 1 x."""
    return Sum(k, x), Sum(k, x * 1.0), OtherAxis(j, k)


SIGNATURES = {
    many: ("*xs", "operand"), named: ("**kw", "def named"), keyword_only: ("parameter k", "def keyword_only"), default: ("a=2.0", "a: Scalar"),
    optional: ("k=None", "k: Scalar"), dunder: ("whole__", "two underscores"), later: ("coroutine", "def name"), lazily: ("generator", "def name"),
    one_side: ("one side", "(left, right, *conditions)"), nothing: ("returns None", "(left, right, *conditions)"),
    no_premise: ("x is no premise but a value", "free(x, k)"), with_list: ("a list", "free(x, k)"), three_lists: ("beside", "([needs], [gives])"),
    no_conclusion: ("nothing follows", "a rule returns"), listed: ("annotation", "Axis, Scalar"),
    unbound_by_a_test: ("nothing says what 'b' is", "match Const(b)"), unbound_axis: ("nothing says what 'j' is", "match"),
    3: ("the number 3", "def name"), "x": ("a str", "def name"), None: ("None", "def name"), print: ("print", "def name"),
    functools.partial(one_side): ("a partial", "def name"), Axis: ("a class", "def name"),
}  # fmt: skip


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda f: getattr(f, "__name__", str(f)[:9]))
def test_signatures_and_results(function):
    message, cure = SIGNATURES[function]
    error = refused(function)
    assert message in error.message
    assert cure in error.cure


def renamed(name):
    def r(x):
        """x + 0 = x."""
        return x + 0.0, x

    r.__name__ = name
    return r


@pytest.mark.parametrize("name", ["a b", "", "class", "x-y", '") (Const 1.0) ("', "1st", "a\nb", "None"])
def test_names_that_would_break_the_engines_text(name):
    error = refused(renamed(name))
    assert "is no name for a rule" in error.message
    assert error.where.startswith(HERE)


def test_a_lambda_has_no_name():
    assert "'<lambda>' is no name" in refused(lambda x: (x + 0.0, x)).message


@pytest.mark.parametrize("name", ["inf", "NaN", "_", "true", "m_0", "lv_1", "λ", "Map1", "axes", "rule", "x1_", "whole"])
def test_any_other_name_is_a_variable(name):
    """Also where the engine has a literal, a wildcard, or a helper of that name."""
    scope = EVERYTHING | globals()
    exec(
        f"def r({name}, k: Axis):\n    'sum = size * x'\n    return Sum(k, {name}), Extent(k) * {name}, free({name}, k), NonEmpty(k)", scope
    )
    t = sum_over(J, tensor("x", I))
    graph = saturate(program("constant", y=(t, (I,))), rules=[made(scope["r"])])
    assert graph.report.rules[0].matches
    assert any(n.op == "map" for n in graph.classes[graph.roots["y"]])


OPTIONS = [
    {"licence": "exactly"}, {"licence": 3}, {"licence": None}, {"phase": "later"}, {"phase": []}, {"family": 3}, {"family": ""},
    {"mirrored": "no"}, {"mirrored": None},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(options):
    well_said(refused(renamed("plain"), **options))


NONSENSE = (None, 3, True, "wobble", [], object(), np.ones(2), Axis, lambda: 0, math.nan)


@pytest.mark.parametrize("name", sorted(OUTSIDE))
def test_functions_about_rules_refuse_nonsense(name):
    """Never a bare error of Python's; ``None`` is a default of some."""
    function = getattr(eqfuse.rewrites, name)
    before = eqfuse.rewrites.rules()
    for x in NONSENSE[1:]:
        calls = {
            "relation": lambda x: function(x, "T", "words", demand=True), "families": lambda x: function(), "check_all": lambda x: function([x]),
        }  # fmt: skip
        if name in ("families",) or (name == "relation" and isinstance(x, str)):
            continue
        if name == "active" and isinstance(x, str):
            x = "sometimes"
        with pytest.raises(EqFuseError):
            calls.get(name, function)(x)
    assert eqfuse.rewrites.rules() == before


def test_relations_refuse_nonsense():
    relation = eqfuse.rewrites.relation
    for columns in (3, None, "", "Q", ["T"]):
        with pytest.raises(RuleError):
            relation("wobbly", columns, "words", demand=True)
    for doc in (3, None, " "):
        with pytest.raises(RuleError):
            relation("wobbly", "T", doc, demand=True)
    for meaning in ({"claim": 3}, {"equation": "x"}, {"demand": "yes"}):
        with pytest.raises(RuleError):
            relation("wobbly", "T", "words", **meaning)


@pytest.mark.parametrize(
    ("meaning", "said"),
    [
        ({"claim": lambda: True}, "no function of 1 arguments"), ({"claim": lambda x, y: x > y}, "no function of 1 arguments"),
        ({"equation": lambda x: x}, "a column and what"), ({"equation": lambda x: None}, "a column and what"),
        ({"equation": lambda x: (1.0, 2.0)}, "a column and what"), ({"equation": lambda x: (x + 1.0, x)}, "a column and what"),
        ({"equation": lambda x: (x, x)}, "are the same"), ({"equation": lambda x: (x, x < 0)}, "Python's question"),
        ({"equation": lambda x: 1 / 0}, "ZeroDivisionError"),
    ],
)  # fmt: skip
def test_meanings_of_relations(meaning, said):
    with pytest.raises(RuleError, match=said) as info:
        eqfuse.rewrites.relation("wobbly", "T", "words", **meaning)
    assert info.value.cure


@pytest.mark.parametrize("answer", ["yes", None, 3.0, np.ones(2)])
def test_what_a_claim_answers(answer):
    wobbly = eqfuse.rewrites.relation("wobbly", "T", "words", claim=lambda x: answer)
    try:
        function = body("return Map('abs', x), x, wobbly(x)", "x")
        function.__globals__["wobbly"] = wobbly
        rule = made(function)
        with pytest.raises(RuleError, match="no truth values"):
            check_rule(rule, 20)
    finally:
        eqfuse.rewrites.relations.forget(wobbly)
