"""Put the stand-in under CuPy in every process of the test, as soon as CuPy is imported."""

import importlib.abc
import importlib.machinery
import sys


class Loader(importlib.abc.Loader):
    """Loads CuPy as ever, and changes it."""

    def __init__(self, usual):
        self._usual = usual

    def create_module(self, spec):
        return self._usual.create_module(spec)

    def exec_module(self, module):
        import stand_in

        self._usual.exec_module(module)
        stand_in.install(module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds CuPy where it is."""

    def find_spec(self, name, path=None, target=None):
        if name != "cupy":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader)
        return spec


sys.meta_path.insert(0, Finder())
