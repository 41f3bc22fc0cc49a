"""Keras's networks on the emulator: `python tests/corpora/keras_applications.py [--only=RE] [--log=FILE]`.

Each network of keras.applications below, with random weights, is compiled for one image, run, and compared with TensorFlow: as it
is, or (kind saved) exported to a SavedModel folder and read from there. A network passes if the largest difference of its logits is
at most 1e-4 of their largest size.
"""

# pyright: basic

import sys
from pathlib import Path

from pool import network_parser, run_networks

NETWORKS = {
    "ConvNeXtTiny": 64,
    "DenseNet121": 64,
    "EfficientNetB0": 64,
    "EfficientNetV2B0": 64,
    "InceptionV3": 96,
    "MobileNet": 64,
    "MobileNetV2": 64,
    "MobileNetV3Small": 64,
    "NASNetMobile": 64,
    "ResNet50": 64,
    "ResNet50V2": 64,
    "VGG16": 64,
    "Xception": 96,
}
"""Names of networks, and the height and width of the image."""


def main() -> int:
    """Run the networks, print the table."""
    sizes = {f"{kind}/{name}": size for kind in ("model", "saved") for name, size in NETWORKS.items()}
    return run_networks(Path(__file__).with_name("keras_applications_child.py"), sizes, network_parser(__doc__).parse_args())


if __name__ == "__main__":
    sys.exit(main())
