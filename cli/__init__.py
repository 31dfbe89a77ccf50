"""The command line: ``eqfuse optimize | explain | price | rules | extract | targets | demo``.

Heavy libraries are imported inside the commands, so that ``--help`` and usage errors answer at once.
Exit codes: 0 done, 1 an :class:`~eqfuse.errors.EqFuseError` or a failed check, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ..errors import EqFuseError
from .parser import parser
from .programs import UsageError

__all__ = ["main", "parser"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    args = parser().parse_args(argv)
    try:
        return args.run(args)
    except UsageError as e:
        print(f"eqfuse: {e}", file=sys.stderr)
        return 2
    except EqFuseError as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("eqfuse: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `eqfuse rules | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
