"""Libraries of kernels in C: compiled once, trusted only where nobody else writes; and the functions that kernels call."""

import ctypes
import re
import shutil
import subprocess

import numpy as np
import pytest

from eqfuse.codegen.c.host import ATTEMPTS, FLAGS, header
from eqfuse.errors import CacheError, CompileError
from eqfuse.ir.ops import OPS
from eqfuse.runtime import native
from eqfuse.testing.ops.native import check_c, compiled

pytestmark = pytest.mark.skipif(native.compiler() is None, reason="there is no C compiler")
ONE = "int one(void) { return 1; }"


def test_a_library_is_compiled_once(tmp_path, monkeypatch):
    assert native.library(ONE, tmp_path).one() == 1
    (kept,) = tmp_path.iterdir()  # no lock, no temporary file
    assert kept.suffix == ".so" and kept.stat().st_mode & 0o777 == 0o600
    native._library.cache_clear()  # as in another process
    monkeypatch.setattr(native, "_compile", None)
    assert native.library(ONE, tmp_path).one() == 1
    native._library.cache_clear()
    tmp_path.chmod(0o777)
    with pytest.raises(CacheError, match="others may write to it"):
        native.library(ONE, tmp_path)


def test_what_the_compiler_rejects_is_said(tmp_path, monkeypatch):
    with pytest.raises(CompileError, match=r"(?s)rejects the kernels: .*missing"):
        native.library("int one(void) { return missing; }", tmp_path)
    assert not list(tmp_path.glob("*.so"))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompileError, match=r"no C compiler\n  try: install gcc or clang"):
        native.library(ONE, tmp_path)


def test_every_op_in_c_says_what_numpy_says():
    made = compiled(tuple(OPS.values()))
    for op in OPS.values():
        check_c(op, made=made)


# the largest errors that functions.h states, relative to the value, and the range in which they are looked for
FUNCTIONS = {
    "exp": (np.exp, -87.3, 88.72), "exp2": (np.exp2, -125.99, 127.99), "log": (np.log, 1e-37, 1e38), "log1p": (np.log1p, -0.9999, 1e30),
    "expm1": (np.expm1, -80.0, 88.0), "tanh": (np.tanh, -12.0, 12.0), "erf": (None, -5.0, 5.0),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_of_functions_are_as_stated(name):
    meaning, low, high = FUNCTIONS[name]
    stated = float(re.search(rf"^// {name}\b.*?: ([\d.e-]+) of the value", header(), re.MULTILINE)[1])
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(np.log(1e-30), np.log(high), 300_000)) * (np.sign(rng.standard_normal(300_000)) if low < 0 else 1)
    x = np.concatenate([rng.uniform(low, min(high, 1e3), 300_000), np.clip(sizes, low, high)]).astype(np.float32)
    y = np.empty_like(x)
    made = compiled(tuple(OPS[n] for n in FUNCTIONS))
    made[f"op_{name}_float"](ctypes.c_int64(x.size), ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data))
    exact = (meaning or OPS["erf"].numpy)(x.astype(np.float64))
    error = np.abs(y - exact) / np.maximum(np.abs(exact), 1.2e-38)
    assert error.max() < stated


def test_sixteen_bits_round_as_numpy_does():
    text = """
void f16(int64_t n, const uint16_t *a, float *b, const float *c, uint16_t *d) {
  for (int64_t i = 0; i < 65536; i++) b[i] = eq_from_f16(a[i]);
  for (int64_t i = 0; i < n; i++) d[i] = eq_to_f16(c[i]);
}"""
    made = native.library(header() + text)
    a = np.arange(65536, dtype=np.uint16)
    b = np.empty(65536, np.float32)
    halves = a.view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        between = [halves, *(np.nextafter((halves[:-1] + halves[1:]) / 2, np.float32(t)) for t in (-np.inf, 0, np.inf))]
        between += [(halves[:-1] + halves[1:]) / 2, np.array([1e38, -1e-38, 65519.9, 65520.0], np.float32)]
    c = np.concatenate(between).astype(np.float32)
    d = np.empty(c.size, np.uint16)
    made.f16(ctypes.c_int64(c.size), *(ctypes.c_void_p(x.ctypes.data) for x in (a, b, c, d)))
    np.testing.assert_array_equal(b, halves)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(d.view(np.float16), c.astype(np.float16))


def test_the_sums_of_the_micro_kernel_stay_in_registers(tmp_path):
    """A compiler that spills them costs half the speed; one that finds no registers for the tallest kernel may save it on entry."""
    if not shutil.which("objdump"):
        pytest.skip("there is no objdump")
    source = header() + header("products.h") + "void use(float *x) { eq_product_f32(64, 64, 64, x, 64, 1, x, 64, 1, 0, x, 64, 0, x); }"
    (tmp_path / "k.c").write_text(source)
    command = [native.compiler(), *FLAGS, *ATTEMPTS[0], "-o", tmp_path / "k.so", tmp_path / "k.c", "-lm"]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("the compiler takes other flags")
    text = subprocess.run(["objdump", "-d", tmp_path / "k.so"], capture_output=True, text=True, check=True).stdout
    kernels = re.findall(r"<(eq_micro_\d+)[^>]*>:\n(.*?)\n\n", text, re.DOTALL)
    assert kernels
    for name, body in kernels:
        products = [k for k, line in enumerate(body.splitlines()) if "vfmadd" in line or "fmla" in line]
        inner = body.splitlines()[products[0] : products[-1]] if products else []
        assert not any("(%rsp)" in line or "(%rbp)" in line or "[sp" in line for line in inner), name
