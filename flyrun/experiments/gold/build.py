"""Make a reference and certify it."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from flyrun.experiments.gold import certify, grid_moments, recipe, store
from flyrun.experiments.gold.reference import arm_of, classes_of, free, settings_of, setup_folder
from flyrun.experiments.gold.store import Gold
from flyrun.experiments.models.problem import bind
from flyrun.ground import archive, files
from flyrun.ground.errors import FlyrunError
from flyrun.ground.threads import one_blas_thread

DRAWS, MOST_BYTES = 2_000, 800_000
CHAIN = ("sampler=hmc", "bound=map", "bound.slack=0.5", "brightness=per_datum")
GRID = 801


def make(
    overrides: list[str],
    draws: int = 40_000,
    by: str = "importance",
    chain: dict[str, Any] | None = None,
    echo: Callable[[str], object] = print,
) -> tuple[Gold, list[certify.Check]]:
    """The reference of a problem's words, and its certificate.

    draws: of the importance sampler, a pass each.  by: "importance" or "grid".  chain: words of the exact
    chain's arm, and its iterations.
    """
    started = time.perf_counter()
    chain = chain or {}
    method = (
        *chain.get("words", CHAIN),
        "protocol.init=map",
        "protocol.burn_in=2000",
        "protocol.iterations=4000",
    )
    arm = arm_of(overrides)
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
            weighed = recipe.weigh(arm, problem, proposal, draws, seed=2)
            moments = recipe.moments(weighed, classes)
            second = (rest or [best])[0][1]
            other = recipe.moments(recipe.weigh(arm, problem, second, draws // 2, seed=5), classes)
            theta, log_weight = weighed.theta, weighed.log_weight
            likelihood = recipe.expectation(weighed, weighed.log_likelihood)
            k = recipe.pareto_k(log_weight)
            share = f"effective share {weighed.share:.2f}"
            how = f"importance sampling, {draws:,} draws in antithetic pairs, {name}; {share}"
        echo(
            f"log Z {moments.log_z:.4f} ± {moments.log_z_se:.4f}; "
            f"E log likelihood {likelihood[0]:.3f} ± {likelihood[1]:.3f}"
        )
        coordinates = free(theta, classes)
        kurtosis, quantiles = recipe.shape(coordinates, np.exp(log_weight - log_weight.max()), moments.mean)
        stored = min(DRAWS, MOST_BYTES // (4 * coordinates.shape[1]))
        picked = recipe.resampled(coordinates, np.exp(log_weight - log_weight.max()), stored)
    exact = certify.chain(arm_of(overrides, method), setup_folder(), chain.get("iterations", 20_000), classes)
    checks = certify.checks(moments, other, k, exact)
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


def build(name: str, out: Path | None = None, echo: Callable[[str], object] = print) -> tuple[Path, bool]:
    """Make the registered reference anew; (its file, whether every check holds). Nothing is written
    otherwise.

    The registry takes the new digest where the file goes to its own place.
    """
    entry, path = store.entry(name), (out or store.folder()) / f"{name}.npz"
    files.refuse_unwritable(path.parent, "name another folder with --out")
    given = {key: entry[key] for key in ("draws", "by", "chain") if key in entry}
    gold, checks = make(entry["problem"], echo=echo, **given)
    for check in checks:
        echo(f"{'holds' if check.holds else 'FAILS'}  {check.name}: {check.figures}")
    if not all(check.holds for check in checks):
        echo(f"{path}: not written, for the reference is not certified")
        return path, False
    content = store.to_bytes(gold)
    archive.write(path, content)
    if out is None:
        _register(name, archive.sha256(content))
    echo(f"{name}: wrote {path} ({len(content):,} bytes)")
    return path, True


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
