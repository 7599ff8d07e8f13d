"""Random combinations of bound, brightness, θ-update, acceptance, prior and model leave exact draws exact.

Of every combination some fifteen paired z-scores. Where one is above FLAGGED that functional is looked at
again with fresh draws, four times as many; above FLAGGED again it fails. With 4,000 scores that happens by
chance once in 50,000 runs (4,000·p², p = 6·10⁻⁵).
"""

import itertools
import random

import pytest

from flyrun.experiments.samplers.chain.brightness.none import NoBrightness
from flyrun.ground.errors import ConfigError, DensityError
from flyrun.ground.schema import SCHEMAS
from tests.exactness import broken
from tests.exactness.posteriors import Posterior, library
from tests.exactness.stationarity import method_of, scores

FLAGGED = 4.0
DRAWS = 3000
POSTERIORS = {posterior.name: posterior for posterior in library()}


def _options(text: str) -> list:
    """Options of a group from 'group=name key=value …' words, one a line."""
    made = []
    for line in text.strip().splitlines():
        (group, name), *settings = (word.split("=") for word in line.split())
        made.append(SCHEMAS[group][name](**{key: _value(value) for key, value in settings}))
    return made


def _value(word: str):
    if word == "null":
        return None
    try:
        return float(word)
    except ValueError:
        return word


BOUNDS = {
    "map": "bound=map\nbound=map slack=0.5\nbound=map slack=3 offset_sds=1",
    "local": "bound=local\nbound=local mass_outside=0.5 slack=0\nbound=local mass_outside=0.99 slack=2",
    "untuned": "bound=untuned\nbound=untuned xi=0\nbound=untuned xi=7",
}
SWEEPS = {
    "implicit": "brightness=implicit q=1\nbrightness=implicit q=0.07",
    "per_datum": "brightness=per_datum\nbrightness=per_datum factor=0.1\nbrightness=per_datum factor=50",
    "explicit": "brightness=explicit fraction=0.5\nbrightness=explicit fraction=1\n"
    "brightness=explicit fraction=0.3 order=without_replacement\n"
    "brightness=explicit fraction=0.21 order=sequential",
}
UPDATES = {
    "round walk": "sampler=random_walk\nsampler=random_walk step=0.5",
    "walk": "sampler=random_walk metric=hessian\nsampler=random_walk metric=hessian step=0.3",
    "round mala": "sampler=mala",
    "mala": "sampler=mala metric=hessian\nsampler=mala metric=bound step=0.7",
    "hmc": "sampler=hmc\nsampler=hmc n_steps=1\nsampler=hmc n_steps=7 jitter=0",
    "hmc, foreign": "sampler=hmc metric=hessian\nsampler=hmc metric=hessian n_steps=3",
    "slice": "sampler=slice\nsampler=slice most_widenings=0",
    "elliptical": "sampler=elliptical_slice",
    "independence": "sampler=independence\nsampler=independence freedom=null\nsampler=independence freedom=3",
    "pcn": "sampler=pcn\nsampler=pcn persistence=0.7",
    "transition": "sampler=surrogate_transition moves=5\n"
    "sampler=surrogate_transition moves=50 persistence=0.9",
}
RULES = {
    "exact": "acceptance=exact",
    "delayed": "acceptance=delayed order=1\nacceptance=delayed order=2\nacceptance=delayed order=3",
    "thinned": "acceptance=smh order=1\nacceptance=smh order=2 bounds=cornish\nacceptance=smh bounds=global\n"
    "acceptance=tuna order=0 chi=0.01\nacceptance=tuna order=1 chi=0.1\nacceptance=tuna order=2\n"
    "acceptance=mh_ss order=1\nacceptance=mh_ss order=2 bounds=global\nacceptance=mh_ss order=3",
    "pseudo-marginal": "acceptance=pseudo_marginal q=0.02\nacceptance=pseudo_marginal q=0.5",
    "sequential": "acceptance=austerity epsilon=0 order=2 batch=3\nacceptance=confidence epsilon=0 order=1\n"
    "acceptance=austerity epsilon=0 order=1 batch=500",
}
FIREFLY_UPDATES = [name for name in UPDATES if name != "transition"]
# how many types of each family: types of one are compiled once, and hold many settings on several posteriors
PLAN = [
    (16, ["local"], list(SWEEPS), FIREFLY_UPDATES, ["exact"]),
    (7, ["map"], list(SWEEPS), FIREFLY_UPDATES, ["exact"]),
    (2, ["untuned"], ["implicit", "explicit"], FIREFLY_UPDATES, ["exact"]),
    (9, [""], [""], ["round walk", "walk", "mala", "pcn", "independence", "transition"], ["thinned"]),
    (3, [""], [""], ["round walk", "walk", "pcn", "independence"], ["delayed"]),
    (2, [""], [""], ["walk", "pcn"], ["pseudo-marginal"]),
    (3, [""], [""], ["round walk", "walk", "pcn"], ["sequential"]),
    (3, [""], [""], ["hmc, foreign", "slice", "elliptical", "mala"], ["exact"]),
]
EACH = 3  # settings of every type on every posterior
KINDS = sorted({(one.model.name, one.prior.name) for one in POSTERIORS.values()})
PROPOSERS = ("round walk", "walk", "round mala", "mala", "independence", "pcn", "transition")


