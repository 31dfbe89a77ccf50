"""The mutants are shared by the tests of rules and of e-graphs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "rewrites"))
