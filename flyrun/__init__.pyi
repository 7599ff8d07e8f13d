from flyrun.api.estimators import FlyrunClassifier as FlyrunClassifier
from flyrun.api.estimators import FlyrunRegressor as FlyrunRegressor
from flyrun.api.fits import difference as difference
from flyrun.api.fits import fit as fit
from flyrun.api.fits import load as load
from flyrun.api.runs import run as run

__all__ = ["FlyrunClassifier", "FlyrunRegressor", "difference", "fit", "load", "run"]
__version__: str
