"""Models of HuggingFace transformers with small configurations and drawn weights, from tokens or pixels to the first result."""

import math
import sys
import warnings

import torch

from .case import Case

VOCABULARY, HEADS = 101, 4


def plain(layers, width, positions):
    return {
        "hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": layers, "num_attention_heads": HEADS,
        "vocab_size": VOCABULARY,
    }  # fmt: skip


def grouped(layers, width, positions):
    return {**plain(layers, width, positions), "num_key_value_heads": 2, "pad_token_id": 0}


def headed(layers, width, positions):
    return {**grouped(layers, width, positions), "head_dim": width // HEADS}


MODELS = {  # class, its configuration for a number of layers, a width and a number of positions
    "Llama": ("LlamaForCausalLM", grouped),
    "Mistral": ("MistralForCausalLM", lambda n, w, p: {**grouped(n, w, p), "sliding_window": p // 2}),
    "Qwen3": ("Qwen3ForCausalLM", headed),
    "Gemma-2": ("Gemma2ForCausalLM", lambda n, w, p: {**headed(n, w, p), "sliding_window": p // 2}),
    "Gemma-3": ("Gemma3ForCausalLM", lambda n, w, p: {**headed(n, w, p), "sliding_window": p // 2}),
    "Phi-3": ("Phi3ForCausalLM", grouped),
    "Mixtral": ("MixtralForCausalLM", lambda n, w, p: {**grouped(n, w, p), "num_local_experts": 4}),
    "Qwen3-MoE": ("Qwen3MoeForCausalLM", lambda n, w, p: {**headed(n, w, p), "moe_intermediate_size": 2 * w, "num_experts": 4,
                                                       "num_experts_per_tok": 2}),
    "GPT-OSS": ("GptOssForCausalLM", lambda n, w, p: {**headed(n, w, p), "sliding_window": p // 2, "num_local_experts": 4,
                                                   "num_experts_per_tok": 2}),
    "GPT-2": ("GPT2LMHeadModel", lambda n, w, p: {"n_embd": w, "n_layer": n, "n_head": HEADS, "vocab_size": VOCABULARY}),
    "OPT": ("OPTForCausalLM", lambda n, w, p: {**plain(n, w, p), "ffn_dim": 2 * w, "word_embed_proj_dim": w}),
    "BERT": ("BertModel", plain),
    "T5": ("T5EncoderModel", lambda n, w, p: {"d_model": w, "d_kv": w // HEADS, "d_ff": 2 * w, "num_layers": n, "num_heads": HEADS,
                                           "vocab_size": VOCABULARY}),
    "ViT": ("ViTModel", lambda n, w, p: {**plain(n, w, p), "image_size": side(p), "patch_size": 8}),
    "Whisper": ("WhisperModel", lambda n, w, p: {"d_model": w, "encoder_layers": n, "decoder_layers": n, "encoder_attention_heads": HEADS,
                                              "vocab_size": VOCABULARY, "decoder_attention_heads": HEADS, "encoder_ffn_dim": 2 * w,
                                              "decoder_ffn_dim": 2 * w, "num_mel_bins": 8, "max_source_positions": p,
                                              "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}),
    "Mamba": ("MambaForCausalLM", lambda n, w, p: {"hidden_size": w, "num_hidden_layers": n, "vocab_size": VOCABULARY, "state_size": 4}),
}  # fmt: skip


def side(positions):
    """Of a picture with at most so many patches."""
    return 8 * math.isqrt(positions)


class First(torch.nn.Module):
    """The first result of a model that is called without a cache."""

    def __init__(self, model, options):
        super().__init__()
        self.model, self.options = model, options

    def forward(self, x, *more):
        return self.model(x, *more, **self.options)[0]


def programs(folder):
    sys.path.insert(0, str(folder))
    for name in MODELS:
        yield "transformers", name, Case(lambda name=name: made(name), lambda name=name: made(name))


def made(name, layers=2, width=48, positions=13, attention="eager"):
    """A model and its arguments, with data.  ``attention``: how its attention is written; None: as it is by itself."""
    warnings.simplefilter("ignore")
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    kind, options = MODELS[name]
    kind = getattr(transformers, kind)
    written = {"attn_implementation": attention} if attention and name != "Mamba" else {}
    model = kind(kind.config_class(**options(layers, width, positions), **written)).eval()
    cache = {} if name in ("ViT", "BERT", "T5") else {"use_cache": False}
    if name == "ViT":
        return First(model, {"return_dict": False}), (torch.randn(2, 3, side(positions), side(positions)),)
    if name == "Whisper":
        tokens = torch.randint(0, VOCABULARY, (2, max(positions // 2, 1)))
        return First(model, {"return_dict": False, "decoder_input_ids": tokens, **cache}), (torch.randn(2, 8, 2 * positions),)
    return First(model, {"return_dict": False, **cache}), (torch.randint(0, VOCABULARY, (2, positions)),)
