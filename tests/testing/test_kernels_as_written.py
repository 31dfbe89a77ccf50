"""What hand-written kernels use, and what they are told when a line of theirs cannot run."""

import importlib.util
import math
from functools import partial

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda.libdevice import fast_expf, tanh
from triton.language.extra.libdevice import erf as device_erf
from triton.runtime.interpreter import ASTTransformer

from eqfuse.errors import AccuracyError, KernelBug, KernelError
from eqfuse.testing import assert_equivalent, interpreted_kernels, tensors

exponential, maximal, summed = tl.exp, tl.max, tl.reduce  # taken out of the language, as libraries do


def run(kernel, x, *args, outputs=1, dtype=None, **constants):
    y = torch.zeros((outputs, x.numel()), dtype=dtype or x.dtype)
    with interpreted_kernels():
        kernel[(1,)](x, y, *args, BLOCK=x.numel(), **constants)
    return y


@triton.jit
def arguments_kernel(x_ptr, y_ptr, scale, count, flag, wide: tl.float64, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.static_assert(scale.dtype == tl.float32)
    tl.static_assert(flag.dtype == tl.int1)
    tl.static_assert(wide.dtype == tl.float64)
    tl.store(y_ptr + at, (x * scale.to(tl.float32) + count.to(tl.float32) + flag.to(tl.float32) + wide.to(tl.float32)))


def test_numbers_of_a_launch_are_scalars_of_the_kernel():
    x = torch.arange(4.0)
    assert run(arguments_kernel, x, 0.1, 3, True, 2.0)[0].tolist() == (x * torch.tensor(0.1) + 6).tolist()


@triton.jit
def widths_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, BITS: tl.constexpr, SIGNED: tl.constexpr):
    tl.static_assert(n.dtype.int_bitwidth == BITS)
    tl.static_assert(n.dtype.is_int_signed() == SIGNED)
    tl.store(y_ptr, n.to(tl.float64))


@pytest.mark.parametrize(("n", "bits", "signed"), [(5, 32, True), (2**31, 64, True), (-(2**40), 64, True), (2**63, 64, False)])
def test_integers_have_the_width_that_a_launch_gives_them(n, bits, signed):
    assert run(widths_kernel, torch.ones(1), n, dtype=torch.float64, BITS=bits, SIGNED=signed).item() == n


@triton.jit
def half_kernel(x_ptr, y_ptr, scale, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    product = tl.load(x_ptr + at) * scale
    tl.static_assert(product.dtype == tl.float32)  # as compiled: the scalar is no Python number
    tl.store(y_ptr + at, product)


def test_a_float_argument_widens_half_precision():
    x = torch.full((4,), 1.001, dtype=torch.float16)
    assert torch.equal(run(half_kernel, x, 1.0 + 2.0**-12)[0], (x.float() * (1 + 2.0**-12)).half())


@triton.jit
def library_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, tanh(x))
    tl.store(y_ptr + BLOCK + at, libdevice.tanh(x))
    tl.store(y_ptr + 2 * BLOCK + at, device_erf(x))
    tl.store(y_ptr + 3 * BLOCK + at, fast_expf(x) + libdevice.pow(x, x))
    tl.store(y_ptr + 4 * BLOCK + at, exponential(x))
    tl.store(y_ptr + 5 * BLOCK + at, maximal(x, axis=0) + tl.zeros((BLOCK,), tl.float32))
    tl.store(y_ptr + 6 * BLOCK + at, tl.extra.libdevice.rsqrt(x))


def test_functions_of_device_libraries_by_every_name():
    x = torch.tensor([0.5, 1.0, 2.0, 3.0])
    expected = [x.tanh(), x.tanh(), x.erf(), x.exp() + x**x, x.exp(), torch.full((4,), 3.0), x.rsqrt()]
    assert torch.allclose(run(library_kernel, x, outputs=7), torch.stack(expected), rtol=1e-6)
    assert libdevice.tanh(1.0) is None  # and it is over then


