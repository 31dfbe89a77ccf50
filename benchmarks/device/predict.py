"""The prediction for the day of a GPU: modelled and static times of what was written, as a table in benchmarks/NOTES.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eqfuse.extract.targets import load_target

from .there.operators import LENGTHS, NAMES

NOTES = Path(__file__).parents[1] / "NOTES.md"
BEGIN = "<!-- prediction for a GPU: begin (python -m benchmarks.device predict FOLDER --write) -->"
END = "<!-- prediction for a GPU: end -->"


def predict(folder: Path, write: bool) -> int:
    """Print the tables of a folder; ``write``: into the notes."""
    manifest = json.loads((folder / "manifest.json").read_text())
    text = tables(manifest)
    if not write:
        print(text)
        return 0
    notes = NOTES.read_text()
    first, last = notes.index(BEGIN) + len(BEGIN), notes.index(END)
    NOTES.write_text(f"{notes[:first]}\n{text}\n{notes[last:]}")
    return 0


def tables(manifest: dict[str, Any]) -> str:
    """In Markdown."""
    w = manifest["written"]
    cases = {c["name"]: c for c in manifest["cases"]}
    where = f"Target {w['target']}, commit {w['commit']}, triton {w['triton']}, {w['date'][:10]}."
    launch = load_target(w["target"]).launch_us
    for c in cases.values():
        c["whole_us"] = None if c["static_us"] is None else c["static_us"] + launch * c["launches"]
    lines = [f"{where} Microseconds, modelled / static, both with {launch} for each launch (a dash: not known).", ""]
    lengths = [n for n in LENGTHS if any(f"{name} {n}" in cases for name in NAMES)]
    if lengths:
        lines += [f"| operator | {' | '.join(map(str, lengths))} |", f"| --- |{' ---: |' * len(lengths)}"]
        lines += [f"| {name} | {' | '.join(_cell(cases.get(f'{name} {n}')) for n in lengths)} |" for name in NAMES]
        lines += [""]
    corpus = [c for c in cases.values() if c["kind"] == "corpus"]
    lines += ["| program of the corpus | modelled | static | bound by |", "| --- | ---: | ---: | --- |"]
    for c in corpus:
        bound = max(c["floors"], key=c["floors"].get) if c["floors"] else "-"
        lines.append(f"| {c['program']} | {c['modelled_us']:.1f} | {_us(c['whole_us'])} | {bound} |")
    return "\n".join(lines)


def _us(us: float | None) -> str:
    return "-" if us is None else f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def _cell(case: dict[str, Any] | None) -> str:
    return "" if case is None else f"{_us(case['modelled_us'])} / {_us(case['whole_us'])}"
