"""Models of HuggingFace transformers with small configurations and drawn weights, from tokens or pixels to the first result."""

import sys
import warnings

import torch

from .case import Case

SMALL = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 101}
GROUPED = {**SMALL, "num_key_value_heads": 2}
MODELS = {  # class, its configuration
    "Llama": ("LlamaForCausalLM", GROUPED),
    "Mistral": ("MistralForCausalLM", {**GROUPED, "sliding_window": 8}),
    "Qwen3": ("Qwen3ForCausalLM", {**GROUPED, "head_dim": 12}),
    "Gemma-2": ("Gemma2ForCausalLM", {**GROUPED, "head_dim": 12, "sliding_window": 8}),
    "Gemma-3": ("Gemma3ForCausalLM", {**GROUPED, "head_dim": 12, "sliding_window": 8}),
    "Phi-3": ("Phi3ForCausalLM", {**GROUPED, "pad_token_id": 0}),
    "Mixtral": ("MixtralForCausalLM", {**GROUPED, "num_local_experts": 4}),
    "GPT-2": ("GPT2LMHeadModel", {"n_embd": 48, "n_layer": 2, "n_head": 4, "vocab_size": 101}),
    "OPT": ("OPTForCausalLM", {**SMALL, "ffn_dim": 96, "word_embed_proj_dim": 48}),
    "BERT": ("BertModel", SMALL),
    "T5": ("T5EncoderModel", {"d_model": 48, "d_kv": 12, "d_ff": 96, "num_layers": 2, "num_heads": 4, "vocab_size": 101}),
    "ViT": ("ViTModel", {**SMALL, "image_size": 32, "patch_size": 8}),
    "Whisper": ("WhisperModel", {"d_model": 48, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "vocab_size": 101,
                                 "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "num_mel_bins": 8,
                                 "max_source_positions": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                                 "decoder_start_token_id": 1}),
    "Mamba": ("MambaForCausalLM", {"hidden_size": 48, "num_hidden_layers": 2, "vocab_size": 101, "state_size": 4}),
}  # fmt: skip


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


def made(name):
    warnings.simplefilter("ignore")
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    kind, options = MODELS[name]
    kind = getattr(transformers, kind)
    model = kind(kind.config_class(**options, attn_implementation="eager") if name != "Mamba" else kind.config_class(**options)).eval()
    cache = {} if name in ("ViT", "BERT", "T5") else {"use_cache": False}
    if name == "ViT":
        return First(model, {"return_dict": False}), (torch.randn(2, 3, 32, 32),)
    if name == "Whisper":
        tokens = torch.randint(0, 101, (2, 7))
        return First(model, {"return_dict": False, "decoder_input_ids": tokens, **cache}), (torch.randn(2, 8, 32),)
    return First(model, {"return_dict": False, **cache}), (torch.randint(0, 101, (2, 13)),)
