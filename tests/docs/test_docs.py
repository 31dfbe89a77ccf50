"""Documentation executes: the README's blocks at small sizes, the tour, the examples; links point at files."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
PRINTED = {"distributed", "price"}  # pages whose text blocks their code prints
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SIZE = re.compile(r"^(.*?)  # size: (\d+) -> (\d+)$", re.MULTILINE)


def small(code: str) -> str:
    """The block with the sizes that its comments name replaced: `...  # size: 4096 -> 128`."""
    return SIZE.sub(lambda m: re.sub(rf"\b{m[2]}\b", m[3], m[1]), code)


def test_sizes_are_replaced():
    assert small("x = f(1, 4096, 8)  # size: 4096 -> 128\ny = 4096") == "x = f(1, 128, 8)\ny = 4096"


def test_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "readme_blocks.py"  # a real file: tracing and error messages name lines of it
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    assert len(blocks) >= 4
    source.write_text("\n".join(map(small, blocks)))
    exec(compile(source.read_text(), str(source), "exec"), {"__name__": "readme_blocks"})
    assert (tmp_path / "attention_kernel.py").exists()
    assert capsys.readouterr().out.strip()


def test_readme_says_both_commands():
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text


def prose(path: Path) -> str:
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """What a link may name after `#`: the headings, as GitHub spells them."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


NOTED = ["README.md", *(str(p.relative_to(ROOT)) for p in PAGES), "benchmarks/README.md", "benchmarks/NOTES.md", "CHANGELOG.md"]


@pytest.mark.parametrize("page", NOTED)
def test_links_point_at_files_and_headings(page):
    path = ROOT / page
    for link in re.findall(r"\]\((?!https?://)([^)]+)\)", prose(path)):
        file, _, heading = link.partition("#")
        place = path.parent / file if file else path
        assert place.exists(), link
        assert not heading or heading in anchors(place), link


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_pages_name_only_files_that_exist(page):
    named = re.findall(r"`((?:\w+/)+(?:\w+\.(?:py|md|toml))?)`", prose(page))
    named += re.findall(r"`(\w+\.py)`", prose(page)) if page.stem == "design" else []
    assert not [n for n in named if not (ROOT / n).exists()]


def test_the_map_is_short_and_has_every_package():
    text = (ROOT / "docs" / "design.md").read_text()
    packages = [p.parent.name for p in ROOT.glob("*/__init__.py") if p.parent.name not in ("tests", "benchmarks", "examples")]
    assert len(packages) > 10
    assert not [p for p in packages if f"| `{p}/` |" not in text]
    assert len(text.encode()) <= 12_000


def test_every_decision_is_on_the_map():
    text = (ROOT / "docs" / "design.md").read_text()
    assert not [p.name for p in PAGES if p.parent.name == "decisions" and f"(decisions/{p.name})" not in text]


def test_pictures_are_what_a_run_gives(tmp_path):
    """And the value that is followed through the representations is in each of them: a line that is not there is an error."""
    page = (ROOT / "docs" / "design.md").read_text()
    blocks = re.findall(r"<!-- picture: .*?-->\n(.*?)<!-- end -->", page, re.DOTALL)
    assert run(str(ROOT / "docs" / "pictures.py"), cwd=tmp_path) == "".join(blocks)


def test_pictures_of_layouts_are_what_layouts_say(tmp_path):
    run(str(ROOT / "docs" / "layout_pictures.py"), "--check", cwd=tmp_path)


def test_the_page_of_operators_is_what_the_table_says(tmp_path):
    run(str(ROOT / "docs" / "operators_page.py"), "--check", cwd=tmp_path)


def test_the_glossary_has_every_relation():
    names = "from eqfuse.rewrites.facts import CONDITIONS; from eqfuse.rewrites.relations import RELATIONS; print(*CONDITIONS, *RELATIONS)"
    known = set(run("-c", names, cwd=ROOT).split())  # in a process of its own: other tests declare relations
    rows = re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert known and not known - set(rows)


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, *command], cwd=cwd, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("page", [p for p in PAGES if p.stem != "extending" and BLOCK.search(p.read_text())], ids=lambda p: p.stem)
def test_pages_run(page, tmp_path):
    """The python blocks of a page, one after the other, in a file of their own.  (The recipes have uses added below.)"""
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    known = tmp_path / "of_the_tree-0.dist-info"  # an older installation does not know them
    known.mkdir()
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: of_the_tree\nVersion: 0\n")
    lines = (f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in named.items()) for group, named in entries.items())
    (known / "entry_points.txt").write_text("\n".join(lines))
    (tmp_path / f"{page.stem}_page.py").write_text("\n".join(map(small, BLOCK.findall(page.read_text()))))
    out = run(str(tmp_path / f"{page.stem}_page.py"), cwd=tmp_path)
    printed = re.findall(r"^```text\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL) if page.stem in PRINTED else ()
    assert not [text for text in printed if text not in out]


def test_recipes_run(tmp_path):
    blocks = BLOCK.findall((ROOT / "docs" / "extending.md").read_text())
    use = """
import torch, eqfuse
eqfuse.testing.check_rule(factor_out_of_sum)
x = torch.randn(8, 64)
eqfuse.optimize(lambda a: torch.hypot(a, a).sum(-1), (x,), target="h200").accuracy(x).check()
"""
    (tmp_path / "recipes.py").write_text("\n".join([*blocks, use]))
    run(str(tmp_path / "recipes.py"), cwd=tmp_path)


def test_the_tour_runs(tmp_path):
    out = run(str(ROOT / "docs" / "tour.py"), cwd=tmp_path)
    assert "3 as written, 2 after factoring, 1 after repair" in out
    assert "with the planted rule: rule 'sum_of_products' joined two classes with different values" in out
    assert "The same plan: one kernel, one loop." in out


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples_run(example, tmp_path):
    assert run(str(example), cwd=tmp_path).strip()


def test_benchmark_tables_are_what_the_data_says(tmp_path):
    run(str(ROOT / "benchmarks" / "tables.py"), "--check", cwd=tmp_path)


def test_readme_kernel_is_the_golden_one():
    """Which tests/codegen compares with what optimize says.  A module's plan has one line of its own, about CPU tensors."""
    section = (ROOT / "README.md").read_text().split("<!-- kernel: start")[1].split("<!-- kernel: end -->")[0]
    golden = (ROOT / "tests" / "golden" / "h200" / "attention.py").read_text()
    (kernel,) = re.findall(r"^```py\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    (plan,) = re.findall(r"^```text\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert f"\n{kernel}" in golden
    assert [line for line in plan.splitlines() if f"{line}\n" not in golden] == [
        "  CPU tensors run the original program in torch; CUDA tensors run these kernels"
    ]


def test_what_the_readme_says_was_measured_is_in_the_data():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from readme_kernel import measured, on_cpu
    finally:
        sys.path.pop(0)
    text = (ROOT / "README.md").read_text()
    assert measured() in text
    assert on_cpu() in text


def test_the_kernel_of_the_debugging_page_is_what_is_printed():
    import torch

    import eqfuse

    def weights(x):
        return torch.exp(x - x.amax(-1, keepdim=True)).sum(-1)

    (k,) = eqfuse.optimize(weights, (torch.empty(6, 40000, device="meta"),), target="h200", memory_limit=0).plan.kernels
    assert f"```text\n{k.kernel}\n```" in (ROOT / "docs" / "debug.md").read_text()
