"""Keras's networks on the emulator: `python tests/corpora/keras_applications.py [--only=RE] [--log=FILE]`.

Each network of keras.applications below, with random weights, is compiled for one image, run, and compared with TensorFlow: as it
is, or (kind saved) exported to a SavedModel folder and read from there. A network passes if the largest difference of its logits is
at most 1e-4 of their largest size.
"""

# pyright: basic

import argparse
import re
import sys
from pathlib import Path

from pool import add_farm_flags, report, run_and_tell

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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression over KIND/NAME")
    parser.add_argument("--log", type=Path, help="a JSON line per network goes there")
    parser.add_argument("--timeout", type=float, default=600, help="seconds per network")
    add_farm_flags(parser)
    arguments = parser.parse_args()
    cases = [f"{kind}/{name}" for kind in ("model", "saved") for name in NETWORKS]
    requests = [
        {"case": case, "name": case.partition("/")[2], "kind": case.partition("/")[0], "size": NETWORKS[case.partition("/")[2]]}
        for case in cases
        if re.search(arguments.only, case)
    ]
    if not requests:
        sys.exit(f"no network matches {arguments.only}")
    outcomes = run_and_tell(Path(__file__).with_name("keras_applications_child.py"), requests, arguments)
    print(report(outcomes, lambda outcome: outcome["case"].partition("/")[0]))
    return int(any(outcome["outcome"] == "failed" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
