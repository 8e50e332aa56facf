"""This module finds the functions that a configuration names, in a worker: "shop:product" or "shop.py:product"."""

import hashlib
import importlib
import inspect
import os
import sys
import types
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from gossamer import runtime

Function = Callable[[Any], Any]
_HOW = 'write "module:function", of a module in this directory or an installed one, or "file.py:function"'


class NotFound(Exception):
    """`NotFound` says why a function cannot be used, and what to do."""


def load(name: str) -> Function:
    """Returns the function of that name."""
    place, colon, attribute = name.rpartition(":")
    if not (colon and place and attribute):
        raise NotFound(f'"{name}" is no name of a function; {_HOW}')
    if (here := os.getcwd()) not in sys.path:  # last, so that no file of the user's stands in for one of Python's
        sys.path.append(here)
    try:
        module = _of_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        found: Any = module
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise NotFound(f'"{name}" cannot be loaded from {here}: {type(error).__name__}: {error}; {_HOW}') from error
    if not callable(found):
        raise NotFound(f'"{name}" is not a function; {_HOW}')
    _check_shape(name, found)
    return found  # type: ignore[no-any-return]


def _check_shape(name: str, function: Function) -> None:
    """Refuses what would fail on every page."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise NotFound(f'"{name}" is async; write a plain function: `def`, not `async def`')
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise NotFound(
            f'"{name}" cannot be called with one argument, the page or link: {error}; write a function of one parameter'
        ) from None
    except ValueError:  # of some functions in C nothing is known
        return


def canonical(name: str) -> str:
    """Returns the one name of a function that goes by several: "shop:product" for ./shop.py:product, if `import shop`
    finds that very file; of other files, the path from here, or the whole path of one that is elsewhere."""
    place, _, attribute = name.rpartition(":")
    path, here = Path(place).absolute().resolve(), Path.cwd().resolve()
    if not (place.endswith(".py") and path.is_file()):
        return name
    if path.parent == here and path.stem not in sys.stdlib_module_names:
        spec = PathFinder.find_spec(path.stem, [*filter(None, sys.path), str(here)])
        if spec and spec.origin and Path(spec.origin).resolve() == path:
            return f"{path.stem}:{attribute}"
    return f"{path.relative_to(here) if path.is_relative_to(here) else path}:{attribute}"


def is_same(one: str, other: str) -> bool:
    """Returns whether two canonical names, given in different directories, are those of one function: the path from
    one directory is the end of the path from another."""
    if one == other:
        return True
    short, long = (Path(name) for name in sorted((one, other), key=lambda name: len(Path(name).parts)))
    return ".py:" in short.name and not short.is_absolute() and long.parts[-len(short.parts) :] == short.parts


def _of_file(path: Path) -> types.ModuleType:
    """Runs a file as a module. It may be the very script that crawls: then it is run up to there."""
    name = f"gossamer_function_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses look for the module of a class there
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except runtime.InWorker:
        pass
    except BaseException:
        del sys.modules[name]
        raise
    return module


def code_of(function: Function) -> str:
    """Returns a digest of the file that a function is from: it tells versions of the function apart."""
    module = sys.modules.get(getattr(function, "__module__", "") or "")
    path = getattr(module, "__file__", None)
    try:
        data = Path(path).read_bytes() if path else b""
    except OSError:
        data = b""
    return hashlib.sha256(data).hexdigest()[:16]


def name_of(function: Function | str) -> str:
    """Returns the name by which workers find a function. One of the script itself goes by the script's file."""
    if isinstance(function, str):
        return function
    module, name = function.__module__, function.__qualname__
    if "<" in name:
        raise NotFound(f"{name} is inside another function, where workers cannot find it: move it to its module")
    if module != "__main__":
        return f"{module}:{name}"
    path = getattr(sys.modules["__main__"], "__file__", None)
    if not path:
        raise NotFound(f"{name} was typed into Python, where workers cannot find it: write it into a file")
    return f"{Path(path).resolve()}:{name}"
