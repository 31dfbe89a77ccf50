"""The host function of a module: checks, allocations, launches in order.

``run`` takes the inputs in argument order, checks that they are on one GPU and what the plan is valid for, allocates outputs and
temporaries, launches the kernels and returns a tuple of outputs.  Sizes and strides are read from the tensors, so inputs may have any
memory layout, and any shape that the conditions allow (:mod:`.sizes`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..ir.program import Result
from ..tiles.finish.offsets import last_lanes
from ..tiles.finish.parameters import LARGEST
from ..tiles.kernel import Buffer
from ..tiles.names import identifier
from ..tiles.outside import Operand, OutsideCall
from ..tiles.program import Load, Param, Store, TileProgram
from .joint import Joint
from .sizes import Dimension, ModuleSpec, Sizes, accesses, guards
from .text import torch_name, wrap


def host(spec: ModuleSpec, called: str = "run") -> str:
    """The function ``run``: checks, allocations and launches, without the helpers that are the same in every module."""
    return spec.language.host(spec, called) if spec.language else Host(spec, called).text()


def function(name: str, arguments: Sequence[str], summary: str, lines: Iterable[str]) -> str:
    """A function of the module as text."""
    return "\n".join([f"def {name}({', '.join(arguments)}):", f'    """{summary}"""', *(f"    {line}" if line else line for line in lines)])


def imported(spec: ModuleSpec) -> dict[tuple[str, str], str]:
    """A name of its own for every entry: modules may use the same one."""
    found: dict[tuple[str, str], str] = {}
    for _, call in spec.calls:
        if call.entry not in found:
            name = f"_outside_{call.entry[1]}"
            while name in found.values():
                name += "_"
            found[call.entry] = name
    return found


HOST_HELPERS = '''
def _check_tensor(name, tensor, dtype, dims):
    """Raise ValueError unless ``tensor`` has the element type and the number of dimensions that the kernels expect."""
    if tensor.dtype != dtype or tensor.dim() != dims:
        raise ValueError(f"{name} must be a {dims}-dimensional tensor of {dtype}, not {tensor.dim()}-dimensional of {tensor.dtype}")


def _check_device(name, tensor, device, kernel):
    """Raise ValueError for a tensor on another device than the first one, or on the CPU unless Triton interprets its kernels."""
    if tensor.device != device:
        raise ValueError(f"{name} is on {tensor.device}, the first argument that is used is on {device}; move them to one GPU")
    if device.type in ("cpu", "meta") and isinstance(kernel, triton.JITFunction):
        raise ValueError(f"{name} is on {device}: these are Triton kernels, which need tensors on a GPU; move it with .to('cuda')")


def _check_shape(name, tensor, shape):
    """Raise ValueError unless the shape fits those of the other arguments."""
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; the other arguments and the plan require {shape}")


def _check_size(axis, condition, requirement):
    """Raise ValueError unless a size is one that the kernels were planned for."""
    if not condition:
        raise ValueError(f"the kernels were planned for {axis} {requirement}; optimize again for this shape")


def _check_reach(name, strides, last):
    """Raise ValueError unless 32 bits hold the offset from a tile's first lane to the last, so far away along each dimension."""
    if sum(n * s for n, s in zip(last, strides)) >= 2**31:
        raise ValueError(f"{name} has strides {strides}: a tile of it would span 2**31 elements; optimize again for this shape")


def _readable(name, tensor, last):
    """The tensor as kernels can read it, copied if need be: with signs in its memory, and so that ``_check_reach`` passes."""
    tensor = tensor.resolve_neg()
    if sum(n * s for n, s in zip(last, tensor.stride())) >= 2**31:
        tensor = tensor.contiguous()
        _check_reach(name, tensor.stride(), last)
    return tensor


def _grid(programs):
    """The launch grid of a kernel."""
    if programs >= 2**31:
        raise ValueError(f"{programs} programs are more than a GPU can launch; pass the tensors in parts")
    return (programs,)
