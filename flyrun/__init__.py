"""flyrun: which sampler can I trust on tall data, and what does it cost?"""

from importlib import import_module

__version__ = "0.1.0"

_HOMES = dict.fromkeys(("posterior", "run"), "experiments.python")
_HOMES |= dict.fromkeys(("difference", "fit", "load"), "fitting.python")
_HOMES |= dict.fromkeys(("FlyrunClassifier", "FlyrunRegressor"), "fitting.estimators")


def __getattr__(name: str) -> object:
    """The Python door, loaded where it is used: `import flyrun` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'flyrun' has no attribute {name!r}")
    return getattr(import_module(f"flyrun.{_HOMES[name]}"), name)
