"""Numbers of options at both ends of their range, and just within: it runs or says why not.

Chains on one set of rows, with what surrounds them; every other sampler on tiny data of its own kind, its
other words too.
"""

import contextlib
import faulthandler
import re
import signal
import typing

import numpy as np
import pytest

from flyrun.experiments.config.arm import Arm, Job
from flyrun.experiments.config.prior import Gaussian
from flyrun.experiments.config.protocol import Protocol
from flyrun.experiments.config.sampler.approximations import Importance
from flyrun.experiments.config.sampler.chain import ThetaUpdate
from flyrun.experiments.config.sampler.combinations import Combination, WeierstrassExtrapolated
from flyrun.experiments.runner import launch
from flyrun.experiments.samplers.method import prepare
from flyrun.families.options import Logistic
from flyrun.ground.errors import FlyrunError
from flyrun.ground.schema import SCHEMAS, typed_fields
from flyrun.tables.dataset import Dataset
from flyrun.tables.options import Table

LARGEST = float(np.finfo(float).max)
LONGEST_S = 60  # of a case; setting up compiles
#: tiny data of each kind of model, and of the samplers that are for one model alone
ROWS = {"dataset": ("toy_2d", {"n_data": 16}), "model": ("logistic", {}), "prior": ("gaussian", {})}
WORDS = {"n_documents": 12, "n_valid": 4, "n_test": 4, "n_words": 8, "n_topics": 2, "length": 6.0}
TINY = {
    "rows": ROWS,
    "cavi": ROWS | {"dataset": ("clutter", {"n_data": 12}), "model": ("clutter", {})},
    "mixture_svi": ROWS | {"dataset": ("mixture", {"n_data": 12}), "model": ("mixture", {})},
    "function": {"dataset": ("noisy_curve", {"n_data": 20}), "model": ("gaussian_process", {})},
    "weights": {"dataset": ("lattice", {"rows": 3, "columns": 3}), "model": ("ising", {})},
    "precision": {"dataset": ("precision", {"n_variables": 4}), "model": ("gaussian_field", {})},
    "hierarchy": {"dataset": ("gaussian_toy", {"n_data": 12}), "model": ("normal_means", {})},
    "documents": {"dataset": ("topic_corpus", WORDS), "model": ("lda", {"n_topics": 2})},
}
#: what is small where the data are
SMALL = {"batch": 4, "inducing": 4, "particles": 20, "shards": 2, "trees": 2, "workers": 3}


def _ends(limits, hint):
    """The ends of a range and the numbers next to them; a float without an upper end: the largest."""
    kinds = typing.get_args(hint)
    if vectors := [one for one in kinds if typing.get_origin(one) is tuple]:  # one number after the other
        size = len(typing.get_args(vectors[0]))
        each = _ends(limits, float)
        return [tuple(end if k == at else 1.0 for k in range(size)) for at in range(size) for end in each]
    if int in (hint, *kinds):
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
            if not cls.__module__.startswith("flyrun.experiments.config"):
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
        patch.setattr("flyrun.experiments.data.load", lambda config: data)
        groups |= {"dataset": Table(path="-", target="y"), "protocol": Protocol(**protocol)}
        method = prepare(Arm(experiment="", name="arm", **groups), folder)
        if iterations:
            state, draws = method.advance(method.init(0), iterations)
            method.facts(state)
            if any(np.isnan(np.asarray(values, dtype=float)).any() for values in draws.values()):
                return "NaN\n"
    except FlyrunError as error:
        return str(error)
    return ""


