"""The compiled scanner under the address and undefined-behaviour sanitizers, on mutated pages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g"


def library(name: str) -> str:
    """Returns the compiler's own copy of a library; "" if it has none."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return ""
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    path = found.stdout.strip()
    return path if Path(path).is_absolute() else ""


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_the_scanner_is_clean_under_sanitizers(tmp_path: Path) -> None:
    preload = [library("libasan.so"), library("libubsan.so")]
    if not all(preload):
        pytest.skip("needs gcc with libasan and libubsan")
    shutil.copytree(
        TOP / "gossamer", tmp_path / "gossamer", ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    )
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(TOP / name, tmp_path)
    build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    flags = {"CFLAGS": FLAGS, "LDFLAGS": FLAGS}
    subprocess.run(build, cwd=tmp_path, env=os.environ | flags, check=True, capture_output=True)
    assert len(list(tmp_path.glob("gossamer/web/*.so"))) == 3
    environment = {
        "LD_PRELOAD": " ".join(preload),
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter's own, at its end
        "PYTHONMALLOC": "malloc",  # so that every block of ours is watched
        "PYTHONPATH": str(tmp_path),
    }
    fuzz = [sys.executable, str(Path(__file__).with_name("fuzz_links.py")), "--pages", "20000", "--seed", "7"]
    done = subprocess.run(fuzz, cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
    assert f"read by {tmp_path}" in done.stdout  # and not by the scanner of the installation
