"""Faults planted in the kernels of public libraries: how many eqfuse.testing finds, beside a plain comparison.

    python benchmarks/planted_bugs.py liger=/path/to/Liger-Kernel attorch=/path/to/attorch
    python benchmarks/planted_bugs.py liger=... --only rms_norm cross_entropy --messages
    python benchmarks/planted_bugs.py ... --save        also write benchmarks/results/DATE-planted-bugs.json

A fault is a substitution in the text of one file (a pattern, what takes its place), made in a temporary copy of a checkout; the checkout
stays as it is and nothing of it is kept.  Each kernel is compared with its reference in torch (others/*.py) as it is, which must pass, and with
each fault, which should not.  What passes with a warning that a loop never ran twice is compared once more as the warning says: with a
constant that it names, or with sizes that may grow.  The plain comparison is that of outputs and gradients by torch.testing.assert_close at 1e-4 and at 1e-2, on normal
numbers at sizes that are usual (powers of two, contiguous).  Every comparison runs in a process of its own.
"""

import argparse
import importlib
import json
import multiprocessing
import re
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = 30
LIMIT = 400  # seconds of one comparison
ON_PATH = {"liger": "src", "attorch": "", "unsloth": "", "fla": ""}
PACKAGE = {"liger": "src/liger_kernel", "attorch": "attorch", "unsloth": "unsloth", "fla": "fla"}


@dataclass(frozen=True)
class Fault:
    """What is wrong, in a line; in which file of the package; the text that is replaced, as a pattern, and by what.  ``why``: why it is
    not found."""

    what: str
    file: str
    pattern: str
    replacement: str
    why: str = ""


def _typical(case, library):
    """Usual arguments for a case: see ``TYPICAL``."""
    import torch

    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(shape, generator=generator)

    def labels(count, below):
        return torch.randint(0, below, (count,), generator=generator)

    return TYPICAL[library, case](normal, labels)


def _two(n, labels):
    return n(16, 512), n(16, 512)


def _logits(n, labels):
    return n(16, 1024), labels(16, 1024)


TYPICAL = {
    ("liger", "rms_norm"): lambda n, labels: (n(16, 512), n(512)),
    ("liger", "layer_norm"): lambda n, labels: (n(16, 512), n(512), n(512)),
    ("liger", "softmax"): lambda n, labels: (n(16, 512),),
    ("liger", "cross_entropy"): _logits,
    ("liger", "cross_entropy, smoothing, sum"): _logits,
    ("liger", "swiglu"): _two,
    ("liger", "geglu"): _two,
    ("liger", "kl_div"): lambda n, labels: (n(16, 512).log_softmax(-1), n(16, 512).softmax(-1)),
    ("liger", "jsd, beta 0.5"): lambda n, labels: (n(16, 512).log_softmax(-1), n(16, 512).log_softmax(-1)),
    ("liger", "tvd"): lambda n, labels: (n(16, 512).softmax(-1), n(16, 512).softmax(-1)),
    ("liger", "group_norm"): lambda n, labels: (n(4, 4, 64), n(4), n(4)),
    ("liger", "dyt"): lambda n, labels: (n(16, 512), n(1), n(512), n(512)),
    ("liger", "fused_add_rms_norm"): lambda n, labels: (n(16, 512), n(16, 512), n(512)),
    ("attorch", "LayerNorm"): lambda n, labels: (n(16, 512), n(512), n(512)),
    ("attorch", "RMSNorm"): lambda n, labels: (n(16, 512), n(512)),
    ("attorch", "Softmax"): lambda n, labels: (n(16, 512),),
    ("attorch", "BatchNorm training"): lambda n, labels: (n(16, 8, 64), n(8), n(8)),
    ("attorch", "SmoothL1Loss mean"): _two,
    ("attorch", "GLU silu"): lambda n, labels: (n(16, 512),),
    ("attorch", "CrossEntropyLoss"): _logits,
    ("attorch", "SiLU"): lambda n, labels: (n(16, 512),),
    ("unsloth", "rms_layernorm"): lambda n, labels: (n(16, 512), n(512)),
    ("unsloth", "layernorm"): lambda n, labels: (n(16, 512), n(512), n(512)),
    ("unsloth", "rope_embedding"): lambda n, labels: (n(2, 4, 64, 8), n(2, 2, 64, 8)),
    ("fla", "l2norm"): lambda n, labels: (n(16, 512),),
    ("fla", "logcumsumexp_fwd"): lambda n, labels: (n(2, 64, 16),),
    ("fla", "softmax_fwd"): lambda n, labels: (n(16, 512),),
}

