"""The printed kernels, run by Triton's interpreter with its sanitizer against float64 numpy; and facts about the text."""

import ast
import re
from contextlib import nullcontext
from dataclasses import replace

import hand_kernels as kernels
import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode

from eqfuse.codegen.module import emit_module
from eqfuse.codegen.sizes import ModuleSpec
from eqfuse.codegen.text import parameter_type
from eqfuse.codegen.triton import print_kernel
from eqfuse.ir import build as b
from eqfuse.ir import dtypes
from eqfuse.ir.reference import evaluate, round_to
from eqfuse.runtime.interpreter import interpret
from eqfuse.runtime.modules import load_module
from eqfuse.testing.fuzz.lowering import printed
from eqfuse.tiles.direct import kernel_from_program
from eqfuse.tiles.finish import finish
from eqfuse.tiles.kernel import Buffer, Role
from eqfuse.tiles.lower import lower


def module_of(*ks, header=""):
    """A module from kernels in order: outputs of one that others read are temporaries."""
    made = [r.buffer for k in ks for r in k.roots]
    buffers = {n: x for k in ks for n, x in k.buffers.items()}
    read = {n.attrs[0] for k in ks for n in k.nodes if n.op == "load"}
    return ModuleSpec(
        "m",
        tuple(x for n, x in buffers.items() if n not in made),
        tuple(buffers[n] for n in made if n not in read),
        tuple(buffers[n] for n in made if n in read),
        tuple(finish(lower(k)) for k in ks),
        header,
    )


@pytest.fixture
def run(tmp_path):
    def go(source, arguments):
        return interpret(load_module(source, "interpret", directory=tmp_path), "run", *arguments)

    return go


def tensors(spec, data):
    return [torch.from_numpy(np.asarray(data[x.name])).to(getattr(torch, x.dtype.name)) for x in spec.inputs]


@pytest.mark.parametrize("name", kernels.CASES)
def test_hand_made_kernels(run, name):
    k, oracle = kernels.CASES[name]()
    spec, data = module_of(k), kernels.inputs(k)
    found = run(emit_module(spec), tensors(spec, data))
    expected = oracle(**data)
    for x, t in zip(spec.outputs, found, strict=True):
        np.testing.assert_allclose(t.double().numpy(), expected[x.name], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("programs", [1, 3, 1000])
@pytest.mark.parametrize("name", [n for n in kernels.CASES if kernels.CASES[n]()[0].grid])
def test_few_programs_take_all_tiles(run, name, programs):
    """One program, several with and without an equal share, and more than there are tiles; several in groups of two tiles."""
    k, oracle = kernels.CASES[name]()
    grouped = 2 if programs > 1 and len(k.grid) > 1 else 0
    spec, data = module_of(replace(k, persistent=programs, grouped=grouped)), kernels.inputs(k)
    source = emit_module(spec)
    assert f", {programs}),)](" in source
    found = run(source, tensors(spec, data))
    expected = oracle(**data)
    for x, t in zip(spec.outputs, found, strict=True):
        np.testing.assert_allclose(t.double().numpy(), expected[x.name], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda d: d.name)
def test_half_precision(run, dtype):
    k, oracle = kernels.attention(dtype=dtype, mask=kernels.causal, statistics=True)
    data = {n: round_to(v, dtype.name) for n, v in kernels.inputs(k).items()}
    spec = module_of(k)
    o, lse = run(emit_module(spec), tensors(spec, data))
    expected = oracle(**data)
    assert o.dtype == getattr(torch, dtype.name)
    assert lse.dtype == torch.float32
    np.testing.assert_allclose(o.double().numpy(), expected["o"], atol=4 * dtype.epsilon)
    np.testing.assert_allclose(lse.numpy(), expected["lse"], atol=1e-5)


def test_fully_masked_tiles(run):
    k, oracle = kernels.attention(queries=40, keys=53, mask=kernels.later)
    spec, data = module_of(k), kernels.inputs(k)
    (o,) = run(emit_module(spec), tensors(spec, data))
    np.testing.assert_allclose(o.double().numpy(), oracle(**data)["o"], rtol=2e-5, atol=2e-5)


def test_large_logits(run):
    k, _ = kernels.attention(scale=1e4)
    spec, data = module_of(k), kernels.inputs(k)
    (o,) = run(emit_module(spec), tensors(spec, data))
    assert torch.isfinite(o).all()


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 17, 1), (2, 5, 64), (4, 33, 47)])
def test_one_text_serves_every_shape(run, shape):
    """Extents and strides are arguments: the module planned for one shape runs others."""
    heads, queries, keys = shape
    planned = module_of(kernels.attention(heads=2, queries=40, keys=53)[0])
    other, oracle = kernels.attention(heads=heads, queries=queries, keys=keys)
    data = kernels.inputs(other)
    (o,) = run(emit_module(planned), tensors(planned, data))
    np.testing.assert_allclose(o.double().numpy(), oracle(**data)["o"], rtol=2e-5, atol=2e-5)


