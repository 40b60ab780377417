from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ofediq.errors import InputError
from ofediq.streams import NAMES, load, status
from ofediq.streams.locate import read
from ofediq.streams.sources import ABOUT


def test_digits_are_images_in_the_unit_interval() -> None:
    data = load("digits")
    assert (len(data), data.sample_shape, data.classes) == (1797, (8, 8), 10)
    np.testing.assert_array_equal(data.x, load("digits", scaling="none").x / 16)
    assert data.scaling == "x / 16"


def test_standard_scaling_has_mean_zero_and_variance_one_or_zero() -> None:
    x = load("digits", scaling="standard").x.astype(float)
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-5)
    variance = x.var(axis=0)
    assert ((np.abs(variance - 1) < 1e-4) | (variance == 0)).all()


def test_status_says_where_the_files_are(empty_places: tuple[Path, Path]) -> None:
    rows = {row.name: row for row in status()}
    assert tuple(rows) == NAMES
    assert rows["digits"].place == "embedded"
    assert rows["synthetic"].place == "generated"
    assert (rows["room"].place, rows["room"].size) == ("not here", 931_630)
    (empty_places[0] / "Occupancy_Estimation.csv").write_bytes(b"1234")
    here = next(row for row in status() if row.name == "room")
    assert (here.place, here.size, here.files) == ("OFEDIQ_DATA", 4, ("Occupancy_Estimation.csv",))


def test_a_dataset_is_here_only_with_all_its_files(empty_places: tuple[Path, Path]) -> None:
    (empty_places[0] / "train-images-idx3-ubyte.gz").write_bytes(b"")
    assert next(row for row in status() if row.name == "mnist").place == "not here"


@pytest.mark.parametrize("name", NAMES)
def test_every_dataset_with_files_names_licence_source_and_citation(name: str) -> None:
    about = ABOUT[name]
    assert about.licence
    assert name == "synthetic" or (about.url.startswith("http") and about.citation)
    for source in about.sources:
        assert len(source.sha256) == len(hashlib.sha256().hexdigest())
        assert all(url.startswith("https://") for url in source.urls)
        assert source.urls


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "cifar"}, "`name` must be one of digits, .*got 'cifar'"),
        ({"name": "digits", "scaling": "log"}, "`scaling` must be one of auto, .*got 'log'"),
        ({"name": "digits", "scaling": "authors"}, "'digits' has no scaling of the paper's authors"),
        ({"name": "digits", "split": "test"}, "dataset 'digits' takes no options, got `split`"),
        ({"name": "room", "target": "x"}, "dataset 'room' takes subset, got `target`"),
        ({"name": "room", "subset": "half"}, "`subset` must be one of all, balanced, got 'half'"),
        ({"name": "mnist", "split": "half"}, "`split` must be one of train, test, got 'half'"),
        ({"name": "air", "target": "O3"}, r"`target` must be one of C6H6\(GT\), .*got 'O3'"),
        ({"name": "synthetic", "scaling": "minmax"}, "`scaling` must be one of auto, none, got 'minmax'"),
        ({"name": "synthetic", "features": 1}, "`features` must be an integer >= 2, got 1"),
        ({"name": "synthetic", "colour": 1}, "dataset 'synthetic' takes .*got `colour`"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(**arguments)


def test_importing_the_room_imports_no_data_stack() -> None:
    heavy = "{'jax', 'pandas', 'sklearn', 'pooch', 'pyarrow', 'scipy', 'matplotlib'}"
    code = f"import sys, ofediq.streams; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("real_data", ["mnist", "room", "pm25", "air", "energy"], indirect=True)
def test_the_files_have_their_upstream_size(real_data: str) -> None:
    assert [len(read(source)) for source in ABOUT[real_data].sources] == [
        source.size for source in ABOUT[real_data].sources
    ]
