"""Arguments of wrong kinds: an EqFuse error with a cure at the public boundary, whatever the object is."""

import os

import pytest
import torch

import eqfuse
from eqfuse import cli
from eqfuse.errors import EqFuseError, OptionError, RuleError, TraceError

X = torch.randn(5, 7)


class Hostile:
    """Cannot be printed, compared, counted or asked for its truth."""

    def _raise(self, *_):
        raise ValueError

    __repr__ = __eq__ = __len__ = __bool__ = __iter__ = __getattr__ = _raise
    __hash__ = None


class Meters(torch.Tensor):
    @classmethod
    def __torch_function__(cls, f, kinds, args=(), kwargs=None):
        return super().__torch_function__(f, kinds, args, kwargs or {})


def rows(x):
    return torch.softmax(x, -1)


@pytest.fixture(scope="module")
def compiled():
    return eqfuse.optimize(rows, (X,), target="h200")


@pytest.mark.parametrize(
    ("args", "cure"),
    [
        (lambda: 5, "a tuple"), (lambda: {"x": X}, "kwargs={'x': x}"), (lambda: (t for t in (X,)), "a tuple"), (Hostile, "a tuple"),
        (lambda: (Hostile(),), "tensors"), (lambda: (torch.quantize_per_tensor(X, 0.1, 0, torch.qint8),), "x.dequantize()"),
        (lambda: (X.to_sparse(),), ".to_dense()"), (lambda: (X.as_subclass(Meters),), "as_subclass(torch.Tensor)"),
        (lambda: (torch.nested.nested_tensor([X, X[:2]]),), "x.to_padded_tensor(0.0)"), (lambda: (X + 1j,), "float32"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_example_arguments(args, cure):
    with pytest.raises(TraceError) as info:
        eqfuse.optimize(rows, args(), target="h200", strict=True)
    assert cure in info.value.cure


def test_a_bare_array_and_a_bare_tensor_stand_for_themselves():
    assert eqfuse.optimize(rows, X.numpy(), target="h200").program == eqfuse.optimize(rows, X, target="h200").program


def test_options():
    for options in ({"target": 5}, {"licence": Hostile()}, {"disable": [Hostile()]}, {"rules": [3]}, {"kwargs": {1: X}}):
        with pytest.raises(EqFuseError) as info:
            eqfuse.optimize(rows, (X,), **{"target": "h200", **options})
        assert info.value.cure


def test_questions(compiled):
    for ask in (
        lambda: compiled.why(1, 2), lambda: compiled.explain().why(None, "out"), lambda: compiled.compile(90), lambda: compiled.save(3),
        lambda: compiled.save("a\0.py"), lambda: compiled.save("\ud800.py"), lambda: compiled.accuracy(X, factor=Hostile()),
        lambda: compiled.simulate(X, dtype="int8"),
    ):  # fmt: skip
        with pytest.raises(OptionError) as info:
            ask()
        assert info.value.cure


@pytest.mark.parametrize("options", [{"family": {}}, {"licence": 3}, {"register": "no"}])
def test_rules(options):
    with pytest.raises(RuleError, match="try:"):
        eqfuse.rule(lambda x: (x + 0.0, x), **options)
    with pytest.raises(RuleError, match="try:"):
        eqfuse.rule(3)


def test_what_eqfuse_did_not_write_is_not_replaced(compiled, tmp_path):
    mine, link = tmp_path / "mine.py", tmp_path / "link.py"
    mine.write_text("keep = 1\n")
    link.symlink_to(mine)
    for path, why in ((mine, "overwrite=True"), (link, str(mine))):
        with pytest.raises(OptionError) as info:
            compiled.save(path)
        assert why in info.value.cure
    with pytest.raises(OptionError, match="link"):
        compiled.save(link, overwrite=True)
    assert mine.read_text() == "keep = 1\n"
    mine.chmod(0o640)
    assert compiled.source.rpartition("def run")[2] in compiled.save(mine, overwrite=True).read_text()
    assert mine.stat().st_mode & 0o777 == 0o640
    compiled.save(mine)  # a module of its own
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.py", "mine.py"]


def test_a_save_that_fails_leaves_what_was_there(compiled, tmp_path, monkeypatch):
    path = compiled.save(tmp_path / "kernel.py")
    before = path.read_text()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OptionError, match="No space left"):
        compiled.save(path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "argv", "code", "says"),
    [
        ("", ["optimize", "/etc/passwd:f"], 2, "a file whose name ends in .py"), ("", ["rules", "check", "/etc/passwd"], 2, "ends in .py"),
        ("import sys\nsys.exit(7)\n", ["optimize", "f.py:f"], 1, "f.py:2  sys.exit(7): it ends the process: sys.exit(7)"),
        ("def f(x):\n    return x * 2\n", ["optimize", "f.py:f", "--shape", "x=99999999999999999999"], 2, "below 2**63"),
    ],
)  # fmt: skip
def test_command_lines(text, argv, code, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.py").write_text(text)
    assert cli.main(argv) == code
    assert says in capsys.readouterr().err


def test_help_says_that_the_file_is_executed(capsys):
    for command in ("optimize", "explain", "rules"):
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        assert "executed" in " ".join(capsys.readouterr().out.split())
