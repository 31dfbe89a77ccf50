"""A stand-in for the device: what launchers ask a GPU before they launch a kernel, answered where there is none.

Launchers read the number of multiprocessors, the shared memory of one, the capability, the stream, and make the device of a tensor the
current one.  None of that matters to an interpreted kernel, but without an answer the kernel does not start.  The answers are those of
an H100 with few multiprocessors, so that kernels which give each one a program have more than one and less than many.

Launchers also look where their arguments are, and leave the kernel out for the CPU.  So where there is no device, tensors say that they
are on one, and that there is one; what is made on it, or moved there, is on the CPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

MULTIPROCESSORS = 4
_CAPABILITY = (9, 0)
_SHARED = 232448  # bytes that one block of threads can have

_PROPERTIES = SimpleNamespace(
    name="no device: kernels are interpreted", major=_CAPABILITY[0], minor=_CAPABILITY[1], multi_processor_count=MULTIPROCESSORS,
    total_memory=80 << 30, warp_size=32, max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536,
    shared_memory_per_block=49152, shared_memory_per_block_optin=_SHARED, shared_memory_per_multiprocessor=233472, L2_cache_size=50 << 20,
    is_integrated=0, is_multi_gpu_board=0, gcnArchName="",
)  # fmt: skip


class _Driver:
    """As much of a driver of Triton as launchers look at."""

    utils = SimpleNamespace(
        get_device_properties=lambda device: {
            "max_shared_mem": _SHARED,
            "max_num_regs": _PROPERTIES.regs_per_multiprocessor,
            "multiprocessor_count": MULTIPROCESSORS,
            "warpSize": _PROPERTIES.warp_size,
            "sm_clock_rate": 1_755_000,
            "mem_clock_rate": 2_619_000,
            "mem_bus_width": 5120,
        }
    )

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 10 * _CAPABILITY[0] + _CAPABILITY[1], _PROPERTIES.warp_size)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return _CAPABILITY


def _stream(*_: Any, **__: Any) -> Any:
    return SimpleNamespace(cuda_stream=0, synchronize=lambda: None, wait_stream=lambda other: None)


class _Pretence(TorchFunctionMode):
    """Tensors on the CPU say that they are on a CUDA device, and what is asked for there is made on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == _DEVICE:  # made anew each time
            return torch.device("cuda", 0) if func(*args).type == "cpu" else func(*args)
        if func in _SAID:
            return _SAID[func]
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.device:
            return func(*args, **(kwargs or {}))
        return func(*map(_cpu, args), **{name: _cpu(value) for name, value in (kwargs or {}).items()})


_DEVICE = torch.Tensor.device.__get__
_SAID = {torch.Tensor.is_cuda.__get__: True, torch.Tensor.is_cpu.__get__: False, torch.Tensor.get_device: 0}


_available = torch.cuda.is_available  # in truth


def on_device(x: torch.Tensor) -> bool:
    """Whether a tensor is on a CUDA device, in truth."""
    with torch._C.DisableTorchFunction():
        return x.is_cuda


def _cpu(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return "cpu" if isinstance(value, str) and value.partition(":")[0] == "cuda" else value


@contextlib.contextmanager
def device(patches: Any) -> Iterator[None]:
    """Inside the block there is a device, or what looks like one.  ``patches`` are undone by the caller."""
    _answer(patches)
    if _available():
        yield
        return

    def backward(*args: Any, **kwargs: Any) -> Any:  # torch.autograd.grad is called without the mode
        with _Pretence():
            return run(*args, **kwargs)

    run = patches.set(torch.autograd, "_engine_run_backward", backward)
    with _Pretence():
        yield


def _answer(patches: Any) -> None:
    """Answer for a device that is not there, through ``patches``; and let the CPU be a current device in any case."""
    of_cuda = torch.cuda.device

    class Current(of_cuda):  # type: ignore[misc,valid-type]  # a class, as libraries ask whether something is one
        def __init__(self, wanted: Any) -> None:
            on_cpu = wanted is None or not _available() or (not isinstance(wanted, int) and torch.device(wanted).type == "cpu")
            self.idx, self.prev_idx = -1, -1  # the number that changes nothing
            if not on_cpu:
                super().__init__(wanted)

    patches.set(torch.cuda, "device", Current)
    if _available():
        return
    answers = {
        "is_available": lambda: True,
        "is_bf16_supported": lambda *args, **kwargs: True,
        "current_device": lambda: 0,
        "device_of": lambda obj: contextlib.nullcontext(),
        "set_device": lambda device: None,
        "get_device_properties": lambda device=None: _PROPERTIES,
        "get_device_capability": lambda device=None: _CAPABILITY,
        "get_device_name": lambda device=None: _PROPERTIES.name,
        "current_stream": _stream,
        "stream": lambda stream: contextlib.nullcontext(),
        "_exchange_device": lambda device: 0,  # under every guard
        "_maybe_exchange_device": lambda device: 0,
        "synchronize": lambda device=None: None,
    }
    for name, answer in answers.items():
        patches.set(torch.cuda, name, answer)
    from triton.runtime.driver import driver

    patches.set(driver, "_active", _Driver())
