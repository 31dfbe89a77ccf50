"""Interpreted kernels give the right numbers, in each type, and leave no trace in Triton."""

import gc
import linecache
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
import torch
import triton.language as tl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from triton.runtime.jit import JITFunction

from eqfuse.runtime import interpreter_patches
from eqfuse.runtime.interpreter import forget, interpret, interpreter_mode
from eqfuse.runtime.modules import load_module
from eqfuse.tiles.simulate import products

TOLERANCE = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}  # about one rounding of a value near one


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", [(3, 1), (5, 37), (2, 128)])
def test_softmax(kernels, dtype, shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    y = interpret(load_module(kernels.SOFTMAX, "interpret"), "run", x)
    assert y.dtype == dtype
    assert (y.double() - x.double().softmax(-1)).abs().max() <= TOLERANCE[dtype]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.integers(1, 4), columns=st.integers(1, 70), dtype=st.sampled_from(list(TOLERANCE)), seed=st.integers(0, 2**31))
def test_softmax_of_any_shape(kernels, rows, columns, dtype, seed):
    x = (8 * torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))).to(dtype)
    y = interpret(load_module(kernels.SOFTMAX, "interpret"), "run", x)
    assert (y.double() - x.double().softmax(-1)).abs().max() <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_matmul_with_a_run_time_loop_bound(kernels, dtype):
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randn(shape, generator=generator).to(dtype) for shape in ((40, 70), (70, 33)))
    c = interpret(load_module(kernels.MATMUL, "interpret"), "run", a, b)
    exact = a.double() @ b.double()
    assert (c.double() - exact).abs().max() <= 8 * TOLERANCE[dtype] * exact.abs().max()


def test_bfloat16_arithmetic_rounds_after_each_operation(kernels):
    generator = torch.Generator().manual_seed(2)
    a, b = (torch.randn(200, generator=generator).bfloat16() for _ in range(2))
    y = interpret(load_module(kernels.BFLOAT16, "interpret"), "run", a, b)
    assert torch.equal(y, a * b + a)


def test_bfloat16_rounding_is_that_of_torch():
    bits = np.random.default_rng(0).integers(0, 2**32, 20000, dtype=np.uint32)
    values = torch.from_numpy(bits.view(np.float32).copy())
    expected = values.bfloat16()
    found = torch.from_numpy(interpreter_patches.float32_to_bfloat16(values.numpy()).copy()).view(torch.bfloat16)
    number = ~values.isnan()
    assert torch.equal(found[number], expected[number])
    assert found[~number].isnan().all()


def _language():
    owners = (tl, tl.core, tl.tensor, tl.dtype, tl.block_type, tl.math, interpreter_patches.ti, interpreter_patches.ti.InterpreterBuilder,
              interpreter_patches.ti.InterpretedFunction, interpreter_patches.ti.GridExecutor)  # fmt: skip
    kept = ("__index__", "__call__", "__init__")
    found = {(id(o), n): v for o in owners for n, v in vars(o).items() if not n.startswith("__") or n in kept}
    return found | {"options": interpreter_patches.ti.interpreter_builder.options}


def test_nothing_stays_patched(kernels):
    module = load_module(kernels.SOFTMAX, "interpret")
    before = _language()
    interpret(module, "run", torch.randn(2, 5))
    assert _language() == before
    with interpreter_mode(module):
        assert _language() != before
    with pytest.raises(RuntimeError, match="on purpose"), interpreter_mode(module):
        raise RuntimeError("on purpose")
    assert _language() == before
    assert isinstance(module.softmax_kernel, JITFunction)
    assert os.environ.get("TRITON_INTERPRET") is None


SCALARS = (
    tl.int1,
    tl.int32,
    tl.uint64,
    tl.float16,
    tl.bfloat16,
    tl.float32,
    tl.pointer_type(tl.float16),
    tl.pointer_type(tl.int8, const=True),
)


def _made(scalar, shape):
    """What Triton says of a type and of a tensor of it."""
    made = tl.block_type(scalar, shape) if shape else scalar
    tensor = tl.tensor(object(), made)
    seen = [
        str(made),
        made.is_block(),
        made.scalar,
        interpreter_patches.ti._get_np_dtype(made),
        str(tensor.type),
        tensor.dtype,
        tensor.numel.value,
    ]
    if shape:
        seen += [made.shape.values, made.numel, made.with_element_ty(tl.float32).name, made == tl.block_type(scalar, list(shape))]
    return [*seen, type(tensor.shape), [n.value for n in tensor.shape]]


def test_what_is_remembered_of_types_and_tensors_is_what_triton_says():
    shapes = [[], [1], [16], [4, 2], [tl.constexpr(4), 8], tl.tuple([2, 1, 32])]
    expected = [_made(s, shape) for s in SCALARS for shape in shapes]
    with interpreter_mode():
        for _ in range(2):  # what the constructors say, and what is remembered of it
            assert [_made(s, shape) for s in SCALARS for shape in shapes] == expected
            for wrong, error in (([3], ValueError), ([4.0], TypeError), ([], TypeError), ((4, 2), AssertionError)):
                with pytest.raises(error):
                    tl.block_type(tl.float32, wrong)
        x = tl.block_type(tl.float32, [4, 2])
        assert tl.tensor(1, x).handle == 1
        assert tl.tensor(2, x).handle == 2