UNDEFINED = "loads without `other`, whose masked lanes take part: they hold 0 by luck"
# every load with a mask and nothing after it; that of the gradient of a mean is None
LOADS = (r"(tl\.load\([^()]*mask=(?!output_grad)[^()=]*)\)", r"\1, other=0.0)")
REPAIRS = {
    # faults of theirs, which would be found instead: mended before another is planted
    ("attorch", "LayerNorm"): Fault(UNDEFINED, "layer_norm_kernels.py", *LOADS),
    ("attorch", "RMSNorm"): Fault(UNDEFINED, "rms_norm_kernels.py", *LOADS),
    ("attorch", "Softmax"): Fault(UNDEFINED, "softmax_kernels.py", *LOADS),
    ("attorch", "BatchNorm training"): Fault(UNDEFINED, "batch_norm_kernels.py", *LOADS),
    ("attorch", "SmoothL1Loss mean"): Fault(UNDEFINED, "p_loss_kernels.py", *LOADS),
}
OPTIONS = {("liger", "group_norm"): {"repeats": 1}}  # its gradients are summed by atomics
CONTIGUOUS = {("attorch", "LayerNorm"), ("attorch", "RMSNorm"), ("attorch", "SmoothL1Loss mean")}  # what they take, by contract

NOT_MASKED = "the lanes beyond the row take part"
FAULTS = {
    ("liger", "rms_norm"): [
        Fault("epsilon outside the root", "ops/rms_norm.py", r"rstd = rsqrt\(mean_square \+ eps\)", "rstd = 1.0 / (tl.sqrt(mean_square) + eps)"),
        Fault("divided by the block, not the row", "ops/rms_norm.py", r"tl\.sum\(X_row \* X_row, axis=0\) / n_cols", "tl.sum(X_row * X_row, axis=0) / BLOCK_SIZE"),
    ],
    ("liger", "layer_norm"): [
        Fault(f"variance: {NOT_MASKED}", "ops/layer_norm.py", r"tl\.where\(mask, X_centered, 0\.0\)", "X_centered"),
        Fault("backward forgets the mean of the gradient", "ops/layer_norm.py", r"x_hat \* c1 \+ c2", "x_hat * c1"),
    ],
    ("liger", "softmax"): [
        Fault("masked lanes hold 0", "ops/softmax.py", r'mask=mask, other=-float\("inf"\)', "mask=mask, other=0.0"),
        Fault("backward: a bracket", "ops/softmax.py", r"dx = y \* \(dy - dot\)", "dx = y * dy - dot"),
    ],
    ("liger", "cross_entropy"): [
        Fault("the running sum is not rescaled when the maximum grows", "ops/cross_entropy.py", r"d = d \* tl\.exp2\(\(m - m_new\) \* LOG2_E\)", "d = d"),
        Fault("gradient of the label without the number of rows", "ops/cross_entropy.py", r"dx_y = dx_y / n_non_ignore", "dx_y = dx_y"),
    ],
    ("liger", "cross_entropy, smoothing, sum"): [
        Fault("smoothing over one class less", "ops/cross_entropy.py", r"eps = label_smoothing / n_cols", "eps = label_smoothing / (n_cols - 1 + 1e-9)"),
        Fault(f"smoothing: {NOT_MASKED}", "ops/cross_entropy.py", r"tl\.where\(X_offsets < n_cols, -eps \* X_block, 0\.0\)", "tl.where(X_offsets <= n_cols, -eps * X_block, 0.0)"),
    ],
    ("liger", "swiglu"): [
        Fault("a term of the derivative", "ops/swiglu.py", r"silu_a \* \(1 - sig_a\) \+ sig_a", "sig_a * (1 - sig_a) + sig_a"),
        Fault("a load without a mask", "ops/swiglu.py", r"b_row = tl\.load\(b_ptr \+ col_offsets, mask=mask, other=0\)", "b_row = tl.load(b_ptr + col_offsets)"),
    ],
    ("liger", "geglu"): [
        Fault("a digit of a constant", "ops/geglu.py", r"0\.044715 \* a_cubed", "0.044 * a_cubed"),
        Fault("a factor of the derivative", "ops/geglu.py", r"1 \+ 3 \* 0\.044715", "1 + 0.044715"),
    ],
    ("liger", "kl_div"): [
        Fault("no guard of the logarithm of 0", "ops/kl_div.py", r"tl\.log\(tl\.maximum\(y_true, eps\)\)", "tl.log(y_true)"),
        Fault("the last column is left out of the loss", "ops/kl_div.py", r"mask = offsets < n_cols\n\s+y =", "mask = offsets < n_cols - 1\n        y ="),
    ],
    ("liger", "jsd, beta 0.5"): [
        Fault("gradient: a weight is missing", "ops/jsd.py", r"dX = one_minus_beta_Q \* \(X - log_M\)", "dX = Q * (X - log_M)"),
        Fault("loss: half of the mixture", "ops/jsd.py", r"- M \* log_M", "- one_minus_beta_Q * log_M"),
    ],
    ("liger", "tvd"): [
        Fault("the rows of one read with the stride of the other's gradient", "ops/tvd.py", r"q_ptr \+= pid \* q_stride", "q_ptr += pid * BLOCK_SIZE"),
        Fault("loss: divided by the block", "ops/tvd.py", r"loss_sum \* scale", "loss_sum * scale * n_cols / BLOCK_SIZE"),
    ],
    ("liger", "group_norm"): [
        Fault("channel of an element", "ops/group_norm.py", r"hidden_size_offsets // hidden_size_per_channel", "hidden_size_offsets % channels_per_group"),
        Fault("epsilon dropped", "ops/group_norm.py", r"rsqrt\(variance \+ eps\.to\(tl\.float32\)\)", "rsqrt(variance)"),
    ],
    ("liger", "dyt"): [
        Fault("derivative of tanh", "ops/dyt.py", r"1 - tanh_x \* tanh_x", "1 - tanh_x"),
        Fault("the gradient of the weight is overwritten row by row", "ops/dyt.py", r"dg \+= dy \* tanh_x", "dg = dy * tanh_x"),
    ],
    ("liger", "fused_add_rms_norm"): [
        Fault("the gradient of the residual is added twice", "ops/fused_add_rms_norm.py", r"dX_row \+= dS_out_row", "dX_row += 2 * dS_out_row"),
        Fault("the sum is squared without the residual", "ops/fused_add_rms_norm.py", r"tl\.sum\(S_row \* S_row, axis=0\)", "tl.sum(X_row * X_row, axis=0)"),
    ],
    ("attorch", "LayerNorm"): [
        Fault(f"variance: {NOT_MASKED}", "layer_norm_kernels.py", r"diff = tl\.where\(feat_mask\[None, :\], input - mean\[:, None\], 0\)", "diff = input - mean[:, None]"),
        Fault("gradient of the input forgets a term", "layer_norm_kernels.py", r"term1 \+ term2\[:, None\]", "term1"),
    ],
    ("attorch", "RMSNorm"): [
        Fault("epsilon under the wrong root", "rms_norm_kernels.py", r"tl\.rsqrt\(tl\.sum\(input \* input, axis=1\) / feat_dim \+ eps\)", "1 / (tl.sqrt(tl.sum(input * input, axis=1) / feat_dim) + eps)"),
        Fault("backward: a power of the root", "rms_norm_kernels.py", r"term2 = inv_rms\[:, None\] \* inv_rms\[:, None\]", "term2 = inv_rms[:, None]"),
    ],
    ("attorch", "Softmax"): [
        Fault("the maximum is not subtracted", "softmax_kernels.py", r"input -= tl\.max\(input, axis=1\)\[:, None\]", "input -= 0.0"),
        Fault("the mask reaches one too far", "softmax_kernels.py", r"feat_mask = feat_offset < feat_dim", "feat_mask = feat_offset <= feat_dim"),
    ],
    ("attorch", "BatchNorm training"): [
        Fault("the running mean is taken twice", "batch_norm_kernels.py", r"\(curr_input - mean\) \* \(curr_input - prev_mean\)", "(curr_input - mean) * (curr_input - mean)"),
        Fault("backward forgets a term", "batch_norm_kernels.py", r"term1 \* curr_pre_lin \+ term2", "term1 * curr_pre_lin"),
    ],
    ("attorch", "SmoothL1Loss mean"): [
        Fault("a constant of the linear part", "p_loss_kernels.py", r"0\.5 \* diff \* diff / param, tl\.abs\(diff\) - 0\.5 \* param", "0.5 * diff * diff / param, tl.abs(diff) - param"),
        Fault("both gradients have one sign", "p_loss_kernels.py", r"tl\.store\(target_grad_pointer \+ offset, -input_grad", "tl.store(target_grad_pointer + offset, input_grad"),
    ],
    ("attorch", "GLU silu"): [
        Fault("the gate without its gradient", "glu_kernels.py", r"apply_act_func_grad\(1, input2,", "apply_act_func(input2,"),
        Fault("a mask that covers everything", "glu_kernels.py", r"mask = offset < size", "mask = offset < size + 1"),
    ],
    ("attorch", "CrossEntropyLoss"): [
        Fault("mean over the classes", "cross_entropy_loss_kernels.py", r"loss /= batch_dim", "loss /= feat_dim"),
        Fault("masked lanes hold 0", "cross_entropy_loss_kernels.py", r"other=-float\('inf'\)", "other=0.0"),
    ],
    ("attorch", "SiLU"): [
        Fault("derivative: a bracket", "act_kernels.py", r"\(output_sigmoid \* \(input \* \(1 - output_sigmoid\) \+ 1\)\)", "(output_sigmoid * input * (1 - output_sigmoid) + 1)"),
        Fault("sigmoid of a large negative number", "act_kernels.py", r"\(1 / \(1 \+ tl\.exp\(-input\)\)\)", "(tl.exp(input) / (1 + tl.exp(input)))"),
    ],
    ("unsloth", "rms_layernorm"): [
        Fault("epsilon outside the root", "kernels/rms_layernorm.py", r"inv_var = tl\.math\.rsqrt\(row_var \+ eps_f32\)", "inv_var = 1.0 / (tl.sqrt(row_var) + eps_f32)"),
        Fault("backward: a factor of the second term", "kernels/rms_layernorm.py", r"- normed \* rowsum_dY_normed", "- rowsum_dY_normed"),
    ],
    ("unsloth", "layernorm"): [
        Fault(f"variance: {NOT_MASKED}", "kernels/layernorm.py", r"tl\.where\(mask, X_row - mean_X, 0\)", "X_row - mean_X"),
        Fault("backward forgets the mean of the gradient", "kernels/layernorm.py", r"dY_W - tl\.sum\(dY_W, axis = 0\) / n_cols - normed", "dY_W - normed"),
    ],
    ("unsloth", "rope_embedding"): [
        Fault("a sign of the rotation", "kernels/rope_embedding.py", r"q1 \* cos1 \+ q0 \* sin1", "q1 * cos1 - q0 * sin1"),
        Fault("backward turns the same way", "kernels/rope_embedding.py", r"sin1 = -sin1", "sin1 = sin1"),
    ],
    ("fla", "l2norm"): [
        Fault("epsilon outside the root", "modules/l2norm.py", r"1 / tl\.sqrt\(tl\.sum\(b_x \* b_x, 1\) \+ eps\)", "1 / (tl.sqrt(tl.sum(b_x * b_x, 1)) + eps)"),
        Fault("backward: a factor of the second term", "modules/l2norm.py", r"\[:, None\] \* b_y \* b_rstd\[:, None\]", "[:, None] * b_y"),
    ],
    ("fla", "logcumsumexp_fwd"): [
        Fault("the sum of earlier blocks is not rescaled", "ops/utils/logcumsumexp.py", r"b_zp = b_zp \* exp\(b_mp - b_mc\)", "b_zp = b_zp"),
        Fault("the maximum of earlier blocks is forgotten", "ops/utils/logcumsumexp.py", r"b_mp = b_mc", "b_mp = b_mp"),
    ],
    ("fla", "softmax_fwd"): [
        Fault("masked lanes hold 0", "ops/utils/softmax.py", r"mask=m_d, other=-float\('inf'\)", "mask=m_d, other=0.0"),
        Fault("the maximum is not subtracted", "ops/utils/softmax.py", r"exp\(b_x - b_m\)", "exp(b_x)"),
    ],
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="+", help="name=checkout")
    parser.add_argument("--only", nargs="*", help="functions whose names contain one of these")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--into", type=Path, help="a JSON file to which rows are added, and from which they are taken if they are there")
    parser.add_argument("--messages", action="store_true", help="print what was said")
    options = parser.parse_args()
    checkouts = {name: Path(path) for name, _, path in (text.partition("=") for text in options.libraries)}
    import torch._dynamo  # noqa: F401
    from host import host
    from kernels_of_others import commit

    import eqfuse.runtime.interpreter
    import eqfuse.testing.equivalence  # noqa: F401

    rows = json.loads(options.into.read_text())["rows"] if options.into and options.into.exists() else []
    commits = {name: commit(path) for name, path in checkouts.items()}
    for (library, function), faults in FAULTS.items():
        if library not in checkouts or (options.only and not any(part in function for part in options.only)):
            continue
        for fault in (None, *faults):
            what = fault.what if fault else "as it is"
            if any((r["library"], r["function"], r["fault"]) == (library, function, what) for r in rows):
                continue
            with copy_of(checkouts[library], library) as copy:
                if (library, function) in REPAIRS:
                    mended = REPAIRS[library, function]
                    plant(copy / PACKAGE[library] / mended.file, mended)
                if fault:
                    plant(copy / PACKAGE[library] / fault.file, fault)
                row = {"library": library, "function": function, "fault": what, **child(library, function, copy)}
                if (library, function) in REPAIRS:
                    row["mended"] = mended.what
                if fault and fault.why and row["outcome"] == "passed":
                    row["why"] = fault.why
            rows.append(row)
            plain = " ".join(f"{k}:{'found' if row.get(k) else 'not found'}" for k in ("1e-4", "1e-2"))
            print(f"{row['outcome']:10} {library} {function}: {what} ({row.get('cpu_s')} s; plain {plain})", flush=True)
            if options.messages or row["outcome"] == "failed to run":
                print(row.get("message", ""))
            if options.into:
                options.into.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    result = {"planted": commits, "environment": host("numpy", "torch", "triton", "hypothesis"), "rows": rows}
    planted = [r for r in rows if r["fault"] != "as it is"]
    found = [r for r in planted if r["outcome"].startswith("found")]
    print(
        f"{len(found)} of {len(planted)} found; plain, 1e-4: {sum(r.get('1e-4', 0) for r in planted)}, 1e-2: {sum(r.get('1e-2', 0) for r in planted)}"
    )
    if options.save:
        path = HERE / "results" / f"{time.strftime('%Y-%m-%d')}-planted-bugs.json"
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return int(any(r["outcome"] != "passed" for r in rows if r["fault"] == "as it is"))


