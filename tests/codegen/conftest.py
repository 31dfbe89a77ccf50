"""The hand-made kernels are shared by the tests of lowering and of printing; the golden files by their test and ``make golden``."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "tiles"), str(Path(__file__).parent)]
