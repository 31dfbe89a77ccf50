"""Planted faults are caught, each with the kernel, the program and the tensor; the same kernels without a fault pass."""

import pytest
import torch

from eqfuse.errors import KernelBug
from eqfuse.runtime.interpreter import interpret
from eqfuse.runtime.modules import load_module


def test_load_past_the_end(kernels):
    module = load_module(kernels.OUT_OF_BOUNDS, "interpret")
    with pytest.raises(KernelBug, match=r"copy_kernel, program \(1, 0, 0\).*load: 12 of 16 lanes outside x_ptr.*element 20 of 20"):
        interpret(module, "reads", torch.ones(20))
    assert torch.equal(interpret(module, "reads", torch.ones(32)), torch.ones(32))


def test_store_past_the_end(kernels):
    module = load_module(kernels.OUT_OF_BOUNDS, "interpret")
    with pytest.raises(KernelBug, match=r"spill_kernel.*out-of-bounds store: 12 of 16 lanes outside y_ptr"):
        interpret(module, "writes", torch.ones(20))
    assert torch.equal(interpret(module, "writes", torch.ones(32)), torch.ones(32))


def test_a_wild_address_is_an_error_and_no_crash(kernels):
    with pytest.raises(KernelBug, match="out-of-bounds load: 7 of 8 lanes outside x_ptr"):
        interpret(load_module(kernels.OUT_OF_BOUNDS, "interpret"), "far", torch.ones(8))


def test_a_view_is_bounded_by_itself_and_not_by_its_storage(kernels):
    module = load_module(kernels.OUT_OF_BOUNDS, "interpret")
    with pytest.raises(KernelBug, match="x_ptr"):
        interpret(module, "reads", torch.ones(64)[:20])


def test_two_programs_store_to_one_address(kernels):
    module = load_module(kernels.RACES, "interpret")
    with pytest.raises(KernelBug, match=r"total_kernel, program \(1, 0, 0\): race: stores 1 elements of y_ptr that program \(0, 0, 0\)"):
        interpret(module, "writes", torch.ones(32))
    assert interpret(module, "writes", torch.ones(16)).item() == 16


def test_a_program_stores_what_another_loaded(kernels):
    module = load_module(kernels.RACES, "interpret")
    with pytest.raises(KernelBug, match=r"race: (stores|loads) 1 elements of x_ptr that program"):
        interpret(module, "in_place", torch.ones(32))
    assert interpret(module, "in_place", torch.arange(16.0))[0].item() == 1


def test_atomics_and_separate_launches_are_no_race(kernels):
    module = load_module(kernels.RACES, "interpret")
    assert interpret(module, "atomic", torch.ones(32)).item() == 32
    assert interpret(module, "twice", torch.ones(16)).item() == 16


@pytest.mark.parametrize("low", [False, True])
def test_undefined_lanes_show(kernels, low):
    """The interpreter reads zeros in masked lanes, which would make the maximum of one tensor right and of another wrong."""
    module, x = load_module(kernels.UNDEFINED, "interpret"), torch.linspace(-1.0, 1.0, 5)
    expected = x.min() if low else x.max()
    assert interpret(module, "run", x, low).item() != expected.item()
    assert interpret(module, "run", x, low, sanitize=False).item() == expected.item()
    assert interpret(module, "run", torch.ones(8), low).item() == 1


def test_faults_pass_unseen_without_the_sanitizer(kernels):
    assert interpret(load_module(kernels.RACES, "interpret"), "writes", torch.ones(32), sanitize=False).item() == 16


def test_other_errors_stay_what_they_are(kernels):
    source = kernels.HEADER + "def run(x):\n    raise ValueError('not mine')\n"
    with pytest.raises(ValueError, match="not mine"):
        interpret(load_module(source, "interpret"), "run", None)