class copy_of:  # noqa: N801
    """A temporary copy of the package in a checkout."""

    def __init__(self, checkout, library):
        self.source, self.library = checkout / PACKAGE[library], library

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="eqfuse-planted-")
        root = Path(self.directory.name)
        shutil.copytree(self.source, root / PACKAGE[self.library], ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        return root

    def __exit__(self, *error):
        self.directory.cleanup()


def plant(path, fault):
    """Change the text: the pattern must be there."""
    text, many = re.subn(fault.pattern, fault.replacement, path.read_text())
    assert many, f"{path.name} has no {fault.pattern}"
    path.write_text(text)


def child(library, function, copy):
    """What :func:`compare` gives in a process of its own: a fork, so that what every one of them needs is imported once."""
    fork = multiprocessing.get_context("fork")
    received, sent = fork.Pipe(duplex=False)
    process = fork.Process(target=_send, args=(sent, library, function, copy))
    process.start()
    sent.close()
    try:
        return received.recv() if received.poll(LIMIT) else {"outcome": "too slow"}
    except EOFError:
        return {"outcome": "failed to run", "message": f"it ended with {process.exitcode}"}
    finally:
        process.kill()
        process.join()


def _send(sent, library, function, copy):
    try:
        sent.send(compare(library, function, copy))
    except Exception:
        sent.send({"outcome": "failed to run", "message": traceback.format_exc()[-2000:]})


def compare(library, function, checkout):
    """What is said of one function, as it is in this checkout."""
    import torch

    from eqfuse.errors import CoverageWarning

    torch.set_num_threads(1)
    sys.path.insert(0, str(checkout / ON_PATH[library]))
    case = case_of(library, function)
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        options = case.options | OPTIONS.get((library, function), {})
        row = judged(case, (library, function) in CONTIGUOUS, options)
    missed = [str(w.message) for w in caught if issubclass(w.category, CoverageWarning)]
    if row["outcome"] == "passed" and missed:
        row["warned"] = missed
        names = dict.fromkeys(n for text in missed for n in re.findall(r"'([\w.]+)': 16", text))
        for follow in (*({"constants": {name: 16}} for name in names), {}):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                chosen = case if follow else case_of(library, function, unbounded=True)
                again = judged(chosen, (library, function) in CONTIGUOUS, options | follow)
            if again["outcome"] == "found":
                row.update(again, outcome="found by what the warning says")
                break
    row["cpu_s"] = round(time.process_time() - start, 1)
    return row | plain(case, _typical(function, library))


def case_of(library, function, unbounded=False):
    """The case of that name; ``unbounded``: with sizes that may grow."""
    from eqfuse.testing import interpreted_kernels, strategies

    sys.modules.pop(f"others.{library}", None)
    bounded = strategies.size
    if unbounded:
        strategies.size = lambda name, low=1, high=100: strategies.Size(name, low, high, open=True)
    try:
        with interpreted_kernels():
            (case,) = [c for c in importlib.import_module(f"others.{library}").cases() if c.name == function]
    finally:
        strategies.size = bounded
    return case


def judged(case, contiguous, options):
    from eqfuse.errors import AccuracyError, KernelBug
    from eqfuse.testing import assert_equivalent

    args = [a.map(lambda t: t.contiguous()) for a in case.args] if contiguous else case.args
    try:
        assert_equivalent(case.reference, case.theirs, args, gradients=case.gradients, examples=EXAMPLES, shrink_seconds=1.0, **options)
        return {"outcome": "passed"}
    except (AccuracyError, KernelBug) as error:
        return {"outcome": "found", "message": str(error)}


def plain(case, args):
    """What torch.testing.assert_close finds in outputs and gradients."""
    import torch
    from torch.utils._pytree import tree_leaves

    from eqfuse.testing import interpreted_kernels

    def all_of(function):
        given = [a.clone().requires_grad_(a.is_floating_point()) for a in args]
        made = [v for v in tree_leaves(function(*given)) if isinstance(v, torch.Tensor)]
        ends = [v for v in made if v.requires_grad]
        leaves = [a for a in given if a.requires_grad]
        along = [torch.randn(v.shape, generator=torch.Generator().manual_seed(1)) for v in ends]
        kept = [v.detach().clone() for v in made]
        pulled = torch.autograd.grad(ends, leaves, along, allow_unused=True) if case.gradients else ()
        return [*kept, *(torch.zeros_like(a) if g is None else g for a, g in zip(leaves, pulled, strict=False))]

    try:
        with interpreted_kernels(sanitize=False, order=None):
            ours, right = all_of(case.theirs), all_of(case.reference)
    except Exception as error:
        return {"1e-4": True, "1e-2": True, "plain": repr(error)[:300]}
    found = {}
    for name, tolerance in (("1e-4", 1e-4), ("1e-2", 1e-2)):
        try:
            torch.testing.assert_close(ours, right, rtol=tolerance, atol=tolerance)
            found[name] = False
        except AssertionError:
            found[name] = True
    return found


if __name__ == "__main__":
    sys.exit(main())
