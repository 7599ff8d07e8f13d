"""Make a reference and certify it."""

import json
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.config.bound import Map, NoBound
from flyrun.experiments.config.brightness import NoBrightness, PerDatum
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.config.overrides import read
from flyrun.experiments.config.sampler.chain import Hmc, Slice
from flyrun.experiments.gold import certify, grid_moments, recipe, store
from flyrun.experiments.gold.reference import arm_of, classes_of, free, settings_of, setup_folder
from flyrun.experiments.gold.store import Gold
from flyrun.experiments.models.problem import bind
from flyrun.ground import archive, files, schema
from flyrun.ground.errors import ConfigError, FlyrunError
from flyrun.ground.threads import one_blas_thread

DRAWS, MOST_BYTES = 2_000, 800_000
CHAIN = ("sampler=hmc", "bound=map", "bound.slack=0.5", "brightness=per_datum")
LENGTH = ("protocol.init=map", "protocol.burn_in=2000", "protocol.iterations=4000")
GRID = 801
#: the largest floor of a reference, and what is tried to come to it where nobody says how long
MOST_FLOOR, FIRST_DRAWS, MOST_DRAWS = 1e-5, 40_000, 2_000_000
FIRST_ITERATIONS, LONGER, MOST_ITERATIONS = 20_000, 5, 500_000


