"""The day of a GPU without one: a folder is written, its kernels run in Triton's interpreter by torch and triton alone, and the outcome read."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def package():
    """The modules of benchmarks/device, which are no part of the installed package."""
    sys.path.insert(0, str(ROOT))
    try:
        from benchmarks.device import drawn, fit, predict, write
        from benchmarks.device.there import operators

        yield {"drawn": drawn, "fit": fit, "predict": predict, "write": write, "operators": operators}
    finally:
        sys.path.remove(str(ROOT))


def test_a_folder_is_written_run_and_read(package, tmp_path, capsys):
    write, predict = package["write"].write, package["predict"]
    words = ["corpus layernorm", "corpus logsumexp", "gqa_decode 128", "kind decode: ALiBi", "tiles rms norm 4096 x 8192 3"]
    assert write(tmp_path, "h100", words, static=False, random_programs=2) == 0
    before = (tmp_path / "manifest.json").read_text()
    assert write(tmp_path, "h100", ["gqa_decode 128"], static=False) == 0
    assert (tmp_path / "manifest.json").read_text() == before, "what is there is kept"
    wrong, breaks = (tmp_path / "kernels" / f"corpus_{name}_small.py" for name in ("layernorm", "logsumexp"))
    changed = wrong.read_text().replace("tl.rsqrt", "0.9 * tl.rsqrt")
    assert changed != wrong.read_text()
    wrong.write_text(changed)
    breaks.write_text("import os\n\nos._exit(9)\n")  # as a kernel that takes the device with it
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "eqfuse.py").write_text("raise ImportError\n")  # as where it is not installed
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "alone")}
    command = [sys.executable, "-m", "there", "--interpret"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=1500)
    assert done.returncode == 1, done.stdout + done.stderr
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    drawn = {c["name"] for c in json.loads(before)["cases"] if c["source"] == "data"}
    assert len(drawn) == 4 and all(rows[n]["check"]["small"][0]["ok"] for n in drawn), done.stdout
    assert {n for n, r in rows.items() if "time" in r} == {"kind decode: ALiBi", "gqa_decode 128"}, (
        "nothing is predicted of random programs"
    )
    assert "by Triton alone" in done.stdout
    assert "WRONG" in done.stdout and "its process ended (9)" in str(rows["corpus logsumexp"]["check"])
    assert {"ours", "eager", "sdpa math"} == set(rows["gqa_decode 128"]["time"])
    kernel = next(c for c in json.loads(before)["cases"] if c["source"] == "kernel")
    assert kernel["like"] in kernel["files"]["bench"]["file"] and (tmp_path / kernel["like"]).exists()
    again = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=1500)
    assert again.returncode == 1 and " s  " not in again.stdout, "nothing is left to do"
    capsys.readouterr()
    assert package["fit"].fit(tmp_path / "results.json") == 1 and "too few" in capsys.readouterr().out
    assert "| gqa_decode | " in predict.tables(json.loads(before))


def test_a_dry_run_is_interpreted_with_repairs(package, tmp_path):
    """Products of bfloat16 (500011, 500062) and a condition on scalars (500103): Triton's own interpreter has them wrong or not at all."""
    folder = package["write"].Writer(tmp_path, "h100", static=False)
    for seed in (500011, 500062, 500103):
        for one in package["drawn"].drawn("h100", 1, seed):
            folder.draw(one)
    done = subprocess.run(
        [sys.executable, "-m", "there", "--interpret"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=1500
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 of 6 right, 0 timed" in done.stdout


def test_constants_are_found_again(package):
    fit = package["fit"]
    rows = [
        {"floors": {"device memory": 10.0 * k, "issue": 100.0 / k}, "launches": 1, "static_us": 12.0 * k + 120.0 / k} for k in range(1, 9)
    ]
    truth = (0.9, 0.8, 4.0)
    for r in rows:
        r["us"] = fit.predicted(r, truth)
    assert fit.fitted(rows) == truth
    us = [r["us"] for r in rows]
    assert fit.regret(us, us) == 1.0
    assert fit.regret(us, [-x for x in us]) > 1.5


def test_every_operator_is_what_sdpa_computes(package):
    torch, operators = pytest.importorskip("torch"), package["operators"]
    g = torch.Generator().manual_seed(0)
    for name in operators.NAMES:
        heads = {"gqa": (4, 2), "softcap": (4, 2), "window": (4, 1)}.get(name.split("_")[0], (2, 2))
        given = [torch.randn(s, generator=g, dtype=torch.float64) for s in operators.shapes(name, 33, heads)]
        whole = operators.operator(name)(*given)
        assert whole.shape == given[0].shape
        if name.endswith("prefill"):
            rows = torch.tensor([0, 7, 32])
            some = operators.operator(name)(given[0][:, :, rows], *given[1:], rows=rows)
            assert torch.allclose(some, whole[:, :, rows], atol=1e-12), name
        if "softcap" not in name:
            assert torch.allclose(whole, operators.scaled_dot_product(name)(*given), atol=1e-12), name


def test_the_window_is_counted_as_it_is_seen(package):
    operators = package["operators"]
    seen = sum(min(i + 1, operators.WINDOW) for i in range(8192))
    assert operators.work("window_prefill", 8192) == 4 * operators.DEPTH * 32 * seen
    assert operators.work("window_prefill", 512) == operators.work("causal_prefill", 512) == 4 * operators.DEPTH * 32 * 512 * 513 // 2
