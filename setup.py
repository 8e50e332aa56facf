"""Everything about the package is in pyproject.toml; this adds the compiled scanner, which is optional."""

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

try:
    from Cython.Build import cythonize
except ImportError:  # then pages are read through selectolax, with the same result
    cythonize = None


class OptionalBuild(build_ext):
    """Goes on without the scanner where it cannot be compiled. An optional extension alone does not see to that: it
    forgives what the compiler complains about, but not that there is none."""

    def build_extension(self, extension):
        try:
            super().build_extension(extension)
        except Exception as error:
            self.warn(
                f"{extension.name} is left out, as it could not be compiled ({error}); Gossamer works without it, but "
                "finds links more slowly: install a C compiler and Python's headers, then Gossamer again"
            )


def scanner():
    if cythonize is None:
        return []
    sources = [
        Extension(f"gossamer.web.{name}", [f"gossamer/web/{name}.pyx"], extra_compile_args=["-O3"])
        for name in ("_links", "_scan")
    ]
    extensions = cythonize(sources, language_level=3)
    for extension in extensions:  # here, as Cython makes new ones
        extension.optional = True
    return extensions


setup(ext_modules=scanner(), cmdclass={"build_ext": OptionalBuild})
