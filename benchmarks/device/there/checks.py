"""Whether kernels are right: against the program in float64 on the device, at most twice as far off as the program in its own types, or
some units in the last place (docs/numerics.md).  A kernel by itself, which is part of a program, is compared with another that should make
the same; a random program, which comes with its data, with the results that it comes with."""

import importlib
import importlib.util
from pathlib import Path

import numpy
import torch

FOLDER = Path(__file__).resolve().parent.parent
ROWS = 64  # queries of an operator that are compared where all would need too much memory
ALL = 1024  # queries up to which all are
FACTOR = 2.0
UNITS = {torch.float32: 4}  # in the last place, which are allowed: in float32 sums of any order are off by some; 16 bits are rounded once
LIKE = 8 * torch.finfo(torch.float16).eps  # of two kernels that should make the same: of the largest element


def module(folder, file):
    """A module of kernels."""
    path = Path(folder, file)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def program(case):
    """The function that the kernels were made of, in torch."""
    from . import operators

    if case["source"] == "operators":
        return operators.operator(case["program"])
    if case["source"] == "kinds":
        return _kind(case).fn
    return importlib.import_module(f"{__package__}.programs").PROGRAMS[case["program"]].fn


def _kind(case):
    from . import decode  # noqa: F401  # adds its kinds
    from .kinds import KINDS

    return KINDS[case["program"]]


def _data(case, size):
    return numpy.load(FOLDER / case["files"][size]["arguments"], allow_pickle=False)


def drawn(case, size, device, seed=0):
    """Tensors as they are described, drawn on the device; a random program's are given."""
    arguments = case["files"][size]["arguments"]
    if case["source"] == "data":
        with _data(case, size) as data:
            return [torch.from_numpy(data[f"given_{n}"]).to(device, getattr(torch, kind)) for n, kind in enumerate(case["dtypes"])]
    if isinstance(arguments, str):
        return list(_kind(case).args(arguments, seed, device))
    random = torch.Generator(device).manual_seed(seed)

    def one(a):
        if a["labels"]:
            return torch.randint(0, a["labels"], a["shape"], generator=random, device=device)
        return torch.randn(a["shape"], generator=random, device=device).mul_(a["scale"]).add_(a["offset"]).to(getattr(torch, a["dtype"]))

    return [one(a) for a in arguments]


def listed(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


def errors(found, exact):
    """The largest error over the largest exact value where both are finite, and the elements where just one of them is."""
    finite = torch.isfinite(exact)
    lost = int((finite != torch.isfinite(found)).sum())
    off = torch.where(finite, found.to(exact.dtype) - exact, 0.0).nan_to_num_(0.0, 0.0, 0.0).abs_().max().item() if exact.numel() else 0.0
    return off / (torch.where(finite, exact, 0.0).abs_().max().item() or 1.0 if exact.numel() else 1.0), lost


def _alike(mine, other):
    off, lost = errors(mine.float(), other.float())
    return {"ours": off, "eager": 0.0, "lost": lost, "ok": bool(off <= LIKE and lost == 0 and torch.isfinite(other).all())}


def _as_expected(case, size, folder, device):
    given = drawn(case, size, device)
    with _data(case, size) as data:
        results = [torch.from_numpy(data[f"exact_{n}"]).to(device) for n in range(len(case["allowed"]))]
    found = []
    for mine, exact, allowed in zip(listed(module(folder, case["files"][size]["file"]).run(*given)), results, case["allowed"], strict=True):
        finite = torch.isfinite(exact)
        mine, exact = mine.double().reshape(exact.shape)[finite], exact[finite].double()
        lost = int((~torch.isfinite(mine)).sum())
        off = ((mine - exact).abs().max() / (exact.abs().max() + 1e-3)).item() if exact.numel() else 0.0
        found.append({"ours": off, "eager": 0.0, "lost": lost, "ok": lost == 0 and off <= allowed})
    return found


def check(case, size, folder, device):
    """The errors of each output, ours and the program's in its own types, and whether ours are good enough.  Memory that a kernel should
    write and does not is NaN."""
    if case["source"] == "data":
        return _as_expected(case, size, folder, device)
    given = drawn(case, size, device)
    run = module(folder, case["files"][size]["file"]).run
    torch.use_deterministic_algorithms(True)  # fills what torch.empty() gives
    try:
        ours = listed(run(*given))
        if case["source"] == "kernel":
            return [_alike(a, b) for a, b in zip(ours, listed(module(folder, case["like"]).run(*given)), strict=True)]
    finally:
        torch.use_deterministic_algorithms(False)
    fn, options = program(case), {}
    if case["source"] == "operators" and given[0].shape[-2] > ALL:
        n = given[0].shape[-2]
        rows = torch.cat([torch.tensor([0, n - 1]), torch.randint(n, (ROWS - 2,), generator=torch.Generator().manual_seed(1))]).to(device)
        options = {"rows": rows}
        given[0] = given[0][:, :, rows]
        ours = [o[:, :, rows] for o in ours]
    usual = listed(fn(*given, **options))
    exact = listed(fn(*(a.double() if a.is_floating_point() else a for a in given), **options))
    found = []
    for mine, theirs, right in zip(ours, usual, exact, strict=True):
        if not right.is_floating_point():
            found.append({"ours": float((mine != right).sum()), "eager": 0.0, "lost": 0, "ok": bool((mine == right).all())})
            continue
        (off, lost), (eager, eager_lost) = errors(mine, right), errors(theirs, right)
        bar = max(FACTOR * eager, UNITS.get(mine.dtype, 1) * torch.finfo(mine.dtype).eps)
        good = mine.shape == right.shape and off <= bar and lost <= eager_lost
        found.append({"ours": off, "eager": eager, "lost": lost, "ok": good})
    return found
