"""The oracle, the properties and the mutants are shared with benchmarks/layouts.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