def _types() -> list[tuple[str, ...]]:
    """(model, prior, bound, brightness, update, rule) of random types, the same at every run."""
    chance, found = random.Random(5), []
    for count, *parts in PLAN:
        fitting = [
            (*kind, *rest)
            for kind in KINDS
            for rest in itertools.product(*parts)
            if not (rest[0] == "local" and kind[0] == "probit")
        ]
        found += chance.sample(fitting, count)
    return found


def _settings(kind: tuple[str, ...], chance: random.Random) -> dict:
    """One choice of each group, of a type."""
    _, _, bound, sweep, update, rule = kind
    groups = {
        "bound": chance.choice(_options(BOUNDS.get(bound, "bound=none"))),
        "brightness": chance.choice(_options(SWEEPS.get(sweep, "brightness=none"))),
        "sampler": chance.choice(_options(UPDATES[update])),
    }
    return groups | ({"acceptance": chance.choice(_options(RULES[rule]))} if update in PROPOSERS else {})


def _method(kind, posterior, folder, patch, chance):
    """A method of this type with settings that go together."""
    for _ in range(100):
        try:
            return method_of(posterior, folder, patch, **_settings(kind, chance))
        except ConfigError:
            continue
    raise AssertionError(f"no settings of {kind} go together")


def _worst(posterior: Posterior, parts, draws: int = DRAWS) -> tuple[str, float]:
    """Name and z of the functional that is worst, looked at again where it is flagged.

    parts: makes target, brightness and kernel.
    """
    found, moved = scores(posterior, parts(), draws, seed=1)
    name = max(found, key=lambda one: abs(found[one]), default="")
    z = found.get(name, 0.0)
    if abs(z) > FLAGGED:
        z = scores(posterior, parts(), 4 * draws, seed=2)[0][name]
    print(f"{posterior.name}: {name} z {z:.1f}, {moved:.0%} moved")
    return name, z


def _cases() -> list[tuple[tuple[str, ...], Posterior, int]]:
    return [
        (kind, posterior, i)
        for kind in _types()
        for posterior in POSTERIORS.values()
        for i in range(EACH)
        if (posterior.model.name, posterior.prior.name) == kind[:2]
    ]


def test_they_are_two_hundred_at_least():
    """The count that a claim of exactness rests on."""
    assert len(_cases()) >= 200


@pytest.mark.slow
@pytest.mark.parametrize("kind", _types(), ids=" ".join)
def test_exact_draws_stay_exact(kind, tmp_path, monkeypatch):
    """A kernel is exact or it is not: whatever sets digits, tuning or a border wrong moves exact draws."""
    wrong = []
    for _, posterior, i in (case for case in _cases() if case[0] == kind):
        chance = random.Random(f"{kind} {posterior.name} {i}")
        method = _method(kind, posterior, tmp_path, monkeypatch, chance)
        shown = [one.non_default() for one in method.arm.choices().values()][3:-1]
        print(*shown)
        name, z = _worst(posterior, lambda again=method: type(again)(again.arm, again.problem).parts)
        if abs(z) > FLAGGED:
            wrong.append((posterior.name, name, z, shown))
    assert not wrong