def test_inputs_may_have_any_strides(run):
    k, oracle = kernels.attention()
    spec, data = module_of(k), kernels.inputs(k)
    q, key, v = tensors(spec, data)
    q = q.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    key = torch.stack([key, key], -1)[..., 0]
    v = v[:1].expand(2, -1, -1)
    data["v"] = v.numpy()
    (o,) = run(emit_module(spec), [q, key, v])
    np.testing.assert_allclose(o.double().numpy(), oracle(**data)["o"], rtol=2e-5, atol=2e-5)


def test_integers_and_truth_values(run):
    i, j = b.axes(i=6, j=37)
    x, mask = b.tensor("x", i, j), b.tensor("mask", i, j, dtype=dtypes.bool_)
    label = b.tensor("label", i, dtype=dtypes.int64)
    p = b.program(
        "kinds",
        picked=(b.sum_over(j, b.select(b.eq(label, b.iota(j)), x, 0.0)), (i,)),
        any_of=(b.maximum_over(j, mask), (i,)),
        moved=(b.iota(j) * 2 + label, (i, j)),
        kept=(b.select(mask, x, -1.0), (i, j)),
        small=(b.le(x, 0.0), (i, j)),
    )
    numbers = np.random.default_rng(0)
    data = {"x": numbers.standard_normal((6, 37)), "mask": numbers.random((6, 37)) < 0.1, "label": numbers.integers(0, 37, 6)}
    k = kernel_from_program(p, {i: Role("grid", 2), j: Role("stream", 16)})
    spec = module_of(k)
    found = run(emit_module(spec), tensors(spec, data))
    for (name, expected), t in zip(evaluate(p, data).items(), found, strict=True):
        np.testing.assert_allclose(t.double().numpy(), expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_kernels_in_sequence_with_a_temporary(run):
    i, j = b.axes(i=5, j=19)
    x, m = b.tensor("x", i, j), b.tensor("m", i)
    first = kernel_from_program(b.program("largest", m=(b.maximum_over(j, x), (i,))), {i: Role("grid", 2), j: Role("resident", 32)})
    second = kernel_from_program(b.program("shifted", y=(x - m, (i, j))), {i: Role("grid", 1), j: Role("grid", 8)})
    spec = module_of(first, second)
    assert [t.name for t in spec.temporaries] == ["m"]
    data = {"x": np.random.default_rng(0).standard_normal((5, 19))}
    (y,) = run(emit_module(spec), tensors(spec, data))
    np.testing.assert_allclose(y.numpy(), data["x"] - data["x"].max(1, keepdims=True), rtol=1e-6)


def test_random_programs(run):
    def interpreted(source, arrays):
        strided = [np.asfortranarray(a) if n % 2 else a for n, a in enumerate(arrays)]
        return [t.double().numpy() for t in run(source, [torch.from_numpy(a.astype(np.float32, order="K")) for a in strided])]

    covered, wrong = printed(range(2000, 2040), interpreted)
    assert not wrong, str(wrong[0])
    assert covered["programs"] >= 38
    assert covered["persistent"] >= 5
    assert covered["grouped"] >= 4
    covered, wrong = printed(range(500, 530), interpreted, saturated=True)
    assert not wrong, str(wrong[0])
    assert covered["rolls"] >= 3


# -- refusals ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": torch.zeros(2, 40, 16, dtype=torch.float16)}, "q must be a 3-dimensional tensor of torch.float32"),
        ({"q": torch.zeros(40, 16)}, "q must be a 3-dimensional"),
        ({"k": torch.zeros(3, 53, 16)}, r"k has shape \(3, 53, 16\)"),
        ({"q": torch.zeros(2, 40, 8), "k": torch.zeros(2, 53, 8)}, "planned for d of 16"),
        ({"v": torch.zeros(2, 53, 32)}, "planned for e of 16"),
        ({"v": torch.zeros(2, 53, 0)}, "planned for e of 16"),  # an empty axis has no lanes that may be loaded
    ],
)
def test_arguments_that_the_plan_does_not_cover(run, change, message):
    spec = module_of(kernels.attention()[0])
    given = {"q": torch.zeros(2, 40, 16), "k": torch.zeros(2, 53, 16), "v": torch.zeros(2, 53, 16), **change}
    with pytest.raises(ValueError, match=message):
        run(emit_module(spec), [given[x.name] for x in spec.inputs])


