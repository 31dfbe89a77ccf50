"""The hand-made kernels are shared by the tests of lowering and of printing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tiles"))
