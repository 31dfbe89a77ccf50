"""The command line: help that reads well, exit codes, messages without tracebacks."""

import json
import subprocess
import sys

import pytest

import eqfuse
from eqfuse import cli
from eqfuse.cli import programs
from eqfuse.rewrites.table import RULES

PROGRAM = """
import torch

def rows(x):
    return torch.softmax(x, dim=-1)

def two(x, y):
    return x + y

def broken(x):
    return torch.fft.fft(x)

three = 3
nameless = torch.softmax

class Block(torch.nn.Module):
    def forward(self, x):
        return x * 2

def make():
    return (torch.randn(8, 100, generator=torch.Generator().manual_seed(0)),)
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "cli_example.py"
    path.write_text(PROGRAM)
    return path


def run(capsys, *argv):
    code = cli.main([str(a) for a in argv])
    out = capsys.readouterr()
    return code, out.out, out.err


# ---- help ----------------------------------------------------------------------------------------------------------------
def test_help_shows_commands_and_examples():
    done = subprocess.run([sys.executable, "-m", "eqfuse", "--help"], capture_output=True, text=True, check=True)
    for word in ("optimize", "explain", "price", "rules", "extract", "targets", "calibrate", "cache", "demo", "examples:", "EQFUSE_DEBUG"):
        assert word in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 110


@pytest.mark.parametrize("command", ["optimize", "explain", "price", "rules", "extract", "targets", "calibrate", "cache", "demo"])
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--help"])
    assert stop.value.code == 0
    assert "usage: eqfuse " + command in capsys.readouterr().out


def test_help_loads_no_heavy_library():
    code = "import sys; from eqfuse import cli; cli.parser().format_help(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "egglog", "triton", "rich", "hypothesis", "highspy"} & set(loaded)


# ---- usage errors: exit 2, one line, no traceback -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["optimize", "nowhere.py:f", "--shape", "x=1"], "no such file"),
        (["optimize", "{file}"], "FILE:FUNCTION"),
        (["optimize", "{file}:nothing", "--shape", "x=1"], "it defines: Block, broken, make, rows, two"),
        (["optimize", "{file}:three", "--shape", "x=1"], "three is no function or nn.Module but a int"),
        (["explain", "{file}:three"], "three is no function or nn.Module but a int"),
        (["optimize", "{file}:nameless", "--shape", "x=1"], "the parameters of nameless have no names\n  try: --args"),
        (["optimize", "{file}:Block", "--shape", "x=1"], "Block is a class\n  try: an object of it in the file, such as model = Block()"),
        (["optimize", "{file}:rows", "--args", "three"], "three is no function but a int"),
        (["optimize", "{file}:rows"], "--shape or --args"),
        (["optimize", "{file}:rows", "--args", "absent"], "absent"),
        (["optimize", "{file}:rows", "--shape", "y=1,2"], "takes x"),
        (["optimize", "{file}:rows", "--shape", "x=1", "--shape", "x=2"], "twice"),
        (["optimize", "{file}:two", "--shape", "x=4,4"], "no --shape for 'y' of two(x, y) (cli_example.py:7)\n  try: --shape y=DIMS"),
        (
            ["explain", "{file}:two"],
            "the arguments of two(x, y) (cli_example.py:7) with --shape or --args\n  try: --shape x=DIMS --shape y=DIMS",
        ),
        (["optimize", "{file}:row", "--shape", "x=1"], "cli_example.py:rows"),
        (["rules", "--family", "repare"], "try: --family repair"),
        (["rules", "--name", "log_of_ex"], "try: --name "),
    ],
)
def test_usage_errors(argv, says, file, capsys):
    code, _, err = run(capsys, *(a.format(file=file) for a in argv))
    assert code == 2
    assert says in err
    assert "Traceback" not in err


def test_where_a_module_cannot_be_saved_is_known_before_planning(file, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(eqfuse, "optimize", lambda *args, **options: pytest.fail("planned first"))
    wanted = {tmp_path / "absent" / "x.py": f"mkdir -p {tmp_path / 'absent'}", tmp_path: "this is a directory"}
    for path, says in wanted.items():
        code, _, err = run(capsys, "optimize", f"{file}:rows", "--shape", "x=3,5", "--save", path)
        assert code == 2
        assert says in err
        assert "Traceback" not in err


@pytest.mark.parametrize("tokens", ["0", "-1", "many"])
def test_the_demo_needs_tokens(tokens, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["demo", "--tokens", tokens])
    assert stop.value.code == 2
    assert "no number above 0" in capsys.readouterr().err


@pytest.mark.parametrize("shape", ["q", "q=1,a", "q=1:float7", "=3", "q=1,,2"])
def test_malformed_shapes(shape, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["optimize", "x.py:f", "--shape", shape])
    assert stop.value.code == 2
    assert "--shape" in capsys.readouterr().err


def test_shapes():
    s = programs.shape_spec("q=1,32,4096,128:float16")
    assert (s.name, s.dims, s.dtype) == ("q", (1, 32, 4096, 128), "float16")
    assert programs.shape_spec("q=") == programs.Shape("q", (), "float32")
    assert programs.shape_spec("q=2,3").tensor().shape == (2, 3)
    assert programs.shape_spec("q=1000000,1000000").tensor().is_meta  # no memory for data that nobody reads


def test_shapes_are_matched_by_parameter_name():
    def f(a, b):
        return a + b

    order = programs.in_order(f, [programs.shape_spec("b=2"), programs.shape_spec("a=3")])
    assert [s.name for s in order] == ["a", "b"]


def test_reduced_keeps_equal_sizes_equal():
    import torch

    a, b = programs.reduced((torch.zeros(1, 4096, 64), torch.zeros(4096, 3)))
    assert a.shape == (1, 197, 64)
    assert b.shape == (197, 3)
    (c,) = programs.reduced((programs.shape_spec("m=4096:bool").tensor(),))
    assert set(c.tolist()) == {True, False}


# ---- errors of the program: exit 1, the class, the cure -------------------------------------------------------------------
def test_unknown_target(capsys):
    code, _, err = run(capsys, "targets", "h20")
    assert code == 1
    assert err.startswith("UnknownTargetError: ")
    assert "Traceback" not in err


def test_unsupported_operation(file, capsys):
    code, _, err = run(capsys, "optimize", f"{file}:broken", "--shape", "x=16")
    assert code == 1
    assert err.startswith("UnsupportedOpError: ")
    assert "fft" in err


# ---- commands ------------------------------------------------------------------------------------------------------------
def test_optimize_prints_every_link(file, capsys):
    code, out, _ = run(capsys, "optimize", f"{file}:rows", "--args", "make", "--source", "--check")
    assert code == 0
    for heading in ("program", "saturation", "plan", "triton", "check against float64"):
        assert f"── {heading} " in out
    assert "@triton.jit" in out


def test_optimize_json_and_save(file, tmp_path, capsys):
    saved = tmp_path / "rows_kernel.py"
    code, out, _ = run(capsys, "optimize", f"{file}:rows", "--shape", "x=8,1024:float16", "--json", "--save", saved)
    assert code == 0
    data = json.loads(out)
    assert data["plan"]["dram_bytes"] >= data["plan"]["compulsory_bytes"] == 2 * 8 * 1024 * 2
    assert len(data["plan"]["kernels"]) == 1
    assert data["saturation"]["enodes"] > 0
    assert "@triton.jit" in saved.read_text()


def test_explain(file, capsys):
    code, out, _ = run(capsys, "explain", f"{file}:rows", "--args", "make")
    assert code == 0
    assert out.strip()
    code, out, _ = run(capsys, "explain", f"{file}:rows", "--args", "make", "--json")
    assert code == 0
    json.loads(out)


def test_cache_shows_and_clears(capsys, monkeypatch, tmp_path, file):
    monkeypatch.setenv("EQFUSE_CACHE", "1")
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    for name in [r.name for r in RULES.values() if not r.builtin]:  # what another test has registered: such plans are not kept
        monkeypatch.delitem(RULES, name)
    assert run(capsys, "optimize", f"{file}:rows", "--shape", "x=8,100")[0] == 0
    code, out, _ = run(capsys, "cache", "--json")
    listed = json.loads(out)["entries"]
    assert code == 0 and {(e["program"], e["target"], e["kind"]) for e in listed} >= {("rows", "h200", "plan")}
    (tmp_path / "plans" / f"{listed[0]['name']}.plan").write_text("{}\neqfuse-2 0")
    code, out, _ = run(capsys, "cache")
    damaged = next(line.split() for line in out.splitlines() if line.startswith("?"))
    assert code == 0 and damaged[:7] == ["?", "?", "0", "0", "0", "0", "1"], "one entry is not as it was written"
    code, out, _ = run(capsys, "cache", "clear")
    assert code == 0 and f"removed {len(listed)} entries" in out
    assert json.loads(run(capsys, "cache", "--json")[1])["entries"] == []


def test_cache_that_is_switched_off_says_so(capsys, monkeypatch):
    monkeypatch.setenv("EQFUSE_CACHE", "0")
    assert "EQFUSE_CACHE=0" in run(capsys, "cache")[1]


def test_price(capsys, file):
    program = ("price", f"{file}:rows", "--args", "make")
    code, out, _ = run(capsys, *program, "--tile", "l2.rows=4", "--tile", "rows=2", "--json")
    assert code == 0
    (kernel,) = json.loads(out)
    assert [(r["level"]["name"], r["read"]) for r in kernel["levels"][:3]] == [("dram", 3200), ("l2", 3200), ("shared", None)]
    code, _, err = run(capsys, *program, "--tile", "l4.rows=2")
    assert code == 1 and "no memory of h200 is called 'l4'" in err
    with pytest.raises(SystemExit, match="2"):
        run(capsys, *program, "--tile", "rows=none")


def test_targets(capsys):
    code, out, _ = run(capsys, "targets")
    assert code == 0
    assert {"h200", "h100", "a100", "mi300x"} <= {line.split()[0] for line in out.splitlines()}
    code, out, _ = run(capsys, "targets", "h200", "--json")
    assert json.loads(out)["h200"]["arch"] == "sm_90"


def test_rules(capsys):
    code, out, _ = run(capsys, "rules")
    assert code == 0
    assert len(out.splitlines()) > 10
    code, out, _ = run(capsys, "rules", "--family", "repair", "--json")
    assert {r["family"] for r in json.loads(out)} == {"repair"}
    assert run(capsys, "rules", "--family", "nonsense")[0] == 2


def test_disabled_rules_are_marked(capsys):
    one = eqfuse.rules("algebra")[0].name
    try:
        eqfuse.disable(one)
        out = run(capsys, "rules")[1]
        marked = [line.split()[0] for line in out.splitlines() if " (disabled)" in line]
        assert marked == [one]
        shown = json.loads(run(capsys, "rules", "--json")[1])
        assert [r["name"] for r in shown if not r["enabled"]] == [one]
    finally:
        eqfuse.enable(one)


# ---- files that cannot be executed: exit 1, the line, no traceback ---------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import torch\ndef f(x, w:\n    return x\n", "SourceError: file_in_error.py:2  def f(x, w: SyntaxError: '(' was never closed"),
        ("def f(x):\n\treturn x\n        return x\n", "file_in_error.py:3  return x: TabError"),
        ("import nowhere_to_be_found\n", "file_in_error.py:1  import nowhere_to_be_found: ModuleNotFoundError"),
        ("def half():\n    return 1 / 0\n\nhalf()\n", "file_in_error.py:2  return 1 / 0: ZeroDivisionError"),
        (
            "def example_args():\n    raise ValueError('no data')\n\ndef f(x):\n    return x\n",
            "file_in_error.py:2  raise ValueError('no data')",
        ),
    ],
)
def test_a_file_that_cannot_be_executed(text, says, tmp_path, capsys):
    path = tmp_path / "file_in_error.py"
    path.write_text(text)
    for argv in (["explain", f"{path}:f"], ["optimize", f"{path}:f"], ["rules", "check", path]):
        if argv[0] == "rules" and "example_args" in text:
            continue
        code, out, err = run(capsys, *argv)
        assert code == 1
        assert says in err
        assert "\n  try: " in err
        assert len(err.splitlines()) == 2
        assert not out
