"""Recent architectures of HuggingFace transformers, trained on the CPU through `torch.compile(model, backend="eqfuse")`.

    python benchmarks/architectures.py                     every architecture, with both backends
    python benchmarks/architectures.py --only Qwen,Mamba   those whose names have one of these words
    python benchmarks/architectures.py --save              write benchmarks/results/DATE-architectures.json, after every architecture

Models have one tiny layer, made of their configuration with drawn weights, and are called as by somebody who changes no option of theirs.
Five lengths follow each other, a single position and primes among them: logits, loss and the gradient of every parameter.  Then an
optimizer makes three steps, and its weights are taken.  All are compared with eager code in float64, beside eager code in float32.

Beside the results stands what compiling took: CPU seconds of the first call for each length, less those of the second, of the process and
of the compilers that it started.  Inductor's are measured alike, in turns: a process for each architecture and backend, without caches.
"""

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from host import commit, host, write

RESULTS = Path(__file__).parent / "results"
BACKENDS = ("eqfuse", "inductor")
LENGTHS = 12, 13, 1, 24, 7
STEPS, RATE = 3, 0.05
SECONDS = 600  # for one process
SMALL = 1e-3  # of the largest gradient, weight or logit of all
RIGHT = 1e-5, 10  # errors, of the largest element, that are right; or so many times eager's
VOCABULARY, WINDOW, PATCH = 101, 8, 4


def decoder(**more):
    return {
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **more,
    }  # fmt: skip


EXPERTS = {"moe_intermediate_size": 16, "num_experts_per_tok": 2}
LATENT = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "num_key_value_heads": 4}
GROUPS = {"n_routed_experts": 4, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 0}
PICTURES = {"patch_size": PATCH, "image_size": 8 * PATCH, "num_labels": 10}
ARCHITECTURES = {  # class, its configuration
    "Llama": ("LlamaForCausalLM", decoder()),
    "Gemma-3": ("Gemma3ForCausalLM", decoder(head_dim=8, sliding_window=WINDOW, layer_types=["sliding_attention"])),
    "OLMo-2": ("Olmo2ForCausalLM", decoder()),
    "Granite": ("GraniteForCausalLM", decoder(embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=4.0)),
    "SmolLM3": ("SmolLM3ForCausalLM", decoder(no_rope_layers=[0])),
    "ModernBERT": ("ModernBertForMaskedLM", decoder(local_attention=WINDOW)),
    "DeepSeek-V3": ("DeepseekV3ForCausalLM", decoder(**GROUPS, **EXPERTS, **LATENT)),
    "Qwen3-MoE": ("Qwen3MoeForCausalLM", decoder(head_dim=8, num_experts=4, **EXPERTS)),
    "Mamba-2": ("Mamba2ForCausalLM", decoder(num_heads=8, head_dim=8, state_size=8, n_groups=2, chunk_size=8)),
    "DINOv2 with registers": (
        "Dinov2WithRegistersForImageClassification",
        {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, **PICTURES},
    ),
}  # fmt: skip