@triton.jit
def refused_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, libdevice.jn(at, tl.load(x_ptr + at)))


@triton.jit
def type_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, libdevice.tanh(tl.load(x_ptr + at)))


@triton.jit
def axis_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(y_ptr, tl.max(x, tl.max(x, axis=0)))


@triton.jit
def widened_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    tl.store(y_ptr, tl.reduce(tl.load(x_ptr + tl.arange(0, BLOCK)), 0, maximum))


@triton.jit
def maximum(a, b):
    return tl.maximum(a, b)


@triton.jit
def number_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    tl.store(y_ptr, tl.float32(-math.inf))


@triton.jit
def assembly_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(y_ptr + tl.arange(0, BLOCK), y)


@triton.jit
def old_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    tl.store(y_ptr + tl.arange(0, BLOCK), tl.math.tanh(tl.load(x_ptr + tl.arange(0, BLOCK))))


@triton.jit
def broken_helper(x):
    return x.nothing


@triton.jit
def helped_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    tl.store(y_ptr, broken_helper(tl.load(x_ptr)))


REFUSED = [
    (refused_kernel, torch.float32, "__nv_jnf of the device library has no meaning", "libdevice.jn(", "on a device"),
    (type_kernel, torch.float16, "fp16", "libdevice.tanh(", "x.to(tl.float32)"),
    (axis_kernel, torch.float32, "the axis of a reduction is a tensor", "tl.max(x, tl.max(", "tl.maximum(a, b)"),
    (widened_kernel, torch.bfloat16, "makes fp32 of bf16", "tl.reduce(", "x.to(tl.float32)"),
    (number_kernel, torch.float32, "'dtype' object is not callable", "tl.float32(-math.inf)", "tl.full((), value"),
    (assembly_kernel, torch.float32, "inline_asm not supported", "tl.inline_asm_elementwise", "on the CPU"),
    (old_kernel, torch.float32, "has no attribute 'tanh'", "tl.math.tanh", "triton.language.extra.libdevice"),
    (helped_kernel, torch.float32, "has no attribute 'nothing'", "return x.nothing", "compile the kernel"),
]


@pytest.mark.parametrize(("kernel", "dtype", "said", "line", "cure"), REFUSED, ids=lambda v: getattr(v, "__name__", ""))
def test_what_cannot_run_is_refused_with_its_line_and_a_cure(kernel, dtype, said, line, cure):
    with pytest.raises(KernelError) as info:
        run(kernel, torch.ones(4, dtype=dtype))
    text = str(info.value)
    assert said in text
    assert line in text
    assert cure in text
    assert info.value.where.startswith("test_kernels_as_written.py:")
    assert kernel.__name__ in info.value.where


def test_a_launch_that_does_not_fit_the_kernel():
    x = torch.ones(4)
    with interpreted_kernels():
        with pytest.raises(KernelError, match="missing 1 required positional argument: 'BLOCK'"):
            half_kernel[(1,)](x, x, 1.0)
        with pytest.raises(KernelError, match="at most three axes"):
            half_kernel[(1, 1, 1, 1)](x, x, 1.0, BLOCK=4)
        with pytest.raises(KernelError, match="failed to specialize argument of type: str"):
            half_kernel[(1,)](x, x, "1.0", BLOCK=4)


def test_the_smallest_arguments_are_shown():
    def scaled(x):
        y = torch.empty_like(x)
        type_kernel[(1,)](x, y, BLOCK=triton.next_power_of_2(x.numel()))
        return y

    with pytest.raises(KernelError, match=r"(?s)test_kernels_as_written.py:\d+, type_kernel.*x0 = torch.tensor\(\[0.0\].*try: cast"):
        assert_equivalent(torch.tanh, scaled, [tensors((torch.float16,), ("n",), layouts="contiguous")], examples=5, shrink_seconds=2)


@triton.jit
def combine_product(a, b):
    return a * b


