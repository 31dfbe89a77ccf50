"""A placed program on devices that are numpy arrays in one process: what a plan means, for checks of the plan.

Local programs are evaluated by the reference, or by what is to be checked; a move is done as its definition says, on the values of all
devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..ir.program import Program
from ..ir.reference import evaluate
from .mesh import PARTIAL, REPLICATED, Mesh
from .plan import Local, Placed, Spread

Devices = list[np.ndarray]  # what each device has, in the order of their numbers
Compute = Callable[[Program, Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]  # the outputs of a program from its inputs


def simulate(placed: Placed, inputs: Mapping[str, np.ndarray], compute: Compute = evaluate) -> dict[str, np.ndarray]:
    """The outputs of a program, whole, from whole inputs; ``compute`` runs the local programs.

    AssertionError where devices that have copies of an output differ.
    """
    mesh = placed.mesh
    given = {i.name for i in placed.program.inputs}
    values = {name: spread(mesh, t, np.asarray(inputs[name])) for name, t in placed.tensors.items() if name in given}
    for step in placed.steps:
        if isinstance(step, Local):
            made = [compute(step.program, _arguments(step, mesh, values, k)) for k in range(mesh.devices)]
            values |= {name: [m[name] for m in made] for name in step.makes}
        else:
            source = placed.tensors[step.source]
            found, dims = values[step.source], source.dims
            for place, _ in step.steps:
                other = Spread(step.makes, source.layout, source.dtype, place).dims
                d = next(k for k, (p, q) in enumerate(zip(dims, other, strict=True)) if p != q)
                found, dims = _moved(mesh, found, d, dims[d], other[d]), other
            values[step.makes] = found
    return {o: whole(mesh, placed.tensors[name], values[name]) for o, name in placed.outputs.items()}


def _arguments(step: Local, mesh: Mesh, values: Mapping[str, Devices], k: int) -> dict[str, np.ndarray]:
    at = list(mesh.coordinates())[k]
    found = {name: values[name][k] for name in step.reads}
    rest = step.program.inputs[len(step.reads) :]
    for i, p in zip(rest, step.positions, strict=True):
        found[i.name] = np.asarray(at[p.dimension] * (p.axis.size // mesh.sizes[p.dimension]))
    return found


def spread(mesh: Mesh, t: Spread, array: np.ndarray) -> Devices:
    """What devices have of a tensor; of a partial one unequal addends that add up to it."""
    found = []
    for at in mesh.coordinates():
        x = array
        for n, k, dim in zip(mesh.sizes, at, t.dims, strict=True):
            if isinstance(dim, int):
                x = np.split(x, n, axis=dim)[k]
            elif dim == PARTIAL:
                share = (k + 1) / (n * (n + 1) / 2)
                x = x * share if array.dtype.kind == "f" else x * (k == 0)
        found.append(x)
    return found


def whole(mesh: Mesh, t: Spread, devices: Devices) -> np.ndarray:
    """The tensor that devices have; AssertionError where copies differ."""
    dims = t.dims
    for d, dim in enumerate(dims):
        if dim != REPLICATED:
            devices = _moved(mesh, devices, d, dim, REPLICATED)
    for other in devices[1:]:
        np.testing.assert_array_equal(devices[0], other)
    return devices[0]


def _moved(mesh: Mesh, devices: Devices, d: int, before: int | str, after: int | str) -> Devices:
    """Along one dimension of the mesh, from one placement to another."""
    coordinates = list(mesh.coordinates())
    found = []
    for at in coordinates:
        group = [x for x, other in zip(devices, coordinates, strict=True) if other[:d] + other[d + 1 :] == at[:d] + at[d + 1 :]]
        if before == PARTIAL:
            value = np.sum(group, axis=0)
        else:
            value = np.concatenate(group, axis=before) if isinstance(before, int) else group[at[d]]
        found.append(np.split(value, mesh.sizes[d], axis=after)[at[d]] if isinstance(after, int) else value)
    return found
