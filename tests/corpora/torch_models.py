"""Networks of torchvision and transformers on the emulator: `python tests/corpora/torch_models.py [--only=RE] [--log=FILE]`.

Each network, with random weights and small sizes, is compiled from torch, run, and compared with torch itself; it passes if the
largest difference of each result is at most 1e-4 of the result's largest size. Needs the extra `hlo2tx8[corpora]`.
"""

# pyright: basic

import sys
from pathlib import Path

from pool import network_parser, run_networks

IMAGES = {
    "alexnet": 64,
    "convnext_tiny": 64,
    "densenet121": 64,
    "efficientnet_b0": 64,
    "efficientnet_v2_s": 64,
    "googlenet": 64,
    "inception_v3": 96,
    "maxvit_t": 224,
    "mnasnet0_5": 64,
    "mobilenet_v2": 64,
    "mobilenet_v3_large": 64,
    "mobilenet_v3_small": 64,
    "regnet_x_400mf": 64,
    "regnet_y_400mf": 64,
    "resnet18": 64,
    "resnet50": 64,
    "resnext50_32x4d": 64,
    "shufflenet_v2_x0_5": 64,
    "squeezenet1_1": 64,
    "swin_t": 64,
    "swin_v2_t": 64,
    "vgg11": 64,
    "vit_b_16": 224,
    "wide_resnet50_2": 64,
}
"""Networks of torchvision for classification, and the height and width of the image."""
TEXTS = (
    "albert",
    "bert",
    "bert-generation",
    "camembert",
    "convbert",
    "data2vec-text",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "ernie",
    "esm",
    "flaubert",
    "fnet",
    "ibert",
    "megatron-bert",
    "mobilebert",
    "modernbert",
    "mpnet",
    "nystromformer",
    "rembert",
    "roberta",
    "roberta-prelayernorm",
    "roc_bert",
    "roformer",
    "squeezebert",
    "xlm",
    "xlm-roberta",
    "xlnet",
    "xmod",
    "biogpt",
    "bloom",
    "codegen",
    "cohere",
    "ctrl",
    "falcon",
    "gemma",
    "gemma2",
    "gemma3_text",
    "glm",
    "gpt2",
    "gpt_bigcode",
    "gpt_neo",
    "gpt_neox",
    "gptj",
    "granite",
    "llama",
    "mistral",
    "mixtral",
    "mpt",
    "olmo",
    "olmo2",
    "openai-gpt",
    "opt",
    "persimmon",
    "phi",
    "phi3",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "stablelm",
    "starcoder2",
    "xglm",
)
"""Model types of transformers that take tokens."""
PAIRS = ["bart", "blenderbot-small", "m2m_100", "marian", "mbart", "pegasus", "t5"]
"""Those that take tokens for the encoder and for the decoder."""
PICTURES = ["beit", "convnext", "convnextv2", "deit", "dinov2", "poolformer", "resnet", "segformer", "vit"]
"""Those that take images."""


def main() -> int:
    """Run the networks, print the table."""
    kinds = {"torchvision": IMAGES, "text": TEXTS, "pair": PAIRS, "picture": PICTURES}
    sizes = {f"{kind}/{name}": IMAGES.get(name, 32) for kind, names in kinds.items() for name in names}
    return run_networks(Path(__file__).with_name("torch_models_child.py"), sizes, network_parser(__doc__).parse_args())


if __name__ == "__main__":
    sys.exit(main())