@triton.jit
def bfloat16_kernel(x_ptr, y_ptr, SHAPE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, x + tl.full((BLOCK,), 1.00390625 + 2.0**-10, tl.bfloat16))
    tl.store(y_ptr + BLOCK + at, tl.cumsum(x, 0).to(tl.bfloat16))
    tl.store(y_ptr + 2 * BLOCK + at, tl.reduce(x, 0, combine_product) + 0 * x)
    tl.store(y_ptr + 3 * BLOCK + at, tl.max(x, 0).to(tl.bfloat16) + 0 * x)
    tl.store(y_ptr + 4 * BLOCK + at, tl.associative_scan(x, 0, tl.standard._sum_combine, reverse=True))
    tl.store(y_ptr + 5 * BLOCK + at, tl.sort(x))


def test_constants_reductions_and_scans_of_bfloat16():
    x = torch.tensor([-3.0, 1.0, -0.25, 2.5, 7.0, -10.0, 0.5, 4.0], dtype=torch.bfloat16)
    found = run(bfloat16_kernel, x, outputs=6, SHAPE=8)
    one = torch.tensor(1.00390625 + 2.0**-10).bfloat16()
    expected = [x + one, x.float().cumsum(0).bfloat16(), torch.full((8,), float(x.float().prod())), torch.full((8,), 7.0),
                x.float().flip(0).cumsum(0).flip(0).bfloat16(), x.sort().values]  # fmt: skip
    for mine, e in zip(found, expected, strict=True):
        assert torch.equal(mine, e.bfloat16())


@triton.jit
def combine(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def language_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    odd = at % 2 == 1
    tl.store(y_ptr + at, tl.minimum(x, tl.where(odd, float("nan"), 2.0)))
    tl.store(y_ptr + BLOCK + at, tl.clamp(x, 0.0, 1.5))
    tl.store(y_ptr + 2 * BLOCK + at, tl.gather(x, BLOCK - 1 - at, 0))
    tl.store(y_ptr + 3 * BLOCK + at, tl.histogram(at // 3, BLOCK).to(tl.float32))
    _, scanned = tl.associative_scan((x * 0 + 0.5, x), 0, combine)
    tl.store(y_ptr + 4 * BLOCK + at, scanned)
    tl.store(y_ptr + 5 * BLOCK + at, tl.flip(x, 0))
    tl.store(y_ptr + 6 * BLOCK + at, tl.argmax(x, 0).to(tl.float32) + 0 * x)
    tl.device_assert(tl.num_programs(0) == 1, "one program")
    tl.debug_barrier()
    tl.atomic_add(y_ptr + 7 * BLOCK + at // 2, x)


def test_functions_of_the_language():
    x = torch.tensor([1.0, 3.0, -2.0, 0.5, 4.0, 1.25, -1.0, 2.0])
    found = run(language_kernel, x, outputs=8)
    scanned, value = [], 0.0
    for v in x.tolist():
        value = value * 0.5 + v
        scanned.append(value)
    at = torch.arange(8)
    expected = [torch.where(at % 2 == 1, x, x.clamp(max=2)), x.clamp(0, 1.5), x.flip(0), torch.tensor([3.0, 3, 2, 0, 0, 0, 0, 0]),
                torch.tensor(scanned), x.flip(0), torch.full((8,), 4.0), torch.cat([x.view(4, 2).sum(1), torch.zeros(4)])]  # fmt: skip
    assert torch.equal(found, torch.stack(expected))


def keep_small(configs, given, **kwargs):
    return [c for c in configs if c.kwargs["BLOCK"] <= given["n"]]


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}) for b in (4, 8, 1024)], key=["n"], prune_configs_by={"early_config_prune": keep_small}
)
@triton.jit(do_not_specialize=["n"])
def pruned_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0) + BLOCK, mask=at < n)


def pruned(x):
    y = torch.empty_like(x)
    with torch.cuda.device(x.device):
        pruned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y


