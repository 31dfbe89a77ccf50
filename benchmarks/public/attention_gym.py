"""attention-gym (github.com/meta-pytorch/attention-gym): its score mods and mask mods around an attention, called as FlexAttention's own
reference calls them, one position at a time under ``torch.vmap``, and with positions that broadcast."""

import importlib
import math
import sys
import types
from functools import partial
from pathlib import Path

import torch
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch.nn.attention.flex_attention import _vmap_for_bhqkv

from .case import Case

WAYS = ("vmap", "broadcast")
NO_BROADCAST = ("mla rope", "flamingo")  # a dot of two vectors, and the two ends of an interval
BATCH, HEADS = 2, 4


def programs(root):
    package = types.ModuleType("attn_gym")  # its own imports kernels for GPUs
    package.__path__ = [str(Path(root, "attn_gym"))]
    sys.modules["attn_gym"] = package
    masks, mods = (importlib.import_module(f"attn_gym.{name}") for name in ("masks", "mods"))
    for way in WAYS:
        for kind, of in (("score", score_mods), ("mask", mask_mods)):
            for name in of(masks, mods, 8):
                if name not in NO_BROADCAST or way == "vmap":
                    both = [(32, 64, empty), (8, 8, drawn)]
                    yield way, name, Case(*(partial(made, masks, mods, name, kind, of, way, *sizes) for sizes in both))


def made(masks, mods, name, kind, of, way, side, d, new):
    return attention(of(masks, mods, side)[name], kind, way), new(side * side, d)


def score_mods(_, mods, side):
    """Name -> mod, for a canvas of ``side`` by ``side`` positions."""
    n = side * side
    torch.manual_seed(1)
    near = torch.randint(0, 6, (BATCH, n, n), dtype=torch.int32)
    return {
        "alibi": mods.generate_alibi_bias(HEADS),
        "tanh softcap": mods.generate_tanh_softcap(20),
        "sandwich": mods.generate_sandwich_bias(HEADS, n),
        "activation": mods.generate_activation_score_mod(),
        "graphormer spatial": mods.generate_graphormer_spatial_bias(torch.randn(HEADS, 6), near),
        "graphormer edge": mods.generate_graphormer_edge_bias(torch.randn(HEADS, 3, 5), torch.randint(0, 5, (BATCH, n, n, 3)), near % 4),
        "mla rope": mods.generate_mla_rope_score_mod(torch.randn(BATCH, HEADS, n, 16), torch.randn(BATCH, 1, n, 16), HEADS),
    }


def mask_mods(masks, _, side):
    n = side * side
    vsa = importlib.import_module("attn_gym.masks.vsa")
    offsets = torch.tensor([0, n // 4, n // 2, n])
    some, tiles = torch.arange(n) % 7 == 0, n // side
    sizes, chosen = torch.full((tiles,), side - 1), torch.stack([torch.arange(tiles), torch.arange(tiles) // 2], -1)
    tree = masks.build_tree_ancestor_matrix([-1, *(k // 2 for k in range(n - 1))], device="cpu")
    return {
        "causal": masks.causal_mask,
        "sliding window": masks.generate_sliding_window(9),
        "global sliding window": masks.generate_global_sliding_window(9, some),
        "dilated sliding window": masks.generate_dilated_sliding_window(9, 2),
        "prefix lm": masks.generate_prefix_lm_mask(11),
        "document": masks.generate_doc_mask_mod(masks.causal_mask, offsets),
        "packed document": masks.generate_packed_causal_doc_mask_mod(offsets),
        "shared prefix": masks.generate_shared_prefix_mask_mod(offsets, torch.tensor([0, 0, 2])),
        "flamingo": masks.generate_vision_cross_attention_mask_mod(torch.tensor([[0, n // 2], [n // 4, n]]), n // 2),
        "jetspec tree": masks.generate_jetspec_tree_causal_mask_mod(0, tree),
        "jetspec training": masks.generate_jetspec_training_mask_mod(n // 2, side),
        "natten": masks.generate_natten(side, side, 5, 5),
        "tiled natten": masks.generate_tiled_natten(side, side, 5, 5, 4, 4),
        "morton natten": masks.generate_morton_natten(side, side, 5, 5),
        "sta 2d": masks.generate_sta_mask_mod_2d((side, side), (4, 4), (2, 2)),
        "sta 3d": masks.generate_sta_mask_mod_3d((4, side // 2, side // 2), (2, 4, 4), (2, 2, 2)),
        "svg spatial": masks.generate_spatial_head_mask_mod(3, 4, n // 5, 2, round_width=8),
        "svg temporal": masks.generate_temporal_head_mask_mod(3, 4, n // 5, 2),
        "vsa top k": masks.generate_vsa_mask_mod(chosen.expand(BATCH, HEADS, tiles, 2), side, sizes),
        "vsa block map": vsa.generate_vsa_block_map_mask_mod(torch.ones(tiles, tiles).tril().expand(BATCH, HEADS, tiles, tiles), side),
        "vsa padding": vsa.generate_vsa_padding_mask_mod(sizes, side),
        "batchify": masks.batchify_mask_mod(masks.causal_mask, n // 4),
        "block diffusion": masks.generate_block_diffusion_mask(n // 2, side),
    }


def attention(mod, kind, way):
    """softmax(mod(q @ k.T)) @ v."""

    def run(q, k, v):
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        at = [torch.arange(n, device=q.device) for n in scores.shape]
        if way == "vmap":

            def called(*args):
                with TransformGetItemToIndex():  # table[position] under vmap
                    return _vmap_for_bhqkv(mod, prefix=(0,) if kind == "score" else ())(*args)
        else:
            called = mod
            at = [a.view(-1, *(1,) * (3 - d)) for d, a in enumerate(at)]
        scores = called(scores, *at) if kind == "score" else torch.where(called(*at), scores, -math.inf)
        return torch.softmax(scores, -1) @ v

    return run


def empty(n, d):
    return tuple(torch.empty(BATCH, HEADS, n, d, device="meta") for _ in range(3))


def drawn(n, d):
    torch.manual_seed(0)
    return tuple(torch.randn(BATCH, HEADS, n, d) for _ in range(3))