def test_without_the_repairs_this_triton_is_wrong(kernels, monkeypatch):
    """The probes tell the truth: with the repairs switched off, each defect that they report shows."""
    found = interpreter_patches.defects()
    assert found <= set(interpreter_patches.PROBES)
    monkeypatch.setattr(interpreter_patches, "defects", lambda: frozenset())
    a, b = (torch.randn(16, 16).bfloat16() for _ in range(2))
    if "bfloat16 arithmetic" in found:
        assert not torch.equal(interpret(load_module(kernels.BFLOAT16, "interpret"), "run", a, b), a * b + a)
    if "bfloat16 dot" in found and "index" not in found:
        c = interpret(load_module(kernels.MATMUL, "interpret"), "run", a, b)
        assert not ((c.double() - a.double() @ b.double()).abs().max() < 1)
    if "index" in found:
        with pytest.raises(Exception, match="0-dimensional"):
            interpret(load_module(kernels.MATMUL, "interpret"), "run", a, b)


def test_two_threads_interpret_one_after_the_other(kernels):
    module = load_module(kernels.SOFTMAX, "interpret")
    x = torch.randn(4, 20)
    results: list[torch.Tensor] = []
    threads = [threading.Thread(target=lambda: results.append(interpret(module, "run", x))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    assert all(torch.allclose(y, x.softmax(-1)) for y in results)


def test_interpretation_works_where_the_variable_is_set(kernels, tmp_path):
    """A user may have TRITON_INTERPRET set for other code."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch\n"
        "from eqfuse.runtime.interpreter import interpret\n"
        "from eqfuse.runtime.modules import load_module\n"
        "x = torch.randn(3, 9)\n"
        "y = interpret(load_module(open(sys.argv[1]).read(), 'interpret'), 'run', x)\n"
        "assert torch.allclose(y, x.softmax(-1), atol=1e-6)\n"
    )
    (tmp_path / "source.txt").write_text(kernels.SOFTMAX)
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, script, tmp_path / "source.txt"], env=environment, check=True, timeout=120)


def test_a_forgotten_module_is_garbage(kernels):
    """Neither this package nor Triton holds it; loaded again it is another module, and works."""
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(3))
    source = kernels.SOFTMAX + "\n# forgotten\n"
    module = load_module(source, "interpret")
    first = interpret(module, "run", x)
    alive, name, path = weakref.ref(module), module.__name__, module.__file__
    forget(module)
    assert name not in sys.modules
    assert path not in linecache.cache
    del module
    gc.collect()
    assert alive() is None
    assert torch.equal(interpret(load_module(source, "interpret"), "run", x), first)


def test_what_other_purposes_need_is_kept(kernels):
    source = kernels.SOFTMAX + "\n# kept for another purpose\n"
    other = load_module(source, "aot")
    forget(load_module(source, "interpret"))
    assert load_module(source, "aot") is other
    assert other.__file__ in linecache.cache


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (2, 8), (4, 1024)])
def test_reductions_by_a_function_of_the_user_keep_their_order(kernels, shape, keep):
    """All pairs of neighbours at once; the composition of functions is associative and tells every wrong order."""
    g = torch.Generator().manual_seed(5)
    a, b = 1.0 + 0.01 * torch.randn(shape, generator=g), torch.randn(shape, generator=g)
    expected = torch.stack([torch.ones(shape[0]), torch.zeros(shape[0])], -1).double()
    for k in range(shape[1]):
        expected = torch.stack([expected[:, 0] * a[:, k], expected[:, 1] * a[:, k] + b[:, k]], -1)
    found = interpret(load_module(kernels.COMPOSED, "interpret"), "run", a, b, keep)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_equal_columns_of_a_product_are_equal(kernels, dtype):
    """Whatever the processor: a library's product takes another order at the edges of its blocks."""
    row = torch.rand(70, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype)) * 100
    a, b = row.expand(40, -1).contiguous(), row[:, None].expand(-1, 50).contiguous()
    c = interpret(load_module(kernels.MATMUL, "interpret"), "run", a, b)
    assert (c == c[:1, :1]).all()
    for m, k, n in ((64, 128, 61), (128, 113, 256), (7, 64, 197), (1, 16, 3)):
        row = np.random.default_rng(k).standard_normal(k).astype(np.float32)
        c = products(np.broadcast_to(row, (m, k)), np.broadcast_to(row[:, None], (k, n)))
        assert (c == c[0, 0]).all(), (m, k, n)
        np.testing.assert_allclose(c[0, 0], np.sum(row.astype(float) ** 2), rtol=k * 2.0**-24)