@torch.library.triton_op("eqfuse_tests::wrapped", mutates_args=())
def wrapped(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    torch.library.wrap_triton(fixed_kernel)[(1,)](x, y, x.numel(), BLOCK=16)
    return y


def copied(name):
    """A function of a copy of the device library, as xformers looks for one."""
    spec = importlib.util.find_spec("triton.language.extra.libdevice")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


copied_rsqrt = copied("rsqrt")


@triton.jit
def copied_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, copied_rsqrt(tl.load(x_ptr + at)))


def test_functions_of_a_copy_of_the_device_library():
    x, y = torch.arange(1.0, 9.0), torch.empty(8)
    with interpreted_kernels():
        copied_kernel[(1,)](x, y, BLOCK=8)
    assert torch.allclose(y, x.rsqrt())


@triton.jit
def fixed_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0) * 2, mask=at < n)


def test_launchers_of_every_kind():
    with interpreted_kernels():
        assert [pruned(torch.zeros(8))[0].item() for _ in range(3)] == [4, 8, 4]
        assert pruned_kernel.best_config.kwargs == {"BLOCK": 4}
    x = tensors((torch.float32,), (16,), values="normal", layouts="contiguous")
    assert_equivalent(lambda x: x * 2, wrapped, [x], examples=3)


def test_questions_about_a_device_have_answers_while_kernels_are_interpreted():
    with interpreted_kernels():
        properties = triton.runtime.driver.active.utils.get_device_properties(triton.runtime.driver.active.get_current_device())
        assert properties["multiprocessor_count"] == torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
        assert torch.cuda.get_device_capability() >= (7, 0)
        with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.device_of(torch.ones(1)), torch.cuda.device(0):
            assert isinstance(torch.cuda.device(0), torch.cuda.device)  # libraries ask what is one
        assert triton.runtime.driver.active.get_current_target().backend == "cuda"
        made = torch.empty(3, device="cuda"), torch.ones(2).to("cuda:0"), torch.zeros(1).cuda()
        assert torch.cuda.is_available() or all(x.is_cuda and x.device == torch.device("cuda:0") for x in made)
    assert torch.cuda.is_available() or {x.device.type for x in made} == {"cpu"}


class Doubled(torch.autograd.Function):
    """Its gradient asks for the device, too."""

    @staticmethod
    def forward(ctx, x):
        return x * 2 if x.is_cuda else x

    @staticmethod
    def backward(ctx, dy):
        return dy + (torch.ones(dy.shape, device="cuda") * dy if dy.device.type == "cuda" else 0)


def test_launchers_that_leave_their_kernels_out_for_the_cpu():
    assert_equivalent(lambda x: x * 2, Doubled.apply, [torch.randn(3)], gradients=True)


def test_what_is_asked_is_forgotten():
    if not torch.cuda.is_available():
        with pytest.raises((RuntimeError, AssertionError)):
            torch.cuda.get_device_properties(0)


@triton.jit
def words_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, ALL: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at >= 1 and at < n
    x = tl.load(x_ptr + at, mask=inside or ALL, other=-1.0)
    tl.store(y_ptr + at, x)
    tl.store(y_ptr + BLOCK + at, (not inside).to(tl.float32))
    if n > 2 and not ALL:
        tl.store(y_ptr + 2 * BLOCK + at, x * 0 + 1)


@pytest.mark.parametrize("everything", [False, True])
def test_and_or_not_are_elementwise(everything):
    x, at = torch.arange(4.0) + 5, torch.arange(4)
    inside = (at >= 1) & (at < 3)
    found = run(words_kernel, x, 3, outputs=3, ALL=everything)
    assert torch.equal(found[0], x if everything else torch.where(inside, x, -1.0))
    assert torch.equal(found[1], (~inside).float())
    assert found[2].tolist() == [float(not everything)] * 4


@triton.jit
def chain_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at), mask=0 <= at < 2)


