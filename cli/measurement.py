"""The last part of ``eqfuse demo``: programs as they are written against torch's ways to run them, on the machine at hand."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.nn.functional import rms_norm, scaled_dot_product_attention

from ..runtime.measuring import Times, keep_freed_memory
from ..testing.programs import PROGRAMS, Arg
from .contest import EAGER, OURS, Contest, peers
from .tables import show_heading, show_table

SECONDS = 1.2  # of timing for each program
WIDTH = 18  # of the longest bar: a line fits 80 columns
LOST = 1e-5  # what sums of thousands of float32 numbers may lose in any order; eager's order may be lucky


def contests(device: str, scale: int = 1) -> list[Contest]:
    """Attention, causal attention, a norm, a loss, and a loss behind a linear layer: a second or less a call on two cores, and what a GPU
    has use for.  ``scale`` divides the lengths."""
    large = device == "cuda"
    heads, tokens, width = (8, 4096, 128) if large else (4, 2048, 64)
    rows, columns = (8192, 4096) if large else (4096, 2048)
    words, hidden = (32000, 4096) if large else (16000, 512)
    tokens, rows, words = max(1, tokens // scale), max(1, rows // scale), max(1, words // scale)
    few = max(1, (4096 if large else 1024) // scale)
    qkv = tuple(Arg((1, heads, tokens, width)) for _ in range(3))
    labels = Arg((few,), labels=words)

    def contest(name: str, program: str, shapes: tuple[Arg, ...], said: str, **library: Callable[..., object]) -> Contest:
        given = tuple(_drawn(a, torch.float16 if large else torch.float32, device) for a in shapes)
        shape = "x".join(map(str, shapes[0].shape)) + said
        options = PROGRAMS[program].options
        return Contest(f"{name} {shape}", PROGRAMS[program].fn, given, library, options)

    return [
        contest("attention", "attention", qkv, "", sdpa=scaled_dot_product_attention),
        contest("causal attention", "attention_causal", qkv, "",
                sdpa=lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=True)),
        contest("rms norm", "rmsnorm", (Arg((rows, columns)), Arg((columns,), offset=1.0, scale=0.1)), "",
                rms_norm=lambda x, w: rms_norm(x, x.shape[-1:], w, 1e-6)),
        contest("cross-entropy", "cross_entropy", (Arg((few, 2 * words)), Arg((few,), labels=2 * words)), ""),
        contest("linear + cross-entropy", "linear_cross_entropy", (Arg((few, hidden)), Arg((words, hidden), scale=hidden**-0.5), labels),
                f"x{words}"),
    ]  # fmt: skip


def _drawn(a: Arg, dtype: torch.dtype, device: str) -> torch.Tensor:
    random = torch.Generator(device).manual_seed(0)
    if a.labels:
        return torch.randint(0, a.labels, a.shape, generator=random, device=device)
    return torch.randn(a.shape, generator=random, device=device).mul_(a.scale).add_(a.offset).to(dtype)


def show_measurement(device: str, *, seconds: float = SECONDS, scale: int = 1) -> bool:
    """Time every program and print a table of each; whether no error of ours is beyond twice eager's, or what any order of sums may lose.

    ``device`` is "cpu" or "cuda": the same code, with the kernels for the one or the other.  It has not been run on a GPU yet.
    """
    threads = torch.get_num_threads()
    where = torch.cuda.get_device_name() if device == "cuda" else f"this CPU, {threads} thread{'s' * (threads > 1)}"
    show_heading(f"measured on {where}")
    kept = device == "cuda" or keep_freed_memory()
    tables: dict[str, list[tuple[str, ...]]] = {}
    absent: dict[str, list[str]] = {}
    right = True
    todo = contests(device, scale)
    with _progress(len(todo)) as tick:
        for at, contest in enumerate(todo):
            tick(at, f"{contest.name}: compiling")
            found = peers(contest, "auto" if device == "cuda" else "cpu")
            errors = found.errors()
            right &= errors.get(OURS, 0.0) <= max(2 * errors[EAGER], LOST)
            times = found.times(seconds=seconds, tick=lambda part, at=at, name=contest.name: tick(at + part, f"{name}: timing"))
            tables[contest.name] = list(_rows(times, errors))
            for peer, why in found.absent.items():
                absent.setdefault(f"{peer}: {why}", []).append(contest.name)
    for name, rows in tables.items():
        print(f"\n{name}")
        show_table(("run by", "ms", "quartiles", "eqfuse is", "error", ""), rows)
    print()
    for why, names in absent.items():
        print(f"not run: {why}" + ("" if len(names) == len(todo) else f" ({', '.join(names)})"))
    print("\n".join(_method(device, kept)))
    return right


def _method(device: str, kept: bool) -> Iterator[str]:
    yield "at least five calls of each, in turns, with fresh results; errors against float64, of the largest element"
    if device == "cpu":
        memory = "the process keeps what it frees" if kept else "each result costs its page faults"
        yield memory + (f"; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores" if hasattr(os, "getloadavg") else "")


def _rows(times: dict[str, Times], errors: dict[str, float]) -> Iterator[tuple[str, ...]]:
    slowest = max(t.median for t in times.values())
    ours = times.get(OURS)
    for name, t in times.items():
        low, high = t.quartiles
        bar = "█" * max(1, round(WIDTH * t.median / slowest))
        said = _compared(t.median / ours.median) if ours and name != OURS else ""
        yield name, f"{1e3 * t.median:.2f}", f"{1e3 * low:.2f}..{1e3 * high:.2f}", said, f"{errors[name]:.0e}", bar


def _compared(ratio: float) -> str:
    return f"{ratio:.2f}x faster" if ratio >= 1 else f"{1 / ratio:.2f}x slower"


@contextmanager
def _progress(total: int) -> Iterator[Callable[[float, str], None]]:
    """A bar on the terminal; the function takes how many programs are done, in parts, and what is done now."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("", total=total)
        yield lambda done, text: progress.update(task, completed=done, description=text)