'''


BLOCK_HELPER = '''
def _block(tensor, shape):
    """A descriptor of blocks of the tensor; None, and kernels load by pointers, if its memory does not allow one."""
    lines = [s * tensor.element_size() for s in tensor.stride()[:-1]]
    aligned = tensor.data_ptr() % 16 == 0 and tensor.stride(-1) == 1 and all(s > 0 and s % 16 == 0 for s in lines)
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), list(shape)) if aligned and tensor.numel() else None
'''


def helpers_of(spec: ModuleSpec) -> str:
    """The functions that hosts call."""
    return HOST_HELPERS + ("\n" + BLOCK_HELPER if described(spec) else "")


def described(spec: ModuleSpec) -> bool:
    """Whether kernels take tensor descriptors."""
    return any(p.kind == "descriptor" for k in spec.kernels for p in k.parameters)


def _last_lanes(spec: ModuleSpec) -> dict[str, tuple[int, ...]]:
    """For each buffer of kernels and each of its dimensions, how far the last lane of a tile is from the first; 0 for 64-bit offsets."""
    found: dict[str, tuple[int, ...]] = {}
    for k in spec.kernels:
        for s in k.statements():
            if isinstance(s, Load | Store):
                name, last = s.access.buffer, last_lanes(k.kernel, s.access)
                if s.access.wide:
                    last = (0,) * len(last)
                found[name] = tuple(map(max, last, found.get(name, last)))
    return found


def _reads(step: tuple[TileProgram, ...] | OutsideCall) -> set[str]:
    """The buffers that a launch or a call reads."""
    if isinstance(step, OutsideCall):
        return {o.buffer.name for o in step.reads}
    return {s.access.buffer for k in step for s in k.statements() if isinstance(s, Load)}


class Host:
    """The host function, for Triton's kernels; what those of another language need otherwise is a method."""

    def __init__(self, spec: ModuleSpec, called: str) -> None:
        self.spec, self.sizes, self.called = spec, Sizes(spec), called
        self.lines: list[str] = []
        self.imported = imported(spec)
        tensors = (b.name for b in (*spec.inputs, *spec.temporaries, *spec.outputs))
        results = (r.name for r in spec.results if len(r.outputs) > 1)
        self.argument = variables([spec], (*tensors, *results), self.sizes.names.values())
        accessed = {name for name, _ in accesses(spec)}
        self.used = [b for b in spec.inputs if b.name in accessed]
        self.first = self.argument[(self.used or [*spec.inputs])[0].name] if spec.inputs else None  # all are on its device
        self.last = _last_lanes(spec)
        self.outside = {c.result.buffer.name for _, c in spec.calls}
        several = [r for r in spec.results if len(r.outputs) > 1 and self.outside.isdisjoint(r.outputs)]
        self.joined = {name: r for r in several for name in r.outputs}  # outputs that are made as views of what is returned
        self.made: set[str] = set()

    def text(self) -> str:
        self.checks()
        return function(self.called, [self.argument[b.name] for b in self.spec.inputs], self.summary(), [*self.lines, *self.body()])

    def body(self) -> Iterator[str]:
        """What follows the checks."""
        spec = self.spec
        for r in self.joined.values():
            yield from self.together(r)
        for b in spec.outputs:
            if all(b.name != i.name for i in spec.inputs) and b.name not in self.outside:
                yield from self.allocated(b)
        launches: list[str] = []
        steps: list[tuple[TileProgram, ...] | OutsideCall] = [c for before, c in spec.calls if before == 0]
        ran = 0
        for kernels in spec.launched:
            ran += len(kernels)
            steps += [kernels, *(c for before, c in spec.calls if before == ran)]
        reads = [_reads(s) for s in steps]
        for at, step in enumerate(steps):
            made = set() if isinstance(step, OutsideCall) else {r.buffer for k in step for r in k.kernel.roots}
            launches += [line for b in spec.temporaries if b.name in made for line in self.allocated(b)]
            launches += self.call(step) if isinstance(step, OutsideCall) else self.launch(step)
            later = {name for r in reads[at + 1 :] for name in r}
            done = [self.argument[b.name] for b in spec.temporaries if b.name in reads[at] and b.name not in later]
            if done and at + 1 < len(steps):  # its memory can serve the temporaries and outputs of later calls
                launches.append(f"del {', '.join(done)}")
        yield from self.launched(launches)
        yield f"return {tuple_text([self.returned(r) for r in spec.results] or [self.argument[b.name] for b in spec.outputs])}"

    @property
    def device(self) -> str:
        """Where tensors are made."""
        return f"{self.first}.device" if self.first else '"cpu"'

    def empty(self, lengths: list[str], b: Buffer) -> str:
        """A new tensor of the type of a buffer."""
        return f"torch.empty({tuple_text(lengths)}, dtype={torch_name(b.dtype)}, device={self.device})"

    def launched(self, lines: list[str]) -> list[str]:
        """Launches on the device of the arguments."""
        return [f"with torch.cuda.device_of({self.first}):", *(f"    {line}" for line in lines)] if self.first else lines

    def allocated(self, b: Buffer) -> Iterator[str]:
        """The statement that makes a buffer, and a check if its strides may become too large for its tiles."""
        name = self.argument[b.name]
        lengths = [self.sizes.of_dimension(b, d) for d in range(len(b.shape))]
        whole = self.joined.get(b.name)
        yield f"{name} = {self.empty(lengths, b) if whole is None else self.part(whole, b)}"
        last = self.last.get(b.name, ())
        if any(n and not all(x.isdigit() for x in lengths[d + 1 :]) for d, n in enumerate(last)):
            yield f'_check_reach("{name}", {name}.stride(), {last})'

    def lengths(self, r: Result, part: int) -> tuple[str, ...]:
        """The lengths of an output among the dimensions of the result that it is a part of."""
        b = next(b for b in self.spec.outputs if b.name == r.outputs[part])
        return r.flat(part, [self.sizes.of_dimension(b, d) for d in range(len(b.shape))], lambda n: calculated(n, "*"))

    def together(self, r: Result) -> Iterator[str]:
        """The statement that makes a result of which several outputs are parts."""
        if self.argument[r.name] in self.made:
            return
        self.made.add(self.argument[r.name])
        parts = [self.lengths(r, k) for k in range(len(r.outputs))]
        whole = [calculated([p[d] for p in parts], "+") if d == r.along else n for d, n in enumerate(parts[0])]
        b = next(b for b in self.spec.outputs if b.name == r.outputs[0])
        yield f"{self.argument[r.name]} = {self.empty(whole, b)}"

    def part(self, r: Result, b: Buffer) -> str:
        """An output as a view of the result that it is a part of."""
        k = r.outputs.index(b.name)
        before = [self.lengths(r, j)[r.along] for j in range(k)]
        found = f"{self.argument[r.name]}.narrow({r.along}, {calculated(before or ['0'], '+')}, {self.lengths(r, k)[r.along]})"
        d = 0
        for n in r.merges[k]:
            if n > 1:
                found += f".unflatten({d}, {tuple_text([self.sizes.of_dimension(b, d + j) for j in range(n)])})"
            d += n
        return found

    def returned(self, r: Result) -> str:
        """A result as ``run`` returns it."""
        if self.joined.get(r.outputs[0]) is r:
            return self.argument[r.name]
        return put_together(r, self.argument)

    def summary(self) -> str:
        outputs = ", ".join([r.name for r in self.spec.results] or [self.argument[b.name] for b in self.spec.outputs])
        n, m = len(self.spec.kernels), len(self.spec.calls)
        calls = f" and {m} outside call{'s' if m != 1 else ''}" if m else ""
        launches = f" in {len(self.spec.launches)} launch{'es' * (len(self.spec.launches) > 1)}" if self.spec.launches else ""
        kernels = f"{n} kernel{'s' if n != 1 else ''}{launches}"
        return f"Return the tuple ({outputs}), computed by {kernels}{calls} on the device of the arguments."

    def checks(self) -> None:
        for b in self.used:
            name = self.argument[b.name]
            self.lines.append(f'_check_tensor("{name}", {name}, {torch_name(b.dtype)}, {len(b.shape)})')
            if self.spec.kernels:
                self.lines.append(self.device_check(name))
        for r, (buffer, d) in self.sizes.source.items():
            if r in self.sizes.names:
                self.lines.append(f"{self.sizes.names[r]} = {self.argument[buffer]}.shape[{d}]")
        for r, (axis, part) in self.sizes.counted.items():
            self.lines.append(f"{self.sizes.names[r]} = {self.divided(self.sizes.of_axis(axis), part)}")
        for b in self.used:
            name = self.argument[b.name]
            shape = tuple_text([self.sizes.of_dimension(b, d) for d in range(len(b.shape))])
            self.lines.append(f'_check_shape("{name}", {name}, {shape})')
        conditions = dict.fromkeys(self.depended())
        for g in guards(self.spec):
            name = self.sizes.names[self.sizes.root(g.dimension)]
            conditions[f'_check_size("{g.axis}", {name} {g.test}, "{g.requirement}")'] = None
        self.lines += conditions
        self.lines += [self.readable(b) for b in self.used if b.name in self.last]

    def device_check(self, name: str) -> str:
        """The statement that refuses a tensor on another device."""
        return f'_check_device("{name}", {name}, {self.first}.device, {identifier(self.spec.kernels[0].name)})'

    def divided(self, length: str, part: int) -> str:
        """How many parts a length has, the last one not always whole."""
        return f"triton.cdiv({length}, {part})"

    def depended(self) -> Iterator[str]:
        """The checks of lengths that the program depends on, whatever its kernels could do."""

        def length(x: Dimension) -> tuple[str, str]:
            """What to call it, and where the host function has it."""
            r, name = self.sizes.root(x), self.argument[x[0]]
            if r in self.sizes.source and r in self.sizes.names:
                return self.sizes.axis_names[r], self.sizes.names[r]
            return (f"{name}.shape[{x[1]}]",) * 2

        for b in self.spec.inputs:
            for d in range(len(b.shape)):
                n = self.spec.fixed.get((b.name, d))
                if n is not None:
                    axis, size = length((b.name, d))
                    yield f'_check_size("{axis}", {size} == {n}, "of {n}, on which the program depends")'
        for x, y in self.spec.equal:
            (axis, size), (other, wanted) = length(x), length(y)
            yield f'_check_size("{axis}", {size} == {wanted}, "as long as {other}")'
        for x, (least, most) in self.spec.ranges:
            axis, size = length(x)
            if least > 2:
                yield f'_check_size("{axis}", {size} >= {least}, "of at least {least}, on which the program depends")'
            if most < math.inf:
                yield f'_check_size("{axis}", {size} <= {most}, "of at most {most}, on which the program depends")'

    def readable(self, b: Buffer) -> str:
        """The statement that gives kernels a tensor that they did not make."""
        name = self.argument[b.name]
        return f'{name} = _readable("{name}", {name}, {self.last[b.name]})'

    def programs(self, program: TileProgram) -> str:
        """How many programs the grid of a kernel has."""
        blocks = []
        for b in program.grid:
            n = self.sizes.of_axis(b.axis)
            blocks.append(n if b.tile == 1 else self.divided(n, b.tile))
        return " * ".join(blocks) or "1"

    def launch(self, members: tuple[TileProgram, ...]) -> Iterator[str]:
        """The launch of one kernel, or of several as one."""
        program, kernel, joint = members[0], members[0].kernel, Joint(members)
        programs = [self.programs(p) for p in members]
        name, params = (joint.name, joint.parameters) if len(members) > 1 else (identifier(program.name), program.parameters)
        counts = {p.name: n for p, n in zip(joint.counts, programs, strict=False)}
        grid = f"(min({programs[0]}, {kernel.persistent}),)" if kernel.persistent else f"_grid({programs[0]})"
        if len(members) == 1:
            yield f"{name}[{grid}]("
        else:
            yield f"{name}[_grid("
            yield from (f"    {'+ ' if at else ''}{n}" for at, n in enumerate(programs))
            yield ")]("
        for group in ("pointer", "descriptor", "int", "constexpr"):
            for line in wrap([counts.get(p.name) or self.value(p) for p in params if p.kind == group], 112):
                yield f"    {line},"
        # said in either case: the default differs between versions of Triton
        most = f" maxnreg={kernel.registers}," if kernel.registers else ""
        yield f"    num_warps={kernel.warps}, num_stages={joint.stages},{most} enable_fp_fusion={program.contracts},"
        yield ")"

    def call(self, call: OutsideCall) -> Iterator[str]:
        """The call of an outside implementation.  Its result is the buffer: a temporary in whatever memory layout it has, an output
        contiguous as those of kernels are; in the type of the buffer, as kernels cast what they store."""
        arguments = [*map(repr, call.first), *(self.seen(o) for o in call.reads), *(f"{key}={value!r}" for key, value in call.named)]
        made, buffer = call.result, call.result.buffer
        name = self.argument[buffer.name]
        yield f"{name} = {self.imported[call.entry]}({', '.join(arguments)})"
        for d, n in reversed([*enumerate(made.lengths)]):
            if n > 1:
                first = sum(made.lengths[:d])
                parts = tuple_text([self.sizes.of_axis(a) for a in made.order[first : first + n] if a is not None])
                yield f"{name} = {name}.unflatten({d}, {parts})"
        if None in made.order:
            yield f"{name} = {name}[{', '.join('0' if a is None else ':' for a in made.order)}]"
        axes = [a for a in made.order if a is not None]
        order = [axes.index(a) for a in made.dims if a is not None]
        if order != sorted(order):
            yield f"{name} = {name}.permute({', '.join(map(str, order))})"
        if None in made.dims:
            yield f"{name} = {name}[{', '.join('None' if a is None else ':' for a in made.dims)}]"
        contiguous = ".contiguous()" if any(b.name == buffer.name for b in self.spec.outputs) else ""
        yield f"{name} = {name}.to({torch_name(buffer.dtype)}){contiguous}"
        shape = tuple_text([self.sizes.of_dimension(buffer, d) for d in range(len(buffer.shape))])
        yield f'_check_shape("{name}", {name}, {shape})'
        if buffer.name in self.last:
            yield self.readable(buffer)

    def seen(self, o: Operand) -> str:
        """A buffer as a function sees it."""
        text = self.argument[o.buffer.name]
        if None in o.dims:
            text += f"[{', '.join('0' if a is None else ':' for a in o.dims)}]"
        order = list(o.permutation)
        if order != sorted(order):
            text += f".permute({', '.join(map(str, order))})"
        return text + (f"[{', '.join('None' if a is None else ':' for a in o.order)}]" if None in o.order else "")

    def value(self, p: Param) -> str:
        """The argument for one parameter."""
        if p.kind == "pointer":
            assert p.buffer is not None
            return self.argument[p.buffer]
        if p.kind == "descriptor":
            assert p.buffer is not None
            return f"_block({self.argument[p.buffer]}, {p.block})"
        if p.divides:
            return f"{p.name}=math.gcd({LARGEST}, {', '.join(map(self.value, p.divides))}).bit_length() - 1"
        if p.kind == "constexpr":
            return f"{p.name}={p.value}"
        if p.axis is not None:
            return self.sizes.of_axis(p.axis)
        assert p.buffer is not None
        return f"{self.argument[p.buffer]}.stride({p.position})"


def variables(specs: Sequence[ModuleSpec], wanted: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """A variable of a host function for every tensor, different from each other, from ``taken`` and from what the module defines."""
    helpers = re.findall(r"^def (\w+)", HOST_HELPERS + BLOCK_HELPER, re.MULTILINE)
    taken = {*taken, "math", "torch", "triton", "tl", "run", "TensorDescriptor", *helpers}
    taken |= {"ctypes", "functools", "inspect", "launch", "os", "shutil", "subprocess", "tempfile"}  # of modules with kernels in C
    for spec in specs:
        taken |= {*(identifier(k.name) for k in spec.kernels), *(Joint(ks).name for ks in spec.launched), *imported(spec).values()}
    names: dict[str, str] = {}
    for known in wanted:
        if known not in names:
            name = identifier(known)
            while name in taken:
                name += "_"
            taken.add(name)
            names[known] = name
    return names


def put_together(r: Result, named: Mapping[str, str]) -> str:
    """A result as an expression in its outputs, which are tensors of their own."""
    parts = [
        named[name] + "".join(f".flatten({d}, {d + n - 1})" for d, n in enumerate(merges) if n > 1)
        for name, merges in zip(r.outputs, r.merges, strict=True)
    ]
    return parts[0] if len(parts) == 1 else f"torch.cat({tuple_text(parts)}, {r.along})"


def calculated(numbers: Sequence[str], by: str) -> str:
    """A sum or a product in the host function."""
    if all(n.isdigit() for n in numbers):
        return str(math.prod(map(int, numbers)) if by == "*" else sum(map(int, numbers)))
    text = f" {by} ".join(numbers)
    return f"({text})" if by == "+" and len(numbers) > 1 else text


def tuple_text(items: list[str]) -> str:
    """A tuple in the host function."""
    return f"({', '.join(items)},)" if len(items) == 1 else f"({', '.join(items)})"
