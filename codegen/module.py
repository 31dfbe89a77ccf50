"""A standalone Python module from lowered kernels: the Triton functions and a host function ``run`` (:mod:`.host`).

The module needs only torch and triton, and the modules of outside implementations if the plan calls any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..tiles.names import identifier
from .host import described, helpers_of, host, imported
from .joint import Joint
from .sizes import ModuleSpec
from .triton import helpers, print_kernel


def emit_module(spec: ModuleSpec) -> str:
    """The module as text."""
    return with_host(emit_kernels(spec), spec)


def emit_kernels(spec: ModuleSpec) -> str:
    """The module without its host function."""
    if spec.language is not None:
        return spec.language.kernels(spec)
    names = [identifier(k.name) for k in spec.kernels]
    joint = [Joint(ks) for ks in spec.launched if len(ks) > 1]
    names += [j.name for j in joint]
    assert len(set(names)) == len(names), f"kernel names must differ: {names}"
    parts = [docstring(spec), _imports(spec)]
    prelude = helpers(spec.kernels)
    if prelude:
        parts.append(prelude)
    members = {k.name for j in joint for k in j.members}
    parts += [print_kernel(k, member=k.name in members).rstrip("\n") for k in spec.kernels]
    return joined([*parts, *(j.text for j in joint)])


def with_host(kernels: str, spec: ModuleSpec) -> str:
    """The module of these kernels."""
    return with_hosts(kernels, [host(spec)], spec)


def with_hosts(kernels: str, hosts: Sequence[str], spec: ModuleSpec) -> str:
    """The module of these kernels and functions that launch them."""
    return joined([kernels, spec.language.helpers if spec.language else helpers_of(spec), *hosts])


def joined(parts: Iterable[str]) -> str:
    """Parts of a module, two lines apart."""
    return "\n\n\n".join(p.strip("\n") for p in parts) + "\n"


_IMPORTS = """
import torch
import triton
import triton.language as tl
"""


def _imports(spec: ModuleSpec) -> str:
    """The imports, those of outside implementations included."""
    mathematics = "import math\n" if any(p.divides for k in spec.kernels for p in k.parameters) else ""
    descriptors = "from triton.tools.tensor_descriptor import TensorDescriptor\n" if described(spec) else ""
    return mathematics + _IMPORTS + descriptors + imports_of_calls(spec)


def imports_of_calls(spec: ModuleSpec) -> str:
    """The imports of outside implementations."""
    names = imported(spec)
    return "".join(f"from {module} import {name} as {names[module, name]}\n" for module, name in names)


def docstring(spec: ModuleSpec) -> str:
    """The module's docstring."""
    text = (spec.header or spec.name).replace("\\", "\\\\").replace('"""', "'''").strip("\n")
    return f'"""{text}\n"""' if "\n" in text else f'"""{text}"""'
