"""Gossamer is built and installed where there is no compiler, and crawls there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ROOT

from gossamer.cli.simulate import NO_CLONE
from gossamer.testweb.running import RunningWeb
from gossamer.testweb.spec import WebSpec

BUILD = ("-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", "made")


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["false", "no-such-compiler"])
def test_without_a_compiler_the_slower_parser_does_the_work(tmp_path: Path, compiler: str) -> None:
    pytest.importorskip("Cython", reason="it belongs to the development tools: pip install -e .[dev]")
    source = tmp_path / "source"
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        source.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source)
    compiled = shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    for name in ("gossamer", "experiments", "benchmarks"):
        shutil.copytree(ROOT / name, source / name, ignore=compiled)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    tools = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    subprocess.run(
        [sys.executable, *BUILD], cwd=source, env={**environment, **tools, "CC": compiler}, check=True, timeout=240
    )
    (wheel,) = (source / "made").glob("*.whl")
    installed = tmp_path / "installed"
    shutil.unpack_archive(wheel, installed, "zip")
    assert not list(installed.glob("gossamer/web/*.so"))
    assert {each.name for each in installed.iterdir() if not each.name.endswith(".dist-info")} == {"gossamer"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gossamer", "lab", "order"],
        cwd=tmp_path, env={**environment, "PYTHONPATH": str(installed)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, f"gossamer: {NO_CLONE}\n")
    with RunningWeb(WebSpec.plain(seed=5, hosts=2, pages=8, page_bytes=500.0, links=3.0)) as web:
        crawl = ("crawl", web.start_url, "--testweb", web.address, "--scope", "any", "--delay", "0", "--quiet")
        done = subprocess.run(
            [sys.executable, "-P", "-m", "gossamer", *crawl, "--set", "crawl.patience_s=0.1"],
            cwd=tmp_path, env={**environment, "PYTHONPATH": str(installed), "COLUMNS": "300"},
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert "gossamer: links are found by the slower parser" in done.stdout
        assert "install a C compiler" in done.stdout
        urls = set(web.truth.urls(web.truth.reachable()))
    found = subprocess.run(
        [sys.executable, "-P", "-m", "gossamer", "query", "crawl", "SELECT url FROM pages", "--format", "csv"],
        cwd=tmp_path, env={**environment, "PYTHONPATH": str(installed)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert set(found.stdout.splitlines()[1:]) == urls