def made(name):
    """A model as its configuration draws it."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    kind, options = ARCHITECTURES[name]
    kind = getattr(transformers, kind)
    torch.manual_seed(0)
    return kind(kind.config_class(**options))


def arguments(name, length):
    """What a model is called with, by name: two sequences of so many tokens, or pictures so many patches wide, and labels."""
    import torch

    torch.manual_seed(length)
    if name.startswith("DINO"):
        return {"pixel_values": torch.randn(2, 3, 2 * PATCH, length * PATCH), "labels": torch.randint(0, 10, (2,))}
    found = {"input_ids": torch.randint(3, VOCABULARY, (2, length)), "labels": torch.randint(3, VOCABULARY, (2, length))}
    return found | ({"shift_labels": found["labels"]} if length == 1 and name != "ModernBERT" else {})  # a single token has no next one


def wide(model):
    """The same model in float64."""
    found = copy.deepcopy(model).double()
    if getattr(found, "_can_set_experts_implementation", bool)():
        found.set_experts_implementation("eager")  # torch's product of groups has no float64
    return found


def in_float64(args):
    return {k: v.double() if v.is_floating_point() else v for k, v in args.items()}


def gradients(model, call, args):
    """Logits and loss of a call, and the gradient of every parameter."""
    model.zero_grad()
    out = call(**args)
    out.loss.backward()
    return {"logits": out.logits.detach(), "loss": out.loss.detach()}, {
        n: p.grad for n, p in model.named_parameters() if p.grad is not None
    }


def weights(model, call, args):
    """The parameters after some steps of an optimizer."""
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    for _ in range(STEPS):
        gradients(model, call, args)
        optimizer.step()
    return {n: p.detach() for n, p in model.named_parameters()}


def compared(found, eager, exact):
    """The tensor farthest from eager's error: its name, its error, eager's, and whether all are right."""
    assert found.keys() == eager.keys() == exact.keys()
    least = SMALL * max(float(z.abs().max()) for z in exact.values())
    errors = {k: (error(found[k], z, least), error(eager[k], z, least)) for k, z in exact.items()}
    worst = max(errors, key=lambda k: errors[k][0] / max(errors[k][1], RIGHT[0] / RIGHT[1]))
    ours, theirs = errors[worst]
    return {"worst": worst, "error": ours, "eager": theirs, "right": ours <= max(RIGHT[0], RIGHT[1] * theirs), "tensors": len(errors)}


def error(x, exact, least):
    """The largest difference, of the largest element, or of ``least`` if that is more: some gradients are 0 but for rounding."""
    assert x.shape == exact.shape
    if not bool(x.isfinite().all()):
        return float("inf")
    return float((x.double() - exact).abs().max() / exact.abs().max().clamp_min(least))


def seconds():
    """CPU time of this process and of those that it started."""
    return sum(os.times()[:4])


def twice(f, *args):
    """The result of a call, and the CPU seconds by which the first took longer than the second."""
    start = seconds()
    f(*args)
    middle = seconds()
    found = f(*args)
    return found, round(2 * middle - start - seconds(), 2)


def one(name, backend, time_budget, lengths):
    """The row of an architecture and a backend, as far as it is: after each length, and at the end."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    options = {"time_budget": time_budget} if backend == "eqfuse" else None
    small = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Softmax(-1))
    start = seconds()
    torch.compile(small, backend=backend, options=options)(torch.randn(2, 4)).sum().backward()  # what a process loads once
    row = {"first_cpu_s": round(seconds() - start, 2), "lengths": {}}
    model = made(name)
    eager, exact = copy.deepcopy(model), wide(model)
    ours = torch.compile(model, backend=backend, options=options)
    if backend == "eqfuse":
        import eqfuse

        eqfuse.report(reset=True)
    for length in LENGTHS[:lengths]:
        args = arguments(name, length)
        (results, grads), spent = twice(gradients, model, ours, args)
        (results_e, grads_e), (results_x, grads_x) = gradients(eager, eager, args), gradients(exact, exact, in_float64(args))
        checks = {k: compared({k: x}, {k: results_e[k]}, {k: results_x[k]}) for k, x in results.items()}
        checks["gradients"] = compared(grads, grads_e, grads_x)
        row["lengths"][str(length)] = {"cpu_s": spent, "checks": checks}
        yield row
    found = [
        weights(m, f, a(arguments(name, LENGTHS[0]))) for m, f, a in ((model, ours, dict), (eager, eager, dict), (exact, exact, in_float64))
    ]
    row["weights"] = compared(*found)
    if backend == "eqfuse":
        row["graphs"] = [graph(g) for g in eqfuse.report().graphs]
    yield row


