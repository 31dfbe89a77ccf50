"""The day of a GPU, prepared.

    python -m benchmarks.device write FOLDER [--target h100] [--only WORD ...] [--no-static] [--random 1000]
                                                            here: half an hour; goes on where it was cut short
    python -m benchmarks.device run FOLDER [--minutes 25]   there; the same as `cd FOLDER; python -m there`
    python -m benchmarks.device fit FOLDER/results.json     here: constants, rank correlation, regret; also of a file of keep
    python -m benchmarks.device keep FOLDER ...             here: what they found, into benchmarks/results
    python -m benchmarks.device predict FOLDER --write      here: the prediction, into benchmarks/NOTES.md

The folder needs torch (2.11), triton (3.6) and Python 3.11 or later, not this package.  Correctness comes first: kernels that are not right
there are not timed.
"""

import argparse
import subprocess
import sys
from pathlib import Path


def main():
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device", description=__doc__, formatter_class=plain)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("write")
    one.add_argument("folder", type=Path)
    one.add_argument("--target", default="h100")
    one.add_argument("--only", nargs="*", default=[], metavar="WORD", help="cases whose names have one of these")
    one.add_argument("--no-static", action="store_true", help="without the times by machine code, which take most of the time")
    one.add_argument("--random", type=int, default=1000, metavar="N", help="seeds of random programs (default %(default)s)")
    one = commands.add_parser("run")
    one.add_argument("folder", type=Path)
    one.add_argument("rest", nargs=argparse.REMAINDER)
    one = commands.add_parser("fit")
    one.add_argument("results", type=Path)
    one = commands.add_parser("keep")
    one.add_argument("folders", type=Path, nargs="+")
    one.add_argument("--also", type=Path, nargs="*", default=[], metavar="FILE", help="numbers by name, measured beside them")
    one = commands.add_parser("predict")
    one.add_argument("folder", type=Path)
    one.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.command == "write":
        from .write import write

        return 1 if write(options.folder, options.target, options.only, not options.no_static, options.random) else 0
    if options.command == "run":
        return subprocess.call([sys.executable, "-m", "there", *options.rest], cwd=options.folder)
    if options.command == "fit":
        from .fit import fit

        return fit(options.results)
    if options.command == "keep":
        from .keep import keep

        return keep(options.folders, options.also)
    from .predict import predict

    return predict(options.folder, options.write)


if __name__ == "__main__":
    raise SystemExit(main())
