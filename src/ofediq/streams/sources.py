"""Facts about the datasets that come by name: files, checksums, where they come from, licence, citation.

Recipes and figures refer to exactly these bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ofediq.streams.dataset import Task
from ofediq.streams.locate import Upstream


@dataclass(frozen=True)
class About:
    """What is known about a dataset before it is loaded.

    Attributes:
        name: how `load` calls it.
        task: "classification" or "regression".
        samples: how many, with the default options; None if an option decides.
        features: numbers per sample; None if an option decides.
        sources: its files; empty for embedded and generated data.
        licence: under which it is published.
        citation: who to cite.
        url: its page.
    """

    name: str
    task: Task
    samples: int | None
    features: int | None
    sources: tuple[Upstream, ...]
    licence: str
    citation: str
    url: str


def _uci(number: int, title: str) -> tuple[str, ...]:
    return (f"https://archive.ics.uci.edu/static/public/{number}/{title}.zip",)


def _mnist(name: str, sha256: str, size: int) -> Upstream:
    mirrors = (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    )
    return Upstream(name, sha256, size, tuple(mirror + name for mirror in mirrors))


MNIST_TRAIN = (
    _mnist(
        "train-images-idx3-ubyte.gz",
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        9_912_422,
    ),
    _mnist(
        "train-labels-idx1-ubyte.gz",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        28_881,
    ),
)
MNIST_TEST = (
    _mnist(
        "t10k-images-idx3-ubyte.gz",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        1_648_877,
    ),
    _mnist(
        "t10k-labels-idx1-ubyte.gz",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        4_542,
    ),
)
ROOM = Upstream(
    "Occupancy_Estimation.csv",
    "c090ee5c94b61762bfec9d22767864490b51030f98cca030f02822468db25d9c",
    931_630,
    _uci(864, "room+occupancy+estimation"),
)
PM25 = Upstream(
    "PRSA_data_2010.1.1-2014.12.31.csv",
    "4127f868775e31b3956522adc0ec75af8937dde6a3896e8beed3a376c6d27f1c",
    2_010_494,
    _uci(381, "beijing+pm2+5+data"),
)
AIR = Upstream(
    "AirQualityUCI.csv",
    "13277ae5d8581e80b7be09d47c7d3d06fe9b8e957078f2cf6e859f955e62f996",
    785_065,
    _uci(360, "air+quality"),
)
ENERGY = Upstream(
    "energydata_complete.csv",
    "2820bf712ad0275cb18b85a05250926100d8e65ebb9f4d2d016ca91ea152a25d",
    11_979_363,
    _uci(374, "appliances+energy+prediction"),
)

ABOUT: dict[str, About] = {
    about.name: about
    for about in (
        About(
            "digits",
            "classification",
            samples=1_797,
            features=64,
            sources=(),
            licence="CC BY 4.0 (UCI 80); inside scikit-learn",
            citation="E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning "
            "Repository, 1998, https://doi.org/10.24432/C50P49",
            url="https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
        ),
        About(
            "mnist",
            "classification",
            samples=60_000,
            features=784,
            sources=MNIST_TRAIN,
            licence="CC BY-SA 3.0 according to the Keras documentation; the original page states none",
            citation="Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, Gradient-based learning applied to document "
            "recognition, Proc. IEEE 86(11):2278-2324, 1998",
            url="http://yann.lecun.com/exdb/mnist/",
        ),
        About(
            "room",
            "classification",
            samples=10_129,
            features=14,
            sources=(ROOM,),
            licence="CC BY 4.0",
            citation="A. P. Singh, S. Chaudhari, Room Occupancy Estimation, UCI Machine Learning Repository, "
            "2018, https://doi.org/10.24432/C5P605",
            url="https://archive.ics.uci.edu/dataset/864/room+occupancy+estimation",
        ),
        About(
            "pm25",
            "regression",
            samples=38_563,
            features=5,
            sources=(PM25,),
            licence="CC BY 4.0",
            citation="S. Chen, Beijing PM2.5, UCI Machine Learning Repository, 2015, "
            "https://doi.org/10.24432/C5JS49",
            url="https://archive.ics.uci.edu/dataset/381/beijing+pm2+5+data",
        ),
        About(
            "air",
            "regression",
            samples=8_991,
            features=5,
            sources=(AIR,),
            licence="CC BY 4.0; an older sentence on its page allows research use only",
            citation="S. De Vito et al., On field calibration of an electronic nose for benzene estimation in "
            "an urban pollution monitoring scenario, Sensors and Actuators B 129(2):750-757, 2008, "
            "https://doi.org/10.24432/C59K5F",
            url="https://archive.ics.uci.edu/dataset/360/air+quality",
        ),
        About(
            "energy",
            "regression",
            samples=18_604,
            features=25,
            sources=(ENERGY,),
            licence="CC BY 4.0",
            citation="L. Candanedo, Appliances Energy Prediction, UCI Machine Learning Repository, 2017, "
            "https://doi.org/10.24432/C5VC8G",
            url="https://archive.ics.uci.edu/dataset/374/appliances+energy+prediction",
        ),
        About(
            "synthetic",
            "regression",
            samples=None,
            features=None,
            sources=(),
            licence="none needed: generated from a seed",
            citation="",
            url="",
        ),
    )
}
