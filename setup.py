"""Everything about the package is in pyproject.toml; this adds the compiled scanner, which is optional.

GOSSAMER_ABI3=1 compiles it for the limited API: one wheel for Python 3.11 and later (scripts/check_packages).
"""

import os

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

try:
    from Cython.Build import cythonize
except ImportError:  # then pages are read through selectolax, with the same result
    cythonize = None

ABI3 = os.environ.get("GOSSAMER_ABI3") == "1"


class OptionalBuild(build_ext):
    """Goes on without the scanner where it cannot be compiled. An optional extension alone does not see to that: it
    forgives what the compiler complains about, but not that there is none."""

    def build_extension(self, extension):
        try:
            super().build_extension(extension)
        except Exception as error:
            if ABI3:  # a wheel for others must be whole
                raise
            self.warn(
                f"{extension.name} is left out, as it could not be compiled ({error}); Gossamer works without it, but "
                "finds links more slowly: install a C compiler and Python's headers, then Gossamer again"
            )


def scanner():
    if cythonize is None:
        return []
    sources = [
        Extension(
            f"gossamer.web.{name}",
            [f"gossamer/web/{name}.pyx"],
            extra_compile_args=["-O3"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if ABI3 else [],
            py_limited_api=ABI3,
        )
        for name in ("_head", "_links", "_scan")
    ]
    extensions = cythonize(sources, language_level=3)
    for extension in extensions:  # here, as Cython makes new ones
        extension.optional = not ABI3
    return extensions


setup(
    ext_modules=scanner(),
    cmdclass={"build_ext": OptionalBuild},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 else {},
)