@pytest.mark.thorough(but=20)
@pytest.mark.parametrize(("group", "name", "key", "ends"), list(_options()))
@pytest.mark.parametrize("iterations", [0, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_an_end_of_a_range_runs_or_is_refused_in_one_line(
    group, name, key, ends, iterations, tmp_path, monkeypatch
):
    """What a range allows is typed one day: no traceback, no warning, no number that is none."""
    for value in ends:
        assert "\n" not in _said(group, name, key, value, tmp_path, monkeypatch, iterations)


def _families():
    """Of all other samplers the options that are numbers, under each other word of theirs."""
    for name, cls in SCHEMAS["sampler"].items():
        if issubclass(cls, ThetaUpdate | Importance) or not cls.__module__.startswith(
            "flyrun.experiments.config"
        ):
            continue
        fields = [one for one in typed_fields(cls) if "." not in one[0]]
        words = [({}, "")]
        for key, hint, item in fields:
            others = (True, False) if hint is bool else typing.get_args(hint)
            if hint is bool or typing.get_origin(hint) is typing.Literal:
                words += [({key: one}, f" {key}={one}") for one in others if one != item.default]
        for said, word in words:
            if {"processes", "dask"} & {*said.values()}:
                continue  # teams of processes take seconds to start
            for key, hint, item in fields:
                if said and issubclass(cls, Combination) and key == "shards":
                    continue  # ten thousand cells, whoever draws
                of_cells = issubclass(cls, Combination | WeierstrassExtrapolated)
                waits = of_cells or key in ("search_passes", "pause")
                if (limits := item.metadata.get("range")) is not None:
                    ends = _ends(limits, hint)
                    slow = [pytest.mark.slow] * bool(said or waits)
                    yield pytest.param(name, said, key, ends, id=f"{name}{word} {key}", marks=slow)


@contextlib.contextmanager
def _in_time(case):
    """An endless loop fails with the case's name: Python's at once, compiled code's by its process's end."""

    def late(*_):
        raise TimeoutError(f"{case} takes more than {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST_S)
    faulthandler.dump_traceback_later(2 * LONGEST_S, exit=True)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()


def _arm(name, settings):
    """An arm of tiny data."""
    cls = SCHEMAS["sampler"][name]
    has = {key for key, _, _ in typed_fields(cls)}
    if "search_passes" in has - settings.keys():
        settings = {"step": (0.1, 10.0, 0.6)} | settings  # not searched
    sampler = cls(**{key: value for key, value in SMALL.items() if key in has} | settings)
    given = {group: SCHEMAS[group][one](**own) for group, (one, own) in _tiny(name, cls).items()}
    given |= {group: SCHEMAS[group]["none"]() for group in cls.needs}
    usual = dict.fromkeys(("prior", "bound", "brightness", "acceptance"))
    iterations = 60 if issubclass(cls, Combination) else 6
    init = "map" if name == "zigzag" else "prior"
    run = Protocol(name="default", seeds=1, iterations=iterations, burn_in=2, init=init)
    return Arm(experiment="", name="arm", sampler=sampler, protocol=run, **usual | given)


def _tiny(name, cls):
    return TINY.get(name, TINY["mixture_svi" if name == "mixture_gibbs" else cls.kinds[0]])


def _unclear(line):
    """Whether an error is of more lines than one, or names no key."""
    return "\n" in line or not re.search(r"\b(sampler|protocol|dataset|model)(\.\w+|=)", line)


def _wrong(name, settings, folder, steps):
    """What a person would see that is no answer and no line with a remedy; "" where nothing is wrong."""
    try:
        return _after(_arm(name, settings), folder, steps)
    except FlyrunError as error:
        return str(error) if _unclear(str(error)) else ""


def _after(arm, folder, steps):
    """What is wrong of an arm once it is set up, and after some steps."""
    if arm.sampler.needed_at(arm, 0):
        if not steps:
            return ""
        local = SCHEMAS["executor"]["local"](workers=1)
        result = launch.run(Job("ends", None, "", "", (arm,), local, folder))
        return "; ".join(one.message for one in result.failed if _unclear(one.message))
    method = prepare(arm, folder)
    if not steps:
        return ""
    state, told = method.advance(method.init(0), steps)
    method.facts(state)
    told = {**told, **method.estimates(state), **method.result(state)}
    none = [key for key, one in told.items() if np.asarray(one).dtype.kind == "f" and np.isnan(one).any()]
    return f"{none} are no numbers" if none else ""


@pytest.mark.thorough(but=40)
@pytest.mark.parametrize(("name", "said", "key", "ends"), list(_families()))
@pytest.mark.parametrize("steps", [0, pytest.param(6, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_end_of_another_samplers_range_runs_or_is_refused_in_one_line(
    name, said, key, ends, steps, tmp_path
):
    """Each outcome is a run or a line with a remedy; no traceback, no endless loop, no NaN without a word."""
    for at, value in enumerate(ends):
        with _in_time(f"sampler={name} sampler.{key}={value}"):
            assert not _wrong(name, said | {key: value}, tmp_path / str(at), steps), value


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize(
    ("name", "key"), [("npv", "components"), ("pathfinder", "draws"), ("pmd", "particles")]
)
def test_a_size_that_no_memory_holds_is_named(name, key, tmp_path):
    """Whole numbers without an upper end: numpy says in several ways that they are too large."""
    local = SCHEMAS["executor"]["local"](workers=1)
    (failed,) = launch.run(Job("ends", None, "", "", (_arm(name, {key: 10**18}),), local, tmp_path)).failed
    assert failed.message.startswith("out of memory")
    assert failed.message.endswith(f"take a smaller sampler.{key}")