def test_a_chain_of_comparisons_is_that_or_refused():
    if hasattr(ASTTransformer, "visit_Compare"):  # this version of Triton has them
        assert run(chain_kernel, torch.ones(4))[0].tolist() == [1, 1, 0, 0]
        return
    with pytest.raises(KernelError, match=r"a chain of comparisons.*\n.*mask=0 <= at < 2"):
        run(chain_kernel, torch.ones(4))


@triton.jit
def loops_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    total = 0.0
    for i in range(n):
        tl.static_assert(i.dtype == tl.int32)
        for j in tl.range(0, i.to(tl.int64) + 1, 2, num_stages=2):
            tl.static_assert(j.dtype == tl.int64)
            total += tl.load(x_ptr + j)
        for k in tl.static_range(2):
            total += k * (1, 10)[k]
    tl.store(y_ptr, total)


def test_what_counts_the_turns_of_a_loop_is_a_tensor():
    x = torch.tensor([1.0, 100.0, 1000.0, 7.0])
    assert run(loops_kernel, x, 3)[0, 0].item() == 1 + 1 + (1 + 1000) + 3 * 10


@triton.autotune(configs=[triton.Config({"BLOCK": b}) for b in (4, 32)], key=["n"])
@triton.jit
def total_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0))
    tl.store(y_ptr, total)


def test_the_runs_of_one_comparison_have_the_same_configurations():
    """The order of a sum differs from one to the next."""

    def total(x):
        y = torch.empty(())
        total_kernel[(1,)](x, y, x.numel())
        return y

    assert_equivalent(torch.sum, total, [tensors(torch.float32, (31,), values="normal", layouts="contiguous")], examples=4)


@triton.jit
def scratch_kernel(x_ptr, scratch_ptr, y_ptr, FACTOR: tl.constexpr, DISCARD: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(scratch_ptr + at, tl.load(x_ptr + at), mask=at < BLOCK // 2)
    scratch = tl.load(scratch_ptr + at)
    if DISCARD:
        scratch = tl.where(at < BLOCK // 2, scratch, 0.0)
    else:
        scratch = tl.where(at < BLOCK // 2, scratch, scratch * FACTOR)
    tl.store(y_ptr, tl.max(scratch, 0) if FACTOR else tl.sum(scratch, 0))


def largest(x, discard=False, factor=1):
    y, scratch = torch.empty(()), torch.empty(8)
    scratch_kernel[(1,)](x, scratch, y, FACTOR=factor, DISCARD=discard, BLOCK=8)
    return y


def test_what_is_read_uninitialised_and_not_used_is_no_fault():
    assert_equivalent(lambda x: x[:4].max(), partial(largest, discard=True), [torch.arange(8.0)])


@pytest.mark.parametrize("factor", [1, 0])
def test_what_is_read_uninitialised_and_used_is_one(factor):
    """A factor of zero does not take it away: it may be NaN."""
    exact = torch.sum if factor == 0 else torch.max
    with pytest.raises(KernelBug, match="uninitialised read: loads 4 elements of scratch_ptr"):
        assert_equivalent(lambda x: exact(x[:4]), partial(largest, factor=factor), [torch.arange(8.0)])


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16])
def test_narrow_results_that_nothing_writes_are_wrong(dtype):
    with pytest.raises(AccuracyError, match=r"output 0: 8 elements"):
        assert_equivalent(lambda x: torch.zeros(8, dtype=dtype), lambda x: torch.empty(8, dtype=dtype), [torch.ones(1)], repeats=1)


@pytest.mark.parametrize("wrong", [lambda x: x[:4].max() + 1, lambda x: x])
def test_a_fault_is_not_put_down_to_an_uninitialised_read_that_is_not_used(wrong):
    with pytest.raises(AccuracyError, match=r"error|shape"):
        assert_equivalent(wrong, partial(largest, discard=True), [torch.arange(8.0)])
