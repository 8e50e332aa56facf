"""Counts what a reader has before him, in one tree or in two: lines of each package, and what runs for a single URL.

python scripts/count_house.py [OTHER_TREE]     such as another commit, from `git archive COMMIT | tar x -C DIRECTORY`
"""

import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
# One page from a loopback server, by one agent; what runs of the package is noted, in all threads.
ONE_URL = """
import http.server, sys, tempfile, threading
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/" else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>One</title><p>A page.")
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
from gossamer import Config, Crawl
values = {"fetch.contact": "a@b.org", "crawl.pages": 1, "resolve.map": {"*": f"127.0.0.1:{server.server_port}"}}
ran = set()
def note(frame, event, _):
    if event == "call" and "/gossamer/" in (path := frame.f_code.co_filename):
        ran.add((path, frame.f_code.co_firstlineno, frame.f_code.co_name))
threading.setprofile(note)
sys.setprofile(note)
Crawl(tempfile.mkdtemp(), ["http://one.example/"], Config().replace(values)).run()
sys.setprofile(None)
print(len(ran), len({path for path, *_ in ran}))
"""


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def docstring_lines(tree: ast.Module) -> int:
    bodies = (node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef))
    return sum(body[0].end_lineno - body[0].lineno + 1 for body in bodies if body and is_text(body[0]))  # type: ignore


def package_of(name: str) -> str:
    return "/".join(name.split(".")[:2])


def cycles(modules: dict[str, ast.Module]) -> int:
    """Counts the packages that are left when those are taken away, again and again, that import none of the others."""
    packages = {package_of(name) for name in modules if name.count(".") > 1}
    graph: dict[str, set[str]] = {package: set() for package in packages}
    for name, tree in modules.items():
        if (package := package_of(name)) in packages:
            found = (node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module)
            graph[package] |= {package_of(each) for each in found if package_of(each) in packages} - {package}
    sorter = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError as error:
        return len(set(error.args[1]))
    return 0


def lines(paths: Iterable[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in paths if path.suffix in (".py", ".pyx"))


def counted(top: Path) -> dict[str, int | str]:
    texts = {path: path.read_text("utf-8") for path in sorted((top / "gossamer").rglob("*.py"))}
    modules = {".".join(path.relative_to(top).with_suffix("").parts): ast.parse(text) for path, text in texts.items()}
    found: Counter[str] = Counter()
    for path in (top / "gossamer").rglob("*.py*"):
        found[package_of(".".join(path.relative_to(top).parent.parts))] += lines([path])
    found["shipped"] = sum(found.values())
    for folder in ("experiments", "tests", "benchmarks"):
        found[folder] = lines((top / folder).rglob("*.py"))
    found["modules"] = sum(path.name != "__init__.py" for path in texts)
    found["packages in a cycle"] = cycles(modules)
    found["dict[str, Any]"] = sum(text.count("dict[str, Any]") for text in texts.values())
    docstrings = sum(map(docstring_lines, modules.values()))
    command, where = [sys.executable, "-c", ONE_URL], {**os.environ, "PYTHONPATH": str(top)}
    functions, touched = subprocess.run(command, cwd=top, env=where, check=True, capture_output=True).stdout.split()
    ran = {"functions for one URL": int(functions), "modules for one URL": int(touched)}
    return {**found, "docstrings": f"{docstrings / lines(texts):.1%}", **ran}


def main() -> None:
    columns = [counted(top) for top in [*map(Path, sys.argv[1:]), TOP]]
    for name in dict.fromkeys(name for column in columns for name in column):
        print(f"{name:24}", *(f"{column.get(name, 0):>10}" for column in columns))


if __name__ == "__main__":
    main()
