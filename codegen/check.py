"""What a saved module tests itself with: torch's own operators, random tensors, and a comparison in float64.

Run as a script, a module compares its kernels with ``reference``, which is the program as torch traced it: on a GPU as they are, without
one in Triton's interpreter; kernels in C on the CPU.  An error is the largest difference by the largest exact value, as in
:mod:`eqfuse.runtime.accuracy`, and held to four times what torch itself is off in the program's own types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LONGEST = 300  # modelled seconds in Triton's interpreter after which a script says how long it would take, and stops
SECONDS = 5e-4  # that an operation on a tile takes there, about: five times what it takes in one that is repaired and sped up


@dataclass(frozen=True)
class Tested:
    """A tensor that a module is tested on: ``below`` bounds whole numbers; ``scale`` is what normal ones are multiplied by."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    below: int = 2
    scale: float = 1.0

    def __str__(self) -> str:
        return f'("{self.name}", {self.shape}, torch.{self.dtype}, {self.below}, {self.scale:g})'


@dataclass(frozen=True)
class Check:
    """``reference`` is the text of that function, with what it imports in ``imports``; ``results`` name what it returns.  ``cases``:
    functions that return the same by kernels, each with the tensors that it is tested on.  ``seconds``: what this takes in the
    interpreter, about."""

    cases: tuple[tuple[str, tuple[Tested, ...]], ...]
    results: tuple[str, ...]
    reference: str
    imports: tuple[str, ...] = ()
    seconds: float = 0.0
    native: bool = False  # kernels are in C


_BEFORE = """
if __name__ == "__main__":  # as a script it tests itself; without a GPU Triton interprets its kernels, which has to be said first
    import os

    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"
"""

_CHECK = '''
def _drawn(name, shape, dtype, below, scale, most):
    """A random tensor, positive if it has no more dimensions than that: logarithms and roots may be taken of it."""
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    if not dtype.is_floating_point:
        return torch.randint(0, below, shape).to(dtype)
    return ((torch.rand(shape) + 0.5 if len(shape) <= most else torch.randn(shape)) * scale).to(dtype)


def _error(found, exact):
    """The largest difference by the largest exact value; infinite if one is finite where the other is not, NaN if nothing is finite."""
    if not found.dtype.is_floating_point:
        return (found.cpu() != exact.to(found.dtype)).double().mean().item() if found.numel() else 0.0
    found, exact = found.detach().cpu().double(), exact.detach()
    finite = exact.isfinite()
    if not torch.equal(finite, found.isfinite()):
        return float("inf")
    if not finite.any():
        return float("nan") if exact.numel() else 0.0
    return ((found - exact)[finite].abs().max() / (exact[finite].abs().max() or 1.0)).item()


def check(device=None):
    """Compare the kernels with reference() on random tensors; AssertionError where they are further from float64 than four times what
    torch is in the program's own types, or than four units in the last place."""
    device = device or DEVICE
    torch.manual_seed(0)
    off = []
    for function, tensors in CASES:
        for most in (-1, 1, 9):
            given = [_drawn(*t, most) for t in tensors]
            exact = reference(*(t.double() if t.is_floating_point() else t.clone() for t in given), kind=lambda t: torch.float64)
            if all(x.isfinite().all() for x in exact):
                break
        usual = reference(*(t.to(device, copy=True) for t in given))
        found = function(*(t.to(device, copy=True) for t in given))
        assert len(found) == len(RESULTS)
        for name, ours, torchs, right in zip(RESULTS, found, usual, exact):
            assert (ours.shape, ours.dtype) == (torchs.shape, torchs.dtype), f"{name}: {ours.shape} {ours.dtype}"
            error, eager = _error(ours, right), _error(torchs, right)
            allowed = 4 * max(eager, torch.finfo(ours.dtype).eps if ours.dtype.is_floating_point else 0.0)
            print(f"{name} {tuple(ours.shape)} {ours.dtype}: error {error:.1e}, torch's own {eager:.1e}, allowed {allowed:.1e}")
            off += [name] * (not error <= allowed)
    assert not off, f"not what torch computes: {', '.join(off)}"
'''

