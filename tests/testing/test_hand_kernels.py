"""The example kernels: correct ones pass, each planted fault is caught and named.  (The tests are those of the example itself.)"""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "test_kernels.py"

spec = importlib.util.spec_from_file_location("eqfuse_example_test_kernels", EXAMPLE)
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)

test_correct_kernels_pass = example.test_correct_kernels_pass
test_planted_faults_are_caught = example.test_planted_faults_are_caught


def test_every_planted_fault_is_listed():
    """The functions of planted.py with a fault are those that the example expects to be caught."""
    source = (EXAMPLE.parent / "kernels" / "planted.py").read_text()
    assert source.count("# fault") == len(example.FAULTY)


def test_nobody_needs_the_engine():
    """Testing kernels imports no e-graph engine, and defining strategies does not even import triton."""
    code = "\n".join([
        "import sys, eqfuse.testing",
        "from eqfuse.testing import assert_equivalent, tensors, sample",
        "assert 'triton' not in sys.modules",
        "import torch",
        "assert_equivalent(torch.sin, lambda x: x.sin(), [sample(torch.float32, (4, 4))])",
        "assert_equivalent(torch.sin, torch.Tensor.sin, [tensors(torch.float32, ('A',))], examples=3)",
        "assert not [m for m in sys.modules if m.startswith(('egglog', 'eqfuse.egraph', 'eqfuse.rewrites'))]",
    ])  # fmt: skip
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_the_page_says_what_happens(tmp_path):
    """The blocks of docs/testing.md run, and print every line that the page shows."""
    page = (EXAMPLE.parents[1] / "docs" / "testing.md").read_text()
    script = tmp_path / "testing_page.py"
    script.write_text("\n".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    shown = [line.strip() for block in re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL) for line in block.splitlines()]
    assert len(shown) >= 6
    assert not [line for line in shown if line not in done.stdout], done.stdout
