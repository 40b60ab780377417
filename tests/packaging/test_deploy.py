"""What lies in `deploy/`, as far as it can be tried without containers; and the units in docs/deploy.md."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.federation.mosquitto import Mosquitto, free_port, needs_mosquitto

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CLIENTS = ("client-1", "client-2", "client-3")


def test_the_clients_in_compose_are_those_that_are_prepared() -> None:
    yaml = pytest.importorskip("yaml")
    services: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert set(services) == {"broker", "server", *CLIENTS, "prometheus", "grafana"}
    assert f'"{" ".join(CLIENTS)}"' in (DEPLOY / "prepare.sh").read_text()
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE))
    for service in services.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert "build" not in service or service["build"]["target"] in stages
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            there = source.startswith("./run/") or not source.startswith(".") or (DEPLOY / source).exists()
            assert there, source


def test_containers_of_ours_do_not_run_as_root() -> None:
    stages = re.split(r"^FROM ", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)[1:]
    users = {re.match(r"(\S+) AS (\S+)", stage).groups(): "USER 10001" in stage for stage in stages}  # type: ignore[union-attr]  # a stage has a name
    asked = {
        name: given or users.get(("python:3.11-slim-bookworm", base), False)
        for (base, name), given in users.items()
    }
    assert {name: asked[name] for name in ("server", "client", "device")} == dict.fromkeys(
        ("server", "client", "device"), True
    )


def test_what_the_image_copies_is_enough_to_build_the_package(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    stage = (DEPLOY / "Dockerfile").read_text().partition(" AS build\n")[2].partition("\nFROM ")[0]
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [name for line in re.findall(r"^COPY (.*) \S+$", stage, re.MULTILINE) for name in line.split()]
    assert "src" in copied
    for name in copied:
        assert name in sent, f"{name} is in .dockerignore"
        if name == "src":
            skipped = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, tmp_path / name, ignore=skipped)
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (made.returncode, len(list((tmp_path / "dist").glob("*.whl")))) == (0, 1), made.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    blocks = re.findall(
        r"```ini\n# /etc/systemd/system/(\S+)\n(.*?)```", (ROOT / "docs/deploy.md").read_text(), re.DOTALL
    )
    assert len(blocks) == 2
    for name, text in blocks:
        unit = tmp_path / name
        unit.write_text(
            text.replace("/opt/ofediq/venv/bin/ofediq", "/bin/true")
        )  # it must be there to be executed
        found = subprocess.run(
            ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False
        )
        assert (found.returncode, name in found.stderr) == (0, False), found.stderr


def read(address: str, token: str) -> str:
    """What the page says; empty as long as it does not answer."""
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError):
        return ""


def metrics_in_dashboard() -> set[str]:
    """The names that Grafana asks for."""
    panels = json.loads((DEPLOY / "grafana/ofediq.json").read_text())["panels"]
    text = " ".join(target["expr"] for panel in panels for target in panel["targets"])
    return set(re.findall(r"ofediq_\w+", text))


@needs_mosquitto
def test_the_same_files_make_a_federation_without_containers_whose_metrics_the_dashboard_knows(
    tmp_path: Path,
) -> None:
    home = tmp_path / "deploy"
    shutil.copytree(DEPLOY, home, ignore=shutil.ignore_patterns("run"))
    binaries = tmp_path / "bin"
    binaries.mkdir()
    command = binaries / "ofediq"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m ofediq "$@"\n')
    command.chmod(0o755)
    chosen = {
        "HOSTS": "localhost 127.0.0.1",
        "AT": str(home / "run/certs/broker"),
        "DATA": str(tmp_path),
        "TOKEN": "secret",
    }
    environment = {**os.environ, **chosen, "PATH": f"{binaries}:{os.environ['PATH']}"}
    subprocess.run(
        ["sh", str(home / "prepare.sh")], env=environment, check=True, timeout=120, capture_output=True
    )

    def configuration(port: int) -> str:
        text = (home / "run/certs/broker/mosquitto.conf").read_text()
        return text.replace("listener 8883", f"listener {port} 127.0.0.1")

    running, page = [], free_port()
    with Mosquitto(tmp_path / "broker", configuration, secure=True) as broker:
        for name in ("server", *CLIENTS):
            file = home / "run" / name / ("federation.toml" if name == "server" else "client.toml")
            text = file.read_text().replace("mqtts://broker:8883", f"mqtts://localhost:{broker.port}")
            text = text.replace("interval = 1.0", "interval = 0.2").replace(
                "deadline = 0.8", "deadline = 0.2"
            )
            text = text.replace('host = "0.0.0.0"', f'host = "127.0.0.1"\nport = {page}')
            file.write_text(text)
            what = "serve" if name == "server" else "client"
            with (tmp_path / f"{name}.log").open("wb") as log:
                arguments = [
                    sys.executable,
                    "-m",
                    "ofediq",
                    what,
                    "--config",
                    str(file),
                    "--log-format",
                    "json",
                ]
                running.append(subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        try:
            deadline, said = time.monotonic() + 60, ""
            while time.monotonic() < deadline and not re.search(
                r"^ofediq_prediction_error_count [1-9]", said, re.MULTILINE
            ):
                time.sleep(0.2)
                said = read(f"http://127.0.0.1:{page}/metrics", "secret")
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.wait(timeout=30)
    shown = set(re.findall(r"^(ofediq_\w+)", said, re.MULTILINE)) | set(
        re.findall(r"^# TYPE (ofediq_\w+)", said, re.MULTILINE)
    )
    logs = "\n".join(file.read_text() for file in tmp_path.glob("*.log"))
    assert "ofediq_clients_present 3.0" in said, logs
    assert metrics_in_dashboard() <= shown