def make(
    arm: Arm,
    chain: Arm,
    draws: int | None = None,
    by: str = "importance",
    iterations: int | None = None,
    echo: Callable[[str], object] = print,
) -> tuple[Gold, list[certify.Check]]:
    """The reference of an arm's posterior, and its certificate.

    chain: an arm of an exact chain on the same posterior.  draws: of the importance sampler, a pass each;
    None: until the floors are at most MOST_FLOOR.  by: "importance" or "grid".  iterations: of the chain;
    None: until it would see the planted error.
    """
    started = time.perf_counter()
    problem = bind(arm, setup_folder(), needs_map=True)
    classes = classes_of(arm, problem)
    with one_blas_thread():
        if by == "grid":
            theta, log_weight, log_likelihood, cell = grid_moments.weigh(arm, problem, GRID)
            moments, k, how = (
                grid_moments.moments(theta, log_weight, cell),
                0.0,
                f"grid of {GRID} points a coordinate",
            )
            coarse, coarse_weight, _, cell = grid_moments.weigh(arm, problem, GRID // 2)
            other = grid_moments.moments(coarse, coarse_weight, cell)
            # what two grids differ by stands for their error, and what a double holds
            moments, other = (
                estimate._replace(
                    mean_se=np.abs(moments.mean - other.mean) + 1e-12 * np.sqrt(moments.variance),
                    variance_se=np.abs(moments.variance - other.variance) + 1e-12 * moments.variance,
                )
                for estimate in (moments, other)
            )
            share = np.exp(log_weight - log_weight.max())
            likelihood = (float(share @ log_likelihood / share.sum()), 0.0)
        else:
            best, *rest = recipe.proposals(arm, problem)
            name, proposal, part, k = best
            echo(f"proposal: {name}; effective share {part:.2f}, k̂ {k:.2f}")
            n = draws or FIRST_DRAWS
            weighed = recipe.weigh(arm, problem, proposal, n, seed=2)
            moments = recipe.moments(weighed, classes)
            if draws is None and (floor := 1.2 * _floor(weighed, moments, classes)) > MOST_FLOOR:
                n = min(MOST_DRAWS, 1000 * int(np.ceil(n * floor / MOST_FLOOR / 1000)))
                echo(f"{n:,} draws, for floors of {MOST_FLOOR:g}")
                weighed = recipe.weigh(arm, problem, proposal, n, seed=2)
                moments = recipe.moments(weighed, classes)
            second = (rest or [best])[0][1]
            other = recipe.moments(recipe.weigh(arm, problem, second, n // 2, seed=5), classes)
            theta, log_weight = weighed.theta, weighed.log_weight
            likelihood = recipe.expectation(weighed, weighed.log_likelihood)
            k = recipe.pareto_k(log_weight)
            share = f"effective share {weighed.share:.2f}"
            how = f"importance sampling, {n:,} draws in antithetic pairs, {name}; {share}"
        echo(
            f"log Z {moments.log_z:.4f} ± {moments.log_z_se:.4f}; "
            f"E log likelihood {likelihood[0]:.3f} ± {likelihood[1]:.3f}"
        )
        coordinates = free(theta, classes)
        kurtosis, quantiles = recipe.shape(coordinates, np.exp(log_weight - log_weight.max()), moments.mean)
        stored = min(DRAWS, MOST_BYTES // (4 * coordinates.shape[1]))
        picked = recipe.resampled(coordinates, np.exp(log_weight - log_weight.max()), stored)
    length = iterations or FIRST_ITERATIONS
    while True:
        exact = certify.chain(chain, setup_folder(), length, classes)
        checks = certify.checks(moments, other, k, exact)
        blind = [check.name for check in checks if not check.holds] == ["planted_error"]
        if iterations is not None or not blind or length * LONGER > MOST_ITERATIONS:
            break
        length *= LONGER
        echo(f"too short a chain to see the planted error; {length:,} iterations")
    facts = {
        "settings": settings_of(arm),
        "log_z": moments.log_z, "log_z_se": moments.log_z_se,
        "log_likelihood": likelihood[0], "log_likelihood_se": likelihood[1],
        "recipe": how, "n_data": len(problem.features.rows), "n_predictors": classes,
        "certificate": {check.name: check.figures for check in checks},
    }  # fmt: skip
    gold = Gold(
        moments.mean, moments.variance, moments.mean_se, moments.variance_se, kurtosis, quantiles,
        picked.astype(np.float32), store.sketch(problem.dataset.features, problem.dataset.target), facts,
    )  # fmt: skip
    means, variances = gold.floors
    echo(f"floors: means {means:.2g}, variances {variances:.2g}; {time.perf_counter() - started:.0f} s")
    return gold, checks


def _floor(weighed: recipe.Weighed, moments: recipe.Moments, classes: int) -> float:
    """The larger floor, as `Gold.floors`, of moments of weighted draws."""
    weight = np.exp(weighed.log_weight - weighed.log_weight.max())
    kurtosis, _ = recipe.shape(free(weighed.theta, classes), weight, moments.mean)
    scale = np.sqrt(kurtosis - 1) * moments.variance
    each = (moments.mean_se**2 / moments.variance, (moments.variance_se / scale) ** 2)
    return max(float(np.mean(squares)) for squares in each)


def build(name: str, out: Path | None = None, echo: Callable[[str], object] = print) -> tuple[Path, bool]:
    """Make the registered reference anew; (its file, whether every check holds). Nothing is written
    otherwise.

    The registry takes the new digest where the file goes to its own place.
    """
    entry, path = store.entry(name), (out or store.folder()) / f"{name}.npz"
    files.refuse_unwritable(path.parent, "name another folder with --out")
    chain, given = entry.get("chain", {}), {key: entry[key] for key in ("by",) if key in entry}
    exact = arm_of(entry["problem"], (*chain.get("words", CHAIN), *LENGTH))
    draws, iterations = entry.get("draws", FIRST_DRAWS), chain.get("iterations", FIRST_ITERATIONS)
    gold, checks = make(arm_of(entry["problem"]), exact, draws, iterations=iterations, echo=echo, **given)
    digest = _written(path, gold, checks, echo)
    if digest and out is None:
        _register(name, digest)
    return path, bool(digest)


def build_own(
    overrides: Sequence[str],
    config_dirs: Sequence[str] = (),
    folder: Path = Path("results/gold"),
    name: str | None = None,
    draws: int | None = None,
    by: str = "importance",
    iterations: int | None = None,
    echo: Callable[[str], object] = print,
) -> bool:
    """Make a reference of each posterior that these overrides choose, an experiment's or one of bare choices,
    in a folder; whether every check of each holds.

    name: of the reference; by default the experiment's or the choices', with the arm's where an experiment
    has several posteriors.  draws, by, iterations: as `make` takes them.  ConfigError for what is no
    posterior of rows under a prior, or has the name of one of flyrun's.
    """
    chosen = {entry.key for entry in read(overrides)}
    alone = () if chosen & {"experiment", "sampler"} else ("sampler=laplace",)
    job = compose_job([*overrides, *alone], config_dirs)
    named: dict[str, Arm] = {}
    for arm in job.arms:
        if arm.model.kind != "rows" or arm.prior is None:
            raise ConfigError(
                f"gold build: model={arm.model.name} is not of rows under a prior, of which references are; "
                "choose another"
            )
    arms = {json.dumps(settings_of(arm), sort_keys=True): arm for arm in reversed(job.arms)}
    for arm in reversed(arms.values()):
        usual = job.name if "experiment" in chosen else _bare_name(arm)
        label = (name or usual) + f"-{arm.name}" * (len(arms) > 1)
        if label in store.registry():
            raise ConfigError(f"gold build: {label} is a reference of flyrun's; add --name and another name")
        named[label] = arm
    files.refuse_unwritable(folder, "name another place with --results-dir FOLDER")
    places = [word for place in config_dirs for word in ("--config-dir", str(place))]
    command = shlex.join(
        ["flyrun", "gold", "build", *overrides, *places, *(["--name", name] if name else [])]
    )
    holds = True
    for label, arm in named.items():
        gold, checks = make(arm, _exact_chain(arm), draws, by, iterations, echo)
        gold.facts.update(command=command, made_of=store.made_of(settings_of(arm)))
        holds = bool(_written(folder / f"{label}.npz", gold, checks, echo)) and holds
    return holds


def _bare_name(arm: Arm) -> str:
    return "-".join(part["name"] for part in settings_of(arm).values())


def _exact_chain(arm: Arm) -> Arm:
    """An arm of an exact chain on an arm's posterior: Firefly-HMC under bounds that are nowhere tight where
    the model has bounds, else HMC, or slice sampling where that does not go with it."""
    length = {"init": "map", "burn_in": 2000, "iterations": 4000}
    always: dict[str, Any] = {
        "acceptance": None,
        "protocol": schema.build("protocol", {"name": "default", **length}),
    }
    full = {"bound": NoBound(), "brightness": NoBrightness()}
    tried: list[dict[str, Any]] = [{"sampler": Hmc(metric="hessian"), **full}, {"sampler": Slice(), **full}]
    if arm.model.bounds:
        tried.insert(0, {"sampler": Hmc(), "bound": Map(slack=0.5), "brightness": PerDatum()})
    refused: list[ConfigError] = []
    for chosen in tried:
        try:
            return replace(arm, **always, **chosen)
        except ConfigError as error:
            refused.append(error)
    raise refused[0]


#: check that fails -> what to try
_REMEDIES = {
    "pareto_k": "more draws hardly help: a posterior of two coordinates takes --by grid",
    "two_proposals": "more draws tell whether that is chance: --draws N",
    "exact_chain": "a chain of N iterations tells whether that is chance: --iterations N",
    "planted_error": "more draws and a longer chain see more: --draws N --iterations N",
}


def _written(path: Path, gold: Gold, checks: list[certify.Check], echo: Callable[[str], object]) -> str:
    """The digest of a reference's file, written where all checks hold; else ""."""
    for check in checks:
        echo(f"{'holds' if check.holds else 'FAILS'}  {check.name}: {check.figures}")
    if failing := [check.name for check in checks if not check.holds]:
        echo(f"{path}: not written, for the reference is not certified; {_REMEDIES[failing[0]]}")
        return ""
    content = store.to_bytes(gold)
    archive.write(path, content)
    echo(f"{path.stem}: wrote {path} ({len(content):,} bytes)")
    return archive.sha256(content)


def _register(name: str, digest: str) -> None:
    """Put a file's digest into the registry, whose words and comments stay."""
    path = store.folder() / "registry.yaml"
    before = store.registry()[name].get("sha256", "")
    text = path.read_text(encoding="utf-8")
    line = f"  sha256: {before}\n" if before else f"{name}:\n"
    if line not in text:
        raise FlyrunError(f"{path}: has no line for {name}'s sha256; add one")
    new = f"  sha256: {digest}\n" if before else f"{name}:\n  sha256: {digest}\n"
    files.write_text(path, text.replace(line, new, 1))
    assert yaml.safe_load(path.read_text(encoding="utf-8"))[name]["sha256"] == digest
    store.registry.cache_clear()
