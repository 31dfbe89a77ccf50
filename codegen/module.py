"""A standalone Python module from lowered kernels: the Triton functions and a host function ``run`` (:mod:`.host`).

The module needs only torch and triton, and the modules of outside implementations if the plan calls any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..tiles.names import identifier
from .host import HOST_HELPERS, host, imported
from .joint import Joint
from .sizes import ModuleSpec
from .triton import helpers, print_kernel


def emit_module(spec: ModuleSpec) -> str:
    """The module as text."""
    return with_host(emit_kernels(spec), spec)


def emit_kernels(spec: ModuleSpec) -> str:
    """The module without its host function."""
    names = [identifier(k.name) for k in spec.kernels]
    joint = [Joint(ks) for ks in spec.launched if len(ks) > 1]
    names += [j.name for j in joint]
    assert len(set(names)) == len(names), f"kernel names must differ: {names}"
    parts = [_docstring(spec), _imports(spec)]
    prelude = helpers(spec.kernels)
    if prelude:
        parts.append(prelude)
    members = {k.name for j in joint for k in j.members}
    parts += [print_kernel(k, member=k.name in members).rstrip("\n") for k in spec.kernels]
    return _joined([*parts, *(j.text for j in joint)])


def with_host(kernels: str, spec: ModuleSpec) -> str:
    """The module of these kernels."""
    return with_hosts(kernels, [host(spec)])


def with_hosts(kernels: str, hosts: Sequence[str]) -> str:
    """The module of these kernels and functions that launch them."""
    return _joined([kernels, HOST_HELPERS, *hosts])


def _joined(parts: Iterable[str]) -> str:
    return "\n\n\n".join(p.strip("\n") for p in parts) + "\n"


_IMPORTS = """
import torch
import triton
import triton.language as tl
"""


def _imports(spec: ModuleSpec) -> str:
    """The imports, those of outside implementations included."""
    names = imported(spec)
    mathematics = "import math\n" if any(p.divides for k in spec.kernels for p in k.parameters) else ""
    return mathematics + _IMPORTS + "".join(f"from {module} import {name} as {names[module, name]}\n" for module, name in names)


def _docstring(spec: ModuleSpec) -> str:
    text = (spec.header or spec.name).replace("\\", "\\\\").replace('"""', "'''").strip("\n")
    return f'"""{text}\n"""' if "\n" in text else f'"""{text}"""'