def test_axes_in_compound_indices_keep_their_length(run):
    spec = module_of(kernels.decode_split(keys=53)[0])
    with pytest.raises(ValueError, match=r"k has shape \(3, 60, 16\); the other arguments and the plan require \(3, 53, 16\)"):
        run(emit_module(spec), [torch.zeros(3, 16), torch.zeros(3, 60, 16), torch.zeros(3, 60, 16)])


# -- the text ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", kernels.CASES)
def test_every_masked_load_says_what_masked_lanes_hold(name):
    text = print_kernel(finish(lower(kernels.CASES[name]()[0])))
    calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call) and ast.unparse(n.func) == "tl.load"]
    assert calls
    for call in calls:
        assert len(call.args) == 1
        assert {x.arg for x in call.keywords} - {"eviction_policy"} in (set(), {"mask", "other"})


@pytest.mark.parametrize("name", kernels.CASES)
def test_signature_is_what_is_printed(name):
    program = finish(lower(kernels.CASES[name]()[0]))
    (function,) = ast.parse(print_kernel(program)).body
    names = [a.arg for a in function.args.args]
    assert names == [p.name for p in program.parameters]
    used = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
    assert set(names) <= used
    kinds = [p.kind for p in program.parameters]
    assert kinds == sorted(kinds, key=["pointer", "int", "constexpr"].index)


def test_hints_are_the_planned_sizes_and_strides():
    params = {p.name: p for p in finish(lower(kernels.attention(heads=2, queries=40, keys=53, width=16)[0])).parameters}
    assert parameter_type(params["q_ptr"]) == "*fp32"
    assert (params["N_j"].value, parameter_type(params["N_j"])) == (53, "i32")
    assert params["q_stride_h"].value == 640
    assert (params["T_i"].value, parameter_type(params["T_i"])) == (16, "constexpr")


def test_even_streams_have_no_masks_and_uneven_ones_a_peeled_tail():
    even = print_kernel(finish(lower(kernels.matmul(32, 32, 48)[0])))
    assert "mask" not in even
    assert even.count("tl.range") == 1
    uneven = print_kernel(finish(lower(kernels.matmul(32, 32, 41)[0])))
    main, tail = re.split(r"num_stages=1", uneven)
    assert "mask" not in main
    assert tail.count("mask=r_ok") == 2


