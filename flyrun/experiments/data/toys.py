"""Small data sets that are generated: a recipe each, with the settings that decide what comes of it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from flyrun.experiments.config.dataset import row_data as options
from flyrun.ground import archive
from flyrun.ground.feature_cache import with_bias
from flyrun.tables.dataset import Dataset

#: features (N, D), target (N,), names of the features, and fields of the dataset that it has besides
Drawn = tuple[np.ndarray, np.ndarray, tuple[str, ...], dict[str, Any]]
#: name -> title, task, what its fingerprint digests (constants, and names of settings), what draws it
_RECIPES: dict[str, tuple[str, str, tuple[Any, ...], tuple[str, ...], Callable[..., Drawn]]] = {}


def load(config: options.Toy) -> Dataset:
    """The rows of a recipe, with no test rows but those that it draws."""
    title, task, _, _, draw = _RECIPES[config.name]
    features, target, names, more = draw(config)
    info = {"title": title.format_map(vars(config)), "source": "generated", **more.pop("info", {})}
    rows = {"test_features": features[:0], "test_target": target[:0], "task": task, "info": info, **more}
    return Dataset(config.name, features, target, feature_names=names, sha256=fingerprint(config), **rows)


def fingerprint(config: options.Toy) -> str:
    """Digest of the recipe's numbers."""
    _, _, constants, settings, _ = _RECIPES[config.name]
    return archive.recipe(config.name, *constants, *(getattr(config, key) for key in settings))


def _recipe(title: str, task: str, *settings: str, constants: tuple[Any, ...] = ()) -> Callable:
    def register(draw: Callable[..., Drawn]) -> Callable[..., Drawn]:
        _RECIPES[draw.__name__] = title, task, constants, settings, draw
        return draw

    return register


#: whose streams, unlike those of numpy's newer generators, are frozen for good
_stream = np.random.RandomState

MEAN, SHARE, VARIANCE = 2.0, 0.5, 10.0  # of the clutter problem; a variance


@_recipe(
    "Numbers, half of them clutter",
    "regression",
    "n_data",
    "n_sets",
    "seed",
    constants=(MEAN, SHARE, VARIANCE),
)
def clutter(config: options.Clutter) -> Drawn:
    """Numbers about a mean, half of which is clutter: Minka's (2001) problem, any number of times.

    y ~ ½N(2, 1) + ½N(0, 10); n_data of them for each of n_sets means. Set k is column k of the features, ones
    where a row belongs to it: the sets share nothing, and one run answers for all of them.
    """
    stream = _stream(config.seed)
    size = (config.n_sets, config.n_data)
    of_clutter, noise = stream.uniform(size=size) < SHARE, stream.standard_normal(size)
    target = np.where(of_clutter, np.sqrt(VARIANCE) * noise, MEAN + noise)
    names = tuple(f"theta_{k}" for k in range(config.n_sets)) if config.n_sets > 1 else ("theta",)
    return np.repeat(np.eye(config.n_sets), config.n_data, axis=0), target.ravel(), names, {}


@_recipe("Rows by a draw of the prior", "binary", "n_data", "n_features", "law", "nu", "prior_sd", "seed")
def from_prior(config: options.FromPrior) -> Drawn:
    """A regression whose θ was drawn from its prior: given the target, θ is a draw of the posterior.

    θ ~ N(0, prior_sd²), x standard normals and a bias; p(y = 1) = 1/(1 + exp(−θᵀx)), or y = θᵀx + t_ν.
    """
    stream = _stream(config.seed)
    rows = with_bias(stream.standard_normal((config.n_data, config.n_features)))
    theta = config.prior_sd * stream.standard_normal(config.n_features + 1)
    model: dict[str, Any] = {"name": config.law}
    if config.law == "logistic":
        target = np.where(stream.uniform(size=config.n_data) * (1.0 + np.exp(-rows @ theta)) < 1.0, 1.0, -1.0)
        more = {}
    else:
        target = rows @ theta + stream.standard_t(config.nu, config.n_data)
        model, more = model | {"nu": config.nu, "scale": 1.0}, {"task": "regression"}
    prior = {"name": "gaussian", "scale": config.prior_sd}
    names = (*(f"x{d + 1}" for d in range(config.n_features)), "bias")
    truth = {"theta": theta.tolist(), "model": model, "prior": prior}
    return rows, target, names, {"info": {"truth": truth}, **more}


@_recipe("A rare class", "binary", "n_data", "events", "seed")
def few_events(config: options.FewEvents) -> Drawn:
    """Two classes, one of them rare: the posterior is skewed however many rows there are.

    x a standard normal; the `events` rows with the largest x + 2·e, e standard normals, are +1.
    """
    stream = _stream(config.seed)
    x, noise = stream.standard_normal((2, config.n_data))
    target = np.full(config.n_data, -1.0)
    target[np.argsort(x + 2 * noise)[-config.events :]] = 1.0
    return with_bias(x[:, None]), target, ("x", "bias"), {}


@_recipe("Numbers, {law}", "regression", "n_data", "law", "log_sd", "seed")
def gaussian_toy(config: options.GaussianToy) -> Drawn:
    """Numbers: normal, as their model has it, or lognormal, whose few largest tell most.

    x_n = z_n, or e^{sd·z_n}, z standard normals (Bardenet, Doucet & Holmes 2017, §2, who take 10⁵). Features
    are ones: each datum sees θ itself.
    """
    stream = _stream(config.seed)
    numbers = stream.standard_normal(config.n_data)
    target = np.exp(config.log_sd * numbers) if config.law == "lognormal" else numbers
    return np.ones((config.n_data, 1)), target, ("theta",), {}