def graph(g):
    """What became of a graph of the backend's report."""
    kernels, in_torch = [len(p.kernels) for p in g.plans], [[op, why, n] for (op, why), n in g.library.items()]
    said = {"calls": g.calls, "by_steps": g.ran, "reasons": g.reasons, "notes": g.notes}
    return {"kind": g.kind, "kernels": kernels, "in_torch": in_torch, **said}


def apart(name, backend, time_budget, lengths):
    """The same in a process of its own, without caches."""
    with tempfile.TemporaryDirectory() as cache:
        places = {"EQFUSE_CACHE_DIR": f"{cache}/eqfuse", "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor", "HF_HUB_OFFLINE": "1"}
        threads = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}  # compilers are children, of which the time is known
        command = [sys.executable, "-W", "ignore", __file__, "--one", name, "--backend", backend, "--time-budget", str(time_budget)]
        command += ["--lengths", str(lengths)]
        try:
            done = subprocess.run(
                command, env={**os.environ, **places, **threads}, capture_output=True, text=True, timeout=SECONDS, check=False
            )
            out, why = done.stdout, done.stderr.strip().splitlines()[-1:] if done.returncode else []
        except subprocess.TimeoutExpired as late:
            out, why = (late.stdout or b"").decode(), [f"ended after {SECONDS} s"]
    row = json.loads(out.splitlines()[-1]) if out.strip() else {}
    return row | ({"why": why[0] if why else "ended without a word"} if why or not row else {})


def told(name, backend, row):
    """A line for people."""
    cpu = sum(r["cpu_s"] for r in row.get("lengths", {}).values())
    checks = {f"{k} of {n}": c for n, r in row.get("lengths", {}).items() for k, c in r["checks"].items()}
    checks |= {"weights": row["weights"]} if "weights" in row else {}
    wrong = [f"{k}: {c['worst']} {c['error']:.1e} (eager {c['eager']:.1e})" for k, c in checks.items() if not c["right"]]
    verdict = f"WRONG {'; '.join(wrong)}" if wrong else "right"
    in_torch = sorted(
        {op for g in row.get("graphs", ()) for op, *_ in g["in_torch"]} | {w for g in row.get("graphs", ()) for w in g["reasons"]}
    )
    return f"{name}, {backend}: {cpu:.1f} CPU s, {len(checks)} checks; {verdict} {row.get('why', '')} {in_torch}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORDS", help="parts of names, with commas between them")
    parser.add_argument("--time-budget", type=float, default=1.0, metavar="S", help="for each graph and length, as optimize takes it")
    parser.add_argument("--lengths", type=int, default=len(LENGTHS), metavar="N", help="only the first so many")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--one", help="one architecture in this process, as JSON")
    parser.add_argument("--backend", choices=BACKENDS, help="only this backend")
    options = parser.parse_args()
    environment = {**host("torch", "transformers"), "commit": commit()}
    if environment["transformers"] is None:
        parser.error("transformers is not installed, which EqFuse does not need: pip install transformers, into an environment of its own")
    if options.one:
        for row in one(options.one, options.backend, options.time_budget, options.lengths):
            print(json.dumps(row), flush=True)
        return 0
    path = RESULTS / f"{environment['date'][:10]}-architectures.json"
    rows = {r["architecture"]: r for r in json.loads(path.read_text())["rows"]} if options.save and path.exists() else {}
    for name in ARCHITECTURES:
        if any(word in name for word in options.only.split(",")):
            row = rows.setdefault(name, {"architecture": name})
            for backend in (options.backend,) if options.backend else BACKENDS:
                row[backend] = apart(name, backend, options.time_budget, options.lengths)
                print(told(name, backend, row[backend]), flush=True)
            if options.save:
                write(
                    path,
                    {
                        "environment": environment,
                        "lengths": LENGTHS[: options.lengths],
                        "steps": STEPS,
                        "time_budget": options.time_budget,
                        "rows": list(rows.values()),
                    },
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
