from flyrun.experiments.python import posterior as posterior
from flyrun.experiments.python import run as run
from flyrun.fitting.estimators import FlyrunClassifier as FlyrunClassifier
from flyrun.fitting.estimators import FlyrunRegressor as FlyrunRegressor
from flyrun.fitting.python import difference as difference
from flyrun.fitting.python import fit as fit
from flyrun.fitting.python import load as load

__all__ = ["FlyrunClassifier", "FlyrunRegressor", "difference", "fit", "load", "posterior", "run"]
__version__: str
