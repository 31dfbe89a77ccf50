"""Placements across devices: what is moved by the chosen one and by others, for 2, 4 and 8 devices.  Modelled; no device is needed.

    python benchmarks/placements.py                  all cases: about ten minutes of CPU time
    python benchmarks/placements.py --brief          two devices, without alternatives
    python benchmarks/placements.py --save           also write benchmarks/results/DATE-placements.json

Cases: a Llama-3-8B layer of 2048 tokens with its weights in columns and then rows, as tensor parallelism has them, in columns alone, in
rows alone, wherever is best if each is spread somewhere, and whole with the tokens spread; attention of four queries a head over 32768
keys that are spread, sixteen times; a cross-entropy with the vocabulary spread.  Bytes are those that one device sends.
"""

import argparse
import json
import time
from collections import Counter
from pathlib import Path

import torch
from host import commit, host

from eqfuse.distributed.alternatives import alternatives
from eqfuse.distributed.choice import Allowed, Space
from eqfuse.distributed.forms import forms
from eqfuse.distributed.mesh import REPLICATED, Mesh
from eqfuse.distributed.search import search
from eqfuse.extract.targets import load_target
from eqfuse.frontends import TensorSpec, trace
from eqfuse.planning import Request, run
from eqfuse.testing.models import MODELS

RESULTS = Path(__file__).resolve().parent / "results"
DEVICES, TARGET, SECONDS = (2, 4, 8), "h100", 20.0

WEIGHTS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "o_proj", "down_proj")
ROWS = ("o_proj", "down_proj")  # of which tensor parallelism spreads the other dimension


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v


def cross_entropy(x, w, target):
    logs = torch.log_softmax((x @ w.T).float(), -1)
    chosen = torch.arange(w.shape[0])[None] == target[:, None]
    return -torch.where(chosen, logs, 0.0).sum(-1).mean()


def is_weight(name):
    return any(name.endswith(f"{w}_weight") for w in WEIGHTS)


def weights(way):
    """Where inputs of the layer are."""

    def place(i, mesh):
        if not is_weight(i.name):
            return [(i.layout[1],)] if way == "whole, tokens spread" and i.name == "hidden" else [(REPLICATED,)]
        if way == "wherever is best":
            return [p for p in mesh.places(i.axes) if p != (REPLICATED,)]
        if way == "whole, tokens spread":
            return [(REPLICATED,)]
        row = way == "rows" or (way == "columns, then rows" and any(i.name.endswith(f"{w}_weight") for w in ROWS))
        return [(i.layout[int(row)],)]

    return place


def only(**dims):
    """These inputs are spread along a dimension, the others everywhere."""
    return lambda i, mesh: [(i.layout[dims[i.name]],) if i.name in dims else (REPLICATED,)]


def cases():
    """Name, program, where inputs are."""
    model = MODELS["llama"]
    layer = trace(model.module("bench"), model.args("bench")).program
    for way in ("columns, then rows", "columns", "rows", "wherever is best", "whole, tokens spread"):
        yield f"Llama layer, weights {way}", layer, weights(way)
    half = torch.bfloat16
    keys = TensorSpec((16, 8, 32768, 128), half)
    yield "attention, keys spread", trace(attention, (TensorSpec((16, 8, 4, 128), half), keys, keys)).program, only(k=2, v=2)
    specs = TensorSpec((2048, 4096), half), TensorSpec((128256, 4096), half), TensorSpec((2048,), torch.int64)
    yield "cross-entropy, vocabulary spread", trace(cross_entropy, specs).program, only(w=0)


def kernels_us(programs):
    """The modelled time of the kernels that are planned for programs, one after the other."""
    return round(sum(run(Request(p, None, None, load_target(TARGET))).plan.estimated_us for p in programs), 1)


def measured(name, program, place, devices, others):
    """One row: the result wherever it costs least, and everywhere."""
    mesh, start = Mesh.of(devices), time.process_time()
    found = forms(program, mesh)
    space = Space(found, mesh, load_target(TARGET))
    inputs = {i.name: place(i, mesh) for i in program.inputs}
    everywhere = {o.name: [(REPLICATED,)] for o in program.outputs}
    row = {"case": name, "devices": devices, "choices": []}
    for wanted, outputs in (("anywhere", {}), ("everywhere", everywhere)):
        allowed = Allowed(inputs, outputs)
        plan = search(space, allowed, SECONDS)
        chosen = plan.chosen
        row["choices"].append({
            "result": wanted,
            "bytes": plan.bytes,
            "collectives": dict(Counter(s.kind for m in plan.moves for _, s in m.steps if s.kind != "slice")),
            "moving_us": round(chosen.moving_us, 1),
            "stored_bytes": plan.stored_bytes,
            "us": round(plan.us, 1),
            "optimal": plan.proved,
            "merged": any(m.member is not None and space.forms.members[c][m.member].rule for ((c, _), _), m in chosen.made.items()),
            "places": {name: mesh.text(t.place) for name, t in plan.tensors.items() if is_weight(name)},
        })  # fmt: skip
        print(f"{name}, {devices} devices, result {wanted}: {row['choices'][-1]}", flush=True)
    if others:
        row["kernels_us"] = kernels_us(step.program for step in plan.locals)
        row["alternatives"] = [
            {"what": a.description, "bytes": a.bytes, "moving_us": round(a.moving_us, 1), "us": round(a.us, 1)}
            for a in alternatives(space, Allowed(inputs, everywhere), chosen, SECONDS)
        ]
        for a in row["alternatives"]:
            print(f"    {a}", flush=True)
    row["cpu_seconds"] = round(time.process_time() - start, 1)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brief", action="store_true", help="two devices, without alternatives")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/DATE-placements.json")
    args = parser.parse_args()
    rows = [measured(*case, n, not args.brief) for case in cases() for n in ((2,) if args.brief else DEVICES)]
    programs = {name.partition(",")[0]: program for name, program, _ in cases()}
    alone = {} if args.brief else {name: kernels_us([program]) for name, program in programs.items()}
    result = {"environment": {**host("torch"), "commit": commit()}, "target": TARGET, "rows": rows, "one_device_kernels_us": alone}
    if args.save:
        path = RESULTS / f"{result['environment']['date'][:10]}-placements.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
        print(path)


if __name__ == "__main__":
    main()
