"""Everything about the package is in pyproject.toml; this adds the compiled scanner, which is optional."""

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:  # then pages are read through selectolax, with the same result
    extensions = []
else:
    scanner = Extension("gossamer.web._scan", ["gossamer/web/_scan.pyx"], extra_compile_args=["-O3"], optional=True)
    extensions = cythonize([scanner], language_level=3)

setup(ext_modules=extensions)