@_recipe("Counts of rates that differ", "counts", "n_data", "mean", "sd", "seed")
def counts_toy(config: options.CountsToy) -> Drawn:
    """Counts: Poisson of rates exp z, z ~ N(mean, sd²). Features are ones."""
    stream = _stream(config.seed)
    z = config.mean + config.sd * stream.standard_normal(config.n_data)
    return np.ones((config.n_data, 1)), stream.poisson(np.exp(z)).astype(float), ("theta",), {}


CENTRES = (1.0, -1.0)  # of the mixture


@_recipe("A mixture of two normals", "regression", "sd", "n_data", "seed", constants=(CENTRES,))
def mixture(config: options.Mixture) -> Drawn:
    """Numbers from a mixture of two normals that share a parameter. Features are ones.

    x_n ~ ½N(θ1, σ²) + ½N(θ1 + θ2, σ²), θ = (1, −2) (Welling & Teh 2011, §5.1, with the σ = 2.5 of Dai et al.
    2016): (−1, 2) explains them equally well.
    """
    rng = np.random.Generator(np.random.PCG64(config.seed))
    centre = np.where(rng.random(config.n_data) < 0.5, *CENTRES)
    target = centre + config.sd * rng.standard_normal(config.n_data)
    return np.ones((config.n_data, 1)), target, ("theta",), {}


PLACES = 401  # of the test rows of noisy_curve


def curve(x: np.ndarray) -> np.ndarray:
    """The function that noisy_curve sees, elementwise."""
    return np.sin(3.0 * x) + 0.5 * np.cos(10.0 * x)


@_recipe("A curve with noise", "regression", "n_data", "noise", "seed")
def noisy_curve(config: options.NoisyCurve) -> Drawn:
    """A function of one variable seen with noise: where a Gaussian process can be worked out exactly.

    y = sin 3x + ½ cos 10x + noise·e, x uniform on (-1, 1), e standard normals. Test rows: 401 places spaced
    evenly, the function itself without noise. The function of Dai et al. (2016, H.3.1) is lost with the
    formulas of the text that we have: this one is ours.
    """
    stream = _stream(config.seed)
    x, places = stream.uniform(-1.0, 1.0, config.n_data), np.linspace(-1.0, 1.0, PLACES)
    target = curve(x) + config.noise * stream.standard_normal(config.n_data)
    held_out = {"test_features": places[:, None], "test_target": curve(places)}
    return x[:, None], target, ("x",), {"info": {"test rows": "without noise"}, **held_out}


@_recipe("Rare features", "binary", "n_data", "dense", "rare", "least", "seed")
def rare_features(config: options.RareFeatures) -> Drawn:
    """Logistic regression with features that few rows have: tall data that tell little of these.

    A bias, `dense` standard normals, and `rare` indicators that are 1 with probabilities from 0.1 down to
    `least`, evenly on a logarithmic scale; coefficients are standard normals times 0.5, the bias -1.
    """
    stream = _stream(config.seed)
    shares = np.geomspace(0.1, config.least, config.rare) if config.rare > 1 else np.array([config.least])
    normals = stream.standard_normal((config.n_data, config.dense))
    there = stream.random_sample((config.n_data, config.rare)) < shares
    rows = np.hstack([normals, there, np.ones((config.n_data, 1))])
    theta = np.append(0.5 * stream.standard_normal(config.dense + config.rare), -1.0)
    target = np.where(stream.random_sample(config.n_data) * (1.0 + np.exp(-(rows @ theta))) < 1.0, 1.0, -1.0)
    names = [f"x{d + 1}" for d in range(config.dense)] + [f"rare{d + 1}" for d in range(config.rare)]
    return rows, target, (*names, "bias"), {"info": {"coefficients": theta.tolist()}}


@_recipe("Two classes of points in the plane", "binary", "n_data", "seed", "separation")
def toy_2d(config: options.Toy2d) -> Drawn:
    """Two classes of points in the plane, to look at: the toy data of Maclaurin & Adams (2014), Figure 2.

    t = +1 for the even rows, -1 for the odd ones; x ~ N(t·separation/2·u, I), u = (1, 1)/√2.
    """
    stream = _stream(config.seed)
    target = np.where(np.arange(config.n_data) % 2, -1.0, 1.0)
    centre = target[:, None] * config.separation / 2 * np.sqrt([0.5, 0.5])
    points = centre + stream.standard_normal((config.n_data, 2))
    return with_bias(points), target, ("x1", "x2", "bias"), {}


@_recipe("Two groups of a quantity", "regression", "n_data", "low", "seed")
def two_modes(config: options.TwoModes) -> Drawn:
    """Two groups of a quantity: with a Student-t likelihood of small scale the posterior has two modes.

    y = ±1 + 0.4·x + 0.1·e, `low` rows below and the others above; x and e standard normals.
    """
    stream = _stream(config.seed)
    x, noise = stream.standard_normal((2, config.n_data))
    group = np.where(np.arange(config.n_data) < config.low, -1.0, 1.0)
    return with_bias(x[:, None]), group + 0.4 * x + 0.1 * noise, ("x", "bias"), {}
