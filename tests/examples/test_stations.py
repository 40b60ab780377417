"""The twelve stations of docs/stations.md, shortened."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import ofediq

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("OFEDIQ_DATA", "")) / "beijing_multisite.csv.gz"


@pytest.mark.skipif(not DATA.is_file(), reason="needs the stations' file")
def test_the_stations_become_a_live_federation(tmp_path: Path) -> None:
    # In a process of its own: the embedded broker ends with the last connections half open.
    program = (
        "import json, pathlib, runpy; "
        f"main = runpy.run_path({str(ROOT / 'examples' / 'stations.py')!r})['main']; "
        f"folder = pathlib.Path({str(tmp_path)!r}); "
        f"snapshot = main(pathlib.Path({str(DATA)!r}), stations=2, hours=60, folder=folder); "
        "print(json.dumps({'state': snapshot['state'], **snapshot['totals']}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    found = json.loads(last)
    assert found["state"] == "finished"
    assert found["samples"] >= 2 * 53  # of 54 each: a first guess from nothing is not judged
    assert found["skill"] > -0.1
    assert any("2 stations" in line for line in lines)
    card = ofediq.load_model(tmp_path / "state" / "model.safetensors").card
    assert card["features"] == ["TEMP", "PRES", "DEWP", "RAIN", "WSPM"]


def test_the_page_shows_the_files_that_the_example_writes(tmp_path: Path) -> None:
    from ofediq.federation import Broker

    write = runpy.run_path(str(ROOT / "examples" / "stations.py"))["write_configs"]
    broker = Broker("mqtt://localhost:1883", insecure=True)
    write(tmp_path, ["Aotizhongxin", "Changping"], broker, rounds=1350)
    text = (ROOT / "docs" / "stations.md").read_text(encoding="utf-8")
    for name in ("federation.toml", "Aotizhongxin.toml"):
        assert (tmp_path / name).read_text().strip() in text
