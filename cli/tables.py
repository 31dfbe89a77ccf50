"""Text on a terminal, coloured, or in a pipe, plain: headings, tables, Python."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def first_line(doc: str | None) -> str:
    """The first line of a docstring."""
    return (doc or "").strip().partition("\n")[0]


def indent(text: str) -> str:
    """Four spaces before every line."""
    return "\n".join("    " + line for line in text.splitlines())


def show_heading(title: str) -> None:
    """A rule with a title."""
    print(f"\n── {title} " + "─" * max(0, 96 - len(title)))


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; on a terminal with rich, else aligned plain text without wrapping (it may be piped)."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(*header, box=None, header_style="bold")
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        return
    widths = [max(len(r[i]) for r in (header, *rows)) for i in range(len(header))]
    for row in (header, *rows):
        print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())


def show_python(source: str) -> None:
    """Python text, coloured on a terminal."""
    if not sys.stdout.isatty():
        print(source)
        return
    from rich.console import Console
    from rich.syntax import Syntax

    Console().print(Syntax(source, "python", background_color="default", word_wrap=False))
