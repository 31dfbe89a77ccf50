"""The rules about verdicts are shared by the tests of decisions and of errors."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "api"))
