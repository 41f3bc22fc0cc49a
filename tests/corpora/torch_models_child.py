"""The child of torch_models.py: one network compiled from torch, run on the emulator and compared with torch."""

# pyright: basic

from functools import cache
from importlib import import_module
from typing import Any

import torch
import transformers
from pool import Outcome, serve

import hlo2tx8

BOUND = 1e-4
SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "image_size": 32,
    "patch_size": 8,
    "num_channels": 3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "use_cache": False,
    "return_dict": True,
}
"""What configurations have in common; those that call it otherwise map the names, or are below."""
OWN: dict[str, dict[str, Any]] = {
    "bart": {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64},
    "convbert": {"embedding_size": 32},
    "codegen": {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64, "rotary_dim": 4},
    "convnext": {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1], "num_hidden_layers": 4, "patch_size": 2},
    "ctrl": {"dff": 64},
    "deberta-v2": {"relative_attention": True},
    "electra": {"embedding_size": 32},
    "esm": {"mask_token_id": 3, "position_embedding_type": "absolute"},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 8},
    "gptj": {"rotary_dim": 4},
    "mobilebert": {"embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32, "trigram_input": True},
    "modernbert": {"global_attn_every_n_layers": 2},
    "nystromformer": {"segment_means_seq_len": 16, "num_landmarks": 16},
    "mixtral": {"num_local_experts": 4},
    "phi": {"partial_rotary_factor": 0.5},
    "poolformer": {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]},
    "qwen2_moe": {"num_experts": 4, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32},
    "resnet": {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1], "embedding_size": 8},
    "segformer": {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 4]},
    "squeezebert": {"embedding_size": 32},
    "t5": {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
    "xglm": {"d_model": 32, "ffn_dim": 64, "num_layers": 2, "attention_heads": 4},
    "xlm": {"emb_dim": 32, "n_layers": 2, "n_heads": 4},
    "xlnet": {"d_model": 32, "n_head": 4, "d_inner": 64, "n_layer": 2},
    "xmod": {"default_language": "en_XX", "languages": ["en_XX"]},
}
OWN |= dict.fromkeys(("blenderbot-small", "m2m_100", "marian", "mbart", "pegasus"), OWN["bart"])
OWN |= {
    "convnextv2": OWN["convnext"],
    "flaubert": OWN["xlm"],
    "xglm": {"d_model": 32, "ffn_dim": 64, "num_layers": 2, "attention_heads": 4},
}


@cache
def torchvision() -> Any:
    """The package; where its own compiled ops do not load, as beside a torch without CUDA, those that its import wants are made."""
    try:
        return import_module("torchvision"), None
    except RuntimeError:
        ops = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            ops.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
        return import_module("torchvision"), ops


def network_and_inputs(case: str, size: int) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...] | dict[str, torch.Tensor]]:
    """A network with random weights, and its inputs."""
    kind, _, name = case.partition("/")
    if kind == "torchvision":
        more = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        return with_no_zeros(getattr(torchvision()[0].models, name)(weights=None, **more)), (torch.randn(1, 3, size, size),)
    common = {key: value for key, value in SMALL.items() if name != "xlnet" or key != "max_position_embeddings"}
    config = transformers.AutoConfig.for_model(name, **{**common, **OWN.get(name, {})})
    config._experts_implementation = "batched_mm"
    model = transformers.AutoModel.from_config(config)
    tokens = torch.randint(3, 90, (2, 16))
    match kind:
        case "picture":
            return model, {"pixel_values": torch.randn(1, 3, size, size)}
        case "pair":
            return model, {"input_ids": tokens, "decoder_input_ids": tokens[:, :7].clone()}
        case _:
            return model, {"input_ids": tokens}


def with_no_zeros(network: torch.nn.Module) -> torch.nn.Module:
    """The network; weights that begin as zeros, as those of some heads, are random too: results of 0 tell nothing."""
    for weight in network.parameters():
        if not weight.any():
            torch.nn.init.normal_(weight, std=0.02)
    return network


def tensors(results: Any) -> list[torch.Tensor]:
    """The float tensors among results."""
    leaves = torch.utils._pytree.tree_leaves(dict(results) if hasattr(results, "keys") else results)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def outcome_of(request: dict[str, Any]) -> Outcome:
    """What became of a network."""
    torch.manual_seed(0)
    network, inputs = network_and_inputs(request["case"], request["size"])
    network.eval()
    call = (lambda f: f(**inputs)) if isinstance(inputs, dict) else (lambda f: f(*inputs))
    with torch.no_grad():
        wanted = tensors(call(network))
        found = tensors(call(hlo2tx8.compile(network, args=inputs)))
    if len(found) != len(wanted):
        return {"outcome": "failed", "cause": f"{len(found)} results instead of {len(wanted)}"}
    worst = max(float((f - w).abs().max() / w.abs().max().clamp_min(1e-30)) for f, w in zip(found, wanted, strict=True))
    if not worst <= BOUND:
        return {"outcome": "failed", "cause": f"wrong: {worst:.1e} of the largest value"}
    return {"outcome": "passed", "cause": "", "difference": worst}


torch.set_num_threads(1)
serve(outcome_of)