def _parts(name, folder, patch, words):
    """What makes a method's parts on the posterior of this name, options said as above."""
    groups = {one.group: one for one in _options(words)}
    method = method_of(POSTERIORS[name], folder, patch, **groups)
    return lambda: type(method)(method.arm, method.problem).parts


FIREFLY = "bound=local mass_outside=0.5 slack=0\nbrightness=per_datum factor=0.1\nsampler=elliptical_slice"


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["far target", "tiny noise"])
@pytest.mark.parametrize("off", [0.0, 1.0])
def test_half_the_mass_beyond_the_border_where_digits_are_few(name, off, tmp_path, monkeypatch):
    """Two levels about 0 had a constant that was off by 0.3 to 100 nats; negative control: by 1 nat."""
    parts = _parts(name, tmp_path, monkeypatch, FIREFLY)

    def shifted():
        target, *rest = parts()
        target.base.beyond.constant[0] += off
        return target, *rest

    _, z = _worst(POSTERIORS[name], shifted)
    assert (abs(z) > 2 * FLAGGED) == (off != 0.0)


def _everywhere(target, brightness, kernel):
    """Local bounds taken for bounds beyond."""
    bound = target.bound
    return (
        target._replace(bound=bound._replace(region=bound.region._replace(square=1e300))),
        brightness,
        kernel,
    )


def _few_candidates(target, brightness, kernel):
    """A fifth of the data that a test must look at."""
    bounds = kernel.rule.remainder
    rule = kernel.rule._replace(remainder=bounds._replace(total=0.2 * bounds.total))
    return target, brightness, kernel._replace(rule=rule)


def _warm(target, brightness, kernel):
    """A prior a tenth wider than the one of the posterior."""
    return target._replace(base=target.base._replace(scale=1.1 * target.base.scale)), brightness, kernel


def _timid(target, brightness, kernel):
    return target, brightness, kernel._replace(rule=broken.TimidRule())


def _inverted(target, brightness, kernel):
    return target, broken.inverted_implicit(0.2, len(target.memory.values)), kernel


def _flat(target, brightness, kernel):
    return target, NoBrightness(), broken.flat_slice(1.0, 2)


WALK = "sampler=random_walk metric=hessian\nacceptance=exact"
NONE = "bound=none\nbrightness=none\n"
THINNED = NONE + "sampler=random_walk metric=hessian\nacceptance=mh_ss order=1"
BROKEN = [
    (_everywhere, "heavy tails", f"bound=local mass_outside=0.99\nbrightness=per_datum\n{WALK}"),
    (_few_candidates, "two rows", THINNED),
    (_warm, "two rows", NONE + WALK),
    (_timid, "duplicates", NONE + WALK),
    (_timid, "two rows", NONE + WALK),
    (_inverted, "heavy tails", f"bound=map\nbrightness=implicit q=0.2\n{WALK}"),
    (_flat, "separable", NONE + "sampler=slice"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "name", "words"), BROKEN)
def test_negative_control_what_is_broken_moves_exact_draws(fault, name, words, tmp_path, monkeypatch):
    """A test that passes these proves nothing."""
    parts = _parts(name, tmp_path, monkeypatch, words)
    _, z = _worst(POSTERIORS[name], lambda: fault(*parts()))
    assert abs(z) > FLAGGED


@pytest.mark.slow
def test_where_bounds_lie_too_far_below_for_digits_a_run_ends_in_one_line(tmp_path, monkeypatch):
    """Separable, a prior of scale 10⁸: bounds tight at the mode lie 10¹⁵ nats below where the mass is."""
    plain = POSTERIORS["separable"]
    wide = Posterior("wide", plain.rows, plain.target, plain.model, SCHEMAS["prior"]["gaussian"](scale=1e8))
    groups = {one.group: one for one in _options(f"bound=map\nbrightness=implicit q=0.2\n{WALK}")}
    method = method_of(wide, tmp_path, monkeypatch, **groups)
    with pytest.raises(DensityError, match="choose bound=none brightness=none acceptance=exact"):
        method.advance(method.init(0), 4000)
