"""Numbers of a chain's options at both ends of their range, and just within: it runs or says why not."""

import typing

import numpy as np
import pytest

from flyrun.config.arm import Arm
from flyrun.config.dataset import Table
from flyrun.config.model import Logistic
from flyrun.config.prior import Gaussian
from flyrun.config.protocol import Protocol
from flyrun.config.sampler.approximations import Importance
from flyrun.config.sampler.chain import ThetaUpdate
from flyrun.config.schema import SCHEMAS, typed_fields
from flyrun.data.dataset import Dataset
from flyrun.errors import FlyrunError
from flyrun.samplers.method import prepare

LARGEST = float(np.finfo(float).max)


def _ends(limits, hint):
    """The ends of a range and the numbers next to them; a float without an upper end: the largest."""
    if int in (hint, *typing.get_args(hint)):
        low = limits.at_least if limits.above is None else limits.above + 1
        return [low, low + 1, *([] if limits.at_most is None else [limits.at_most - 1, limits.at_most])]
    low = limits.above if limits.at_least is None else limits.at_least
    high = LARGEST if limits.at_most is None else float(limits.at_most)
    within = [float(np.nextafter(low, np.inf)), float(np.nextafter(high, -np.inf)), high]
    return within if limits.at_least is None else [float(low), *within]


def _beside(group, name):
    """The options that go with one of a group."""
    cls = SCHEMAS[group][name]
    made = {"model": Logistic(), "prior": Gaussian(), "bound": "none", "brightness": "none"}
    made |= {"sampler": "slice"}
    if group == "bound" and cls.firefly:
        made |= {"brightness": "per_datum" if name == "local" else "implicit"}
    elif group in ("prior", "model") or (group == "brightness" and cls.firefly):
        made |= {"bound": "map", "brightness": "implicit"}
    elif group == "acceptance":
        made |= {"sampler": SCHEMAS["sampler"]["random_walk"](metric="hessian", step=1.0)}
    elif name == "surrogate_transition":
        made |= {"acceptance": "mh_ss"}
    elif name == "importance":
        made |= {"bound": None, "brightness": None}
    return {key: SCHEMAS[key][one]() if isinstance(one, str) else one for key, one in made.items()}


def _options():
    for group in ("bound", "brightness", "acceptance", "prior", "model", "sampler", "protocol"):
        for name, cls in SCHEMAS[group].items():
            if group == "sampler" and not issubclass(cls, ThetaUpdate | Importance):
                continue
            if group == "model" and name not in ("student_t", "clutter"):
                continue
            if not cls.__module__.startswith("flyrun.config"):
                continue  # a plug-in's
            for key, hint, item in typed_fields(cls):
                limits = item.metadata.get("range")
                if limits is not None and "." not in key and not limits.at_least_one:
                    yield pytest.param(group, name, key, _ends(limits, hint), id=f"{group}={name} {key}")


def _said(group, name, key, value, folder, patch, iterations):
    """What ends the set-up or the first iterations with this value; "" where nothing does."""
    rng, groups = np.random.default_rng(2), _beside(group, name)
    protocol = {"iterations": 4, "burn_in": 2, "init": "map", "thin": 1, "name": "default"}
    try:
        if group == "protocol":
            protocol |= {key: value}
        else:
            groups[group] = SCHEMAS[group][name](**{key: value})
        x = np.c_[rng.normal(size=8), np.ones(8)]
        y = np.where(x[:, 0] + rng.normal(size=8) > 0, 1.0, -1.0)
        data = Dataset("ends", x, y, x[:0], y[:0], ("a", "b"), "ends", task=groups["model"].task)
        patch.setattr("flyrun.data.load", lambda config: data)
        groups |= {"dataset": Table(path="-", target="y"), "protocol": Protocol(**protocol)}
        method = prepare(Arm(experiment="", name="arm", **groups), folder)
        if iterations:
            state, draws = method.advance(method.init(0), iterations)
            method.facts(state)
            if np.isnan(draws["theta"]).any():
                return "NaN\n"
    except FlyrunError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("group", "name", "key", "ends"), list(_options()))
@pytest.mark.parametrize("iterations", [0, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_an_end_of_a_range_runs_or_is_refused_in_one_line(
    group, name, key, ends, iterations, tmp_path, monkeypatch
):
    """What a range allows is typed one day: no traceback, no warning, no number that is none."""
    for value in ends:
        assert "\n" not in _said(group, name, key, value, tmp_path, monkeypatch, iterations)