def test_the_header_is_quoted_safely():
    k, _ = kernels.matmul()
    object.__setattr__(k, "notes", {"equation": 'c[i, j] = sum_r "a" """b""" \\', "rules": "none"})
    text = emit_module(module_of(k, header='plan """ with quotes'))
    assert "equation: c[i, j]" in text
    compile(text, "m", "exec")


def test_buffer_names_cannot_collide():
    i = b.axes(i=4)[0]
    p = b.program("run_it", y=(b.tensor("tl", i) + b.tensor("run_it", i), (i,)))
    k = kernel_from_program(p, {i: Role("grid", 4)})
    text = emit_module(module_of(k))
    assert "def run(tl_, run_it_):" in text


def test_emission_is_deterministic():
    assert len({emit_module(module_of(kernels.attention()[0])) for _ in range(3)}) == 1


def test_offsets_beyond_32_bits_are_wide():
    i, j = b.axes(i=70000, j=70000)
    p = b.program("big", y=(b.tensor("x", i, j) * 2.0, (i, j)))
    text = print_kernel(finish(lower(kernel_from_program(p, {i: Role("grid", 32768), j: Role("grid", 1)}))))
    assert ".to(tl.int64) * x_stride_i" in text
    assert Buffer("x", dtypes.float32, (70000, 70000)).bytes > 2**32


def test_a_module_refuses_tensors_that_its_kernels_cannot_read(tmp_path):
    """Triton's own error for them names no argument, and says that there is no driver where there is no GPU."""
    i = b.axes(i=40)[0]
    k = kernel_from_program(b.program("twice", y=(b.tensor("x", i) * 2.0, (i,))), {i: Role("grid", 16)})
    module = load_module(emit_module(module_of(k)), "run", directory=tmp_path)
    for device in ("cpu", "meta"):
        with pytest.raises(ValueError, match=rf"x is on {device}: these are Triton kernels, which need tensors on a GPU"):
            module.run(torch.ones(40, device=device))
    interpreted = load_module(emit_module(module_of(k)), "interpret", directory=tmp_path)
    assert interpret(interpreted, "run", torch.ones(40))[0].tolist() == [2.0] * 40


# -- what run does with tensors before kernels see them -------------------------------------------------------------------------


class Launches:
    """In the place of a kernel: notes how it is launched."""

    def __init__(self):
        self.grids, self.arguments = [], []

    def __getitem__(self, grid):
        self.grids.append(grid)
        return lambda *given, **_: self.arguments.append(given)


@pytest.fixture
def on_gpus(tmp_path, monkeypatch):
    """A module with launches noted, and a mode in which tensors on GPUs can be made, without data."""
    monkeypatch.setattr(torch.cuda, "device_of", lambda tensor: nullcontext(devices.append(str(tensor.device))))
    devices: list[str] = []

    def load(k):
        module = load_module(emit_module(module_of(k)), "run", directory=tmp_path)
        launches = Launches()
        monkeypatch.setattr(module, k.name, launches)
        launches.devices = devices
        return module, launches

    with FakeTensorMode():
        yield load


def doubled(rows=1, columns=64):
    """y[i, j] = 2 x[i, j], in tiles."""
    i, j = b.axes(i=64, j=64)
    p = b.program("doubled", y=(b.tensor("x", i, j) * 2.0, (i, j)))
    return kernel_from_program(p, {i: Role("grid", rows), j: Role("grid", columns)})


def test_tiles_that_32_bits_do_not_span_are_copied(run):
    """The offsets of lanes have 32 bits where those of a contiguous tensor fit; with these strides they would wrap."""
    i, j = b.axes(i=4, j=64)
    p = b.program("m", y=(b.select(b.tensor("x", i, j, dtype=dtypes.bool_), 2.0, 1.0), (i, j)))
    k = kernel_from_program(p, {i: Role("grid", 1), j: Role("grid", 64)})
    memory = torch.empty(64 * 35_000_000, dtype=torch.bool)  # 64 pages of it are touched
    x = memory.as_strided((4, 64), (1, 35_000_000))
    x[:] = torch.arange(4 * 64).reshape(4, 64) % 3 == 0
    (y,) = run(emit_module(module_of(k)), [x])
    assert torch.equal(y, torch.where(x, 2.0, 1.0))