_MAIN = """
if __name__ == "__main__":
    interpreted = not torch.cuda.is_available()
    if interpreted and SECONDS > LONGEST and "--long" not in os.sys.argv:
        os.sys.exit(f"the sizes that this file can be tested at take Triton's interpreter about {SECONDS / 60:.0f} minutes: "
                    "run it where there is a GPU, or with --long")
    print("in Triton's interpreter, without a GPU" if interpreted else torch.cuda.get_device_name())
"""

_PLAIN = "    check()\n"

_NATIVE = """
if __name__ == "__main__":
    print("by kernels in C, compiled for this processor")
    check()
"""

_NARROW = """
    if interpreted:  # Triton's interpreter computes with the bits of bfloat16: what is tested is this text with float32 instead
        import importlib.util
        import pathlib
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "in_float32.py")
            path.write_text(pathlib.Path(__file__).read_text().replace("bfloat16", "float32"))
            spec = importlib.util.spec_from_file_location("in_float32", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            print("in float32 for bfloat16")
            module.check()
    else:
        check()
"""


def said(check: Check | None, why: str = "") -> str:
    """What the docstring of a module says about how it was checked."""
    if check is None:
        return f"checked: its rules are equations that EqFuse tests on random numbers; no test of its own: {why}"
    tensors = check.cases[0][1]
    at = "; ".join(f"{t.name}{list(t.shape)}" for t in tensors[:8]) + (" ..." if len(tensors) > 8 or len(check.cases) > 1 else "")
    where = "on the CPU" if check.native else "on a GPU or in Triton's interpreter"
    return (
        "checked: its rules are equations that EqFuse tests on random numbers.  Run as a script it tests itself: run() against\n"
        f"reference(), the program as torch traced it, in float64, {where}, at\n{at}"
    )


def with_check(module: str, check: Check | None, computes: Sequence[str], why: str = "") -> str:
    """The text of a module with its test.  ``computes``: equations for its docstring; ``why`` there is no test, if there is none."""
    end = module.index('\n"""\n')
    told = "\n\n".join([*(["computes\n  " + "\n  ".join(computes)] if computes else []), said(check, why)])
    told = told.replace("\\", "\\\\").replace('"""', "'''")
    head, rest = f'{module[:end]}\n\n{told}\n"""', module[end + 5 :].strip("\n")
    if check is None:
        return f"{head}\n\n\n{rest}\n"
    cases = "".join(f"    ({name}, [\n{''.join(f'        {t},{chr(10)}' for t in tensors)}    ]),\n" for name, tensors in check.cases)
    results = ", ".join(f'"{r}"' for r in check.results)
    data = (
        "# the test: what run() is compared with, and on what\n"
        f"CASES = [  # what is called; name, shape, type; whole numbers are below this, others normal, times this\n{cases}]\n"
        f"RESULTS = [{results}]\n"
    )
    imports = ["\n".join(check.imports)] if check.imports else []
    if check.native:
        parts = [head, rest, *imports, check.reference, f'{data}DEVICE = "cpu"', _CHECK, _NATIVE]
        return "\n\n\n".join(p.strip("\n") for p in parts) + "\n"
    data += f'SECONDS, LONGEST = {check.seconds:.0f}, {LONGEST}\nDEVICE = "cuda" if torch.cuda.is_available() else "cpu"'
    main = _MAIN.strip("\n") + "\n" + (_NARROW if "tl.bfloat16" in module else _PLAIN).strip("\n")
    parts = [head, _BEFORE, rest, *imports, check.reference, data, _CHECK, main]
    return "\n\n\n".join(p.strip("\n") for p in parts) + "\n"