def test_other_tiles_are_left_where_they_are(on_gpus):
    """A view is copied if the lanes of one tile span 2**31 elements: not if the whole tensor does."""
    module, launches = on_gpus(doubled())
    for strides in [(10**9, 1), (1, 2**31 // 64), (1, 35_000_000)]:
        x = torch.empty_strided((64, 64), strides)
        module.run(x)
        assert (launches.arguments[-1][0] is x) == (strides != (1, 35_000_000))
    assert launches.arguments[-1][0].stride() == (64, 1)


def test_sizes_for_which_a_tile_is_too_far_apart_are_refused(on_gpus):
    """One text serves every shape, but for those where offsets that were planned in 32 bits need more."""
    module, launches = on_gpus(doubled(rows=64, columns=1))
    module.run(torch.empty(64, 30_000_000))
    with pytest.raises(ValueError, match=r"x has strides .* a tile of it would span"):
        module.run(torch.empty(64, 40_000_000))
    with pytest.raises(ValueError, match="y has strides"):
        module.run(torch.empty(64, 1).expand(64, 40_000_000))
    assert len(launches.grids) == 1


def test_tensors_on_two_gpus_are_refused(on_gpus):
    i = b.axes(i=64)[0]
    p = b.program("added", y=(b.tensor("x", i) + b.tensor("z", i), (i,)))
    module, launches = on_gpus(kernel_from_program(p, {i: Role("grid", 64)}))
    given = [torch.empty(64, device=f"cuda:{n}") for n in range(2)]
    with pytest.raises(ValueError, match="z is on cuda:1, the first argument that is used is on cuda:0"):
        module.run(*given)
    assert not launches.grids


def test_an_unused_input_does_not_say_where_kernels_run(on_gpus, tmp_path, monkeypatch):
    k = doubled()
    spec = module_of(k)
    spec = replace(spec, inputs=(Buffer("unused", dtypes.float32, (4,)), *spec.inputs))
    module = load_module(emit_module(spec), "run", directory=tmp_path)
    launches = Launches()
    monkeypatch.setattr(module, k.name, launches)
    (y,) = module.run(torch.empty(4), torch.empty(64, 64, device="cuda:1"))
    assert str(y.device) == "cuda:1"
    assert on_gpus(doubled())[1].devices == ["cuda:1"]


def test_signs_that_are_not_in_memory(run):
    x = torch.complex(torch.ones(64, 64), torch.arange(64.0 * 64).reshape(64, 64)).conj().imag
    assert x.is_neg()
    (y,) = run(emit_module(module_of(doubled())), [x])
    assert torch.equal(y, x * 2)


def test_a_grid_that_no_gpu_launches_is_refused(on_gpus):
    module, launches = on_gpus(doubled())
    module.run(torch.empty(2**31 - 1, 64, device="cuda:0"))
    assert launches.grids == [(2**31 - 1,)]
    with pytest.raises(ValueError, match="2147483648 programs are more than a GPU can launch"):
        module.run(torch.empty(2**31, 64, device="cuda:0"))


def test_helpers_of_a_module_are_not_shadowed_by_arguments(run):
    i = b.axes(i=4)[0]
    k = kernel_from_program(b.program("m", y=(b.tensor("_readable", i) + b.tensor("_grid", i), (i,))), {i: Role("grid", 4)})
    (y,) = run(emit_module(module_of(k)), [torch.ones(4), torch.ones(4)])
    assert y.tolist() == [2.0] * 4
