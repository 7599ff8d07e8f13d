"""Whether runs of random combinations are right, or say that they may not be: against quadrature.

    python -m tools.combinations [--count 300] [--seed 1] [--out FILE.csv]

Each is a model, a prior, a table, a sampler and what goes with it, with random settings, drawn anew until
they fit together, on a posterior of two coordinates (softmax: the intercepts of two classes). It runs as
`flyrun` would run it, in this process, and its report is asked for the arm's lines. An exact arm is wrong
where means, squares, the product or shares beyond 1 sd differ from quadrature's, by t over seeds at LEVEL for
all combinations together. None may be wrong without a line.
"""

import argparse
import contextlib
import io
import itertools
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import ndtr, softmax

from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.gold import grid_moments
from flyrun.experiments.models.problem import bind, log_densities, posterior_curvature
from flyrun.experiments.report.build import Page, load, summarise
from flyrun.experiments.report.draws import Draws
from flyrun.experiments.runner import store
from flyrun.experiments.runner.launch import run
from flyrun.ground.errors import ConfigError, FlyrunError

LEVEL = 1e-4
"""Probability that any of all combinations that are right is called wrong."""

SEEDS, ITERATIONS, BURN_IN = 12, 2_500, 500
POINTS, SETTLED = 601, 1e-3  # of the grid, on each axis; by how much half as many may differ, in sds
OF_A_TYPE = 6  # combinations that are compiled once
RIGHT, LINE, SILENT, REFUSED, BROKEN, UNKNOWN = (
    "right", "wrong, with a line", "WRONG, without a line", "refused", "BROKEN", "not known"
)  # fmt: skip

MODELS: dict[str, dict[str, tuple]] = {
    "logistic": {},
    "probit": {},
    "softmax": {},
    "student_t": {"model.nu": (1, 4, 30), "model.scale": (0.05, 0.5, 2)},
}
PRIORS = {"gaussian": {"prior.scale": (0.3, 1, 5, 30)}, "laplace": {"prior.scale": (0.1, 0.5, 2)}}
BOUNDS = {
    "map": {"bound.slack": (0, 0.5, 3), "bound.offset_sds": (0, 1)},
    "local": {"bound.slack": (0, 0.5, 2), "bound.mass_outside": (1e-4, 0.1, 0.5, 0.9)},
    "untuned": {"bound.xi": (0, 1.5, 7)},
}
BRIGHTNESS = {
    "implicit": {"brightness.q": ("auto", 1, 0.07, 1e-3)},
    "per_datum": {"brightness.factor": (0.1, 2, 50)},
    "explicit": {
        "brightness.fraction": (0.1, 0.5, 1),
        "brightness.order": ("with_replacement", "without_replacement", "sequential"),
    },
}
UPDATES: dict[str, dict[str, tuple]] = {
    "random_walk": {"sampler.step": ("null", 0.5), "sampler.metric": ("identity", "hessian")},
    "mala": {"sampler.metric": ("identity", "hessian"), "sampler.step": ("null", 0.7)},
    "hmc": {"sampler.n_steps": ("auto", 1, 7), "sampler.jitter": (0, 0.2)},
    "slice": {"sampler.width": ("null", 3), "sampler.most_widenings": (0, 100)},
    "elliptical_slice": {"sampler.metric": ("bound", "hessian")},
    "independence": {"sampler.freedom": ("null", 3, 8)},
    "pcn": {"sampler.persistence": (0, 0.3, 0.9)},
    "adaptive_metropolis": {"sampler.decay": (0.6, 1), "sampler.adapts": ("throughout", "burn_in")},
    "surrogate_transition": {"sampler.moves": (1, 20), "sampler.persistence": (0, 0.7)},
}
RULES = {
    "exact": {},
    "delayed": {"acceptance.order": (1, 2, 3)},
    "smh": {"acceptance.order": (1, 2), "acceptance.bounds": ("local", "global", "cornish")},
    "tuna": {"acceptance.order": (0, 1, 2), "acceptance.chi": (1e-5, 0.1, 1)},
    "mh_ss": {"acceptance.order": (1, 2, 3), "acceptance.bounds": ("local", "global")},
    "poisson_estimator": {"acceptance.order": (2, 3), "acceptance.intensity": (1, 3)},
    "pseudo_marginal": {"acceptance.q": (0.02, 0.5, 0.9), "sampler.step": (1,)},
    "austerity": {"acceptance.epsilon": (0,), "acceptance.batch": (2, 500)},
    "confidence": {"acceptance.epsilon": (0,), "acceptance.growth": (1.3, 2)},
}
ALONE: dict[str, dict[str, tuple]] = {
    "weighted": {
        "sampler.approximation": ("ep", "laplace", "kl_gaussian"),
        "sampler.queries": ("null", 2, 0.1),
        "sampler.freedom": ("null", 4),
    },
    "importance": {"sampler.freedom": ("null", 4), "sampler.approximation": ("laplace", "ep")},
    "zigzag": {"sampler.order": (1, 2), "sampler.bounds": ("local", "global")},
    "prefetching": {
        "sampler.scheme": ("naive", "foretold", "delayed"),
        "sampler.metric": ("identity", "hessian"),
    },
    "polya_gamma": {},
}
TABLES = ("plain", "lever", "separable", "twice", "outliers", "far")


def types(rng: np.random.Generator) -> list[list[str]]:
    """Groups of options that are compiled together, in random order."""
    firefly = [
        [f"bound={bound}", f"brightness={brightness}", f"sampler={update}"]
        for bound, brightness, update in itertools.product(BOUNDS, BRIGHTNESS, list(UPDATES)[:7])
    ]
    ruled = [
        ["bound=none", "brightness=none", f"acceptance={rule}", f"sampler={update}"]
        for rule, update in itertools.product(
            RULES, ("random_walk", "mala", "independence", *list(UPDATES)[6:])
        )
    ]
    plain = [["bound=none", f"sampler={update}"] for update in ("hmc", "slice", "elliptical_slice")]
    groups = [rng.permutation(len(some)) for some in (firefly, ruled)]
    alone = [[f"sampler={name}"] for name in ALONE]
    mixed = [[firefly[i], ruled[j]] for i, j in zip(*(group[:60] for group in groups), strict=False)]
    every = [one for pair in mixed for one in pair] + 5 * (plain + alone)
    return [every[i] for i in rng.permutation(len(every))]


def settings(rng: np.random.Generator, words: list[str]) -> list[str]:
    """Random settings of options, some of them left as they are."""
    known = {
        **{f"{group}={name}": keys for group, some in (("bound", BOUNDS), ("brightness", BRIGHTNESS),
           ("acceptance", RULES), ("model", MODELS), ("prior", PRIORS)) for name, keys in some.items()},
        **{f"sampler={name}": keys for name, keys in (UPDATES | ALONE).items()},
    }  # fmt: skip
    every = [item for word in words for item in known.get(word, {}).items()]
    return [
        f"{key}={values[rng.integers(len(values))]}"
        for key, values in every
        if len(values) == 1 or rng.random() < 0.7
    ]


def table(rng: np.random.Generator, model: str, kind: str) -> pd.DataFrame:
    """Rows of a column x and a target y that a model can have given rise to."""
    n = int(rng.choice([2, 5, 12, 40, 150]))
    x = rng.normal(size=n)
    if kind == "lever":
        x[0] = 50.0
    elif kind == "twice" and n > 2:
        x = np.repeat(x[: n // 2 + 1], 2)[:n]
    eta = (x - 0.5) * (3.0 if kind == "separable" else 1.0)
    if kind == "far":
        x = x + 30.0
    y: Any = eta + 0.5 * rng.standard_t(3, size=n)
    if kind == "outliers":
        y[: 1 + n // 8] += 12.0
    if model != "student_t":
        chance = 1.0 * (eta > 0) if kind == "separable" else 1.0 / (1.0 + np.exp(-eta))
        y = (rng.random(n) < chance).astype(int)
        y[:2] = 0, 1
        y = np.where(y, "yes", "no")
    return pd.DataFrame({"x": x, "y": y})


def combination(rng: np.random.Generator, options: list[str], folder: Path) -> list[str]:
    """The words of one, its table written to folder."""
    model, kind = rng.choice(list(MODELS)), rng.choice(TABLES)
    prior = rng.choice(list(PRIORS))
    chosen = [f"model={model}", f"prior={prior}", *options]
    path = folder / "table.csv"
    table(rng, model, kind).to_csv(path, index=False)
    columns = ["dataset.formula='1'"] if model == "softmax" else []
    columns += ["dataset.standardize=false"] if kind == "lever" and not columns else []
    start = rng.choice(["map", "prior"])
    return [
        "dataset=table", f"dataset.path={path}", "dataset.target=y", *columns,
        *chosen, *settings(rng, chosen),
        f"protocol.init={start}",
    ]  # fmt: skip


def fitting(rng: np.random.Generator, groups: Iterable[list[str]], folder: Path) -> list[str]:
    """The words of a combination that settings do not forbid, of the first group of options that has one."""
    for options in groups:
        for _ in range(30):
            words = combination(rng, options, folder)
            with contextlib.suppress(ConfigError):
                compose_job(words)
                return words
    raise ConfigError("no combination fits together")


class Truth:
    """A posterior of two coordinates by sums over a grid that is dense about the mode and wide beyond."""

    def __init__(self, arm: Any, folder: Path):
        self._arm, self._problem = arm, bind(arm, folder, needs_map=True)
        mode = self._problem.fit.theta_map
        self._centre = mode
        self._unit = np.sqrt(np.diag(np.linalg.inv(posterior_curvature(arm, self._problem, mode))))
        wide = grid_moments.weigh(arm, self._problem, 201)[0]
        self._ends = [np.arcsinh((end(wide, axis=0) - mode) / self._unit) for end in (np.min, np.max)]
        theta, share = self._sums(POINTS)
        self.mean = share @ theta
        self.sd = np.sqrt(share @ (theta - self.mean) ** 2)
        self.expected = share @ self.functions(theta)
        theta, share = self._sums(POINTS // 2)
        self.settled = bool(np.abs(share @ self.functions(theta) - self.expected).max() < SETTLED)

    def _sums(self, points: int) -> tuple[np.ndarray, np.ndarray]:
        """Nodes, (M, 2), and their shares of the posterior, (M,)."""
        axes = [np.linspace(*ends, points) for ends in zip(*self._ends, strict=True)]
        u = np.stack([one.ravel() for one in np.meshgrid(*axes, indexing="ij")], axis=1)
        theta = self._centre + self._unit * np.sinh(u)
        log_p = sum(log_densities(self._arm, self._problem, theta))
        return theta, softmax(log_p + np.log(np.cosh(u)).sum(axis=1))

    def functions(self, theta: np.ndarray) -> np.ndarray:
        """What draws, (n, 2), are judged by, (n, 9): moments and, smoothly, shares beyond 1 sd."""
        z = (theta - self.mean) / self.sd
        return np.column_stack([z, z**2, z[:, 0] * z[:, 1], ndtr(4 * (z + 1)), ndtr(4 * (z - 1))])


def least_p(cells: list[store.StoredCell], truth: Truth) -> float:
    """Of the functions' means by seed against quadrature, by t; 0 where no seed moves."""
    found = []
    for cell in cells:
        with contextlib.closing(Draws(cell)) as draws:
            answer = draws.answer(10**9)
            assert answer is not None
            weight = np.ones(len(answer[0])) if answer[1] is None else answer[1]
            found.append(weight @ truth.functions(answer[0]) / weight.sum())
    off = np.array(found) - truth.expected
    se = np.maximum(off.std(axis=0, ddof=1) / np.sqrt(len(off)), SETTLED)
    return float((2 * stats.t.sf(np.abs(off.mean(axis=0)) / se, len(off) - 1)).min() * off.shape[1])


def judged(words: list[str], folder: Path, level: float) -> dict[str, Any]:
    """Run a combination, and what came of it."""
    lengths = [f"protocol.seeds={SEEDS}", f"protocol.iterations={ITERATIONS}", f"protocol.burn_in={BURN_IN}"]
    own = [*lengths, "executor.workers=1", "name=one", f"results_dir={folder}"]
    started = time.perf_counter()
    row: dict[str, Any] = {"p": np.nan, "why": ""}
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            job = compose_job([*words, *own])
            result = run(job, None, summarise=summarise)
            wrong = result.of("failed", "lost")
            if wrong:
                ours = all(one.message and "unexpected" not in one.message for one in wrong)
                return row | {"verdict": REFUSED if ours else BROKEN, "why": wrong[0].message}
            report = load(result.run_dir)
            (arm,), page = report.arms, Page(report)
            lines = [text for one in page.sections if one.about(arm) for text in one.arm_caveats(report, arm)]
            row |= {"why": " | ".join(lines)}
            if arm.exact is not True:
                return row | {"verdict": UNKNOWN}
            truth = Truth(job.arms[0], folder / "truth")
            if not truth.settled:
                return row | {"verdict": UNKNOWN, "why": "quadrature did not settle"}
            row["p"] = least_p(store.open_cells(result.run_dir), truth)
    except FlyrunError as error:
        return row | {"verdict": REFUSED, "why": str(error)}
    except Exception:
        return row | {"verdict": BROKEN, "why": traceback.format_exc()[-600:]}
    verdict = RIGHT if row["p"] >= level else LINE if row["why"] else SILENT
    return row | {"verdict": verdict, "seconds": time.perf_counter() - started}


def main() -> int:
    """Run all, print a line for each that is not right, write them; 1 where one is wrong without a line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.combinations", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="run this one alone")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    every, rows = types(np.random.default_rng(asked.seed)), []
    for k in range(asked.count):
        if asked.only not in (None, k):
            continue
        with tempfile.TemporaryDirectory(prefix="flyrun-combinations-") as name:
            rng = np.random.default_rng([asked.seed, k])
            words = fitting(rng, every[k // OF_A_TYPE % len(every) :] + every, Path(name))
            row = {"number": k} | judged(words, Path(name), LEVEL / asked.count)
            row["words"] = " ".join(word for word in words if not word.startswith("dataset.path="))
        rows.append(row)
        said = f" {row['p']:.1g}" if row["p"] == row["p"] else ""
        print(f"{k}: {row['verdict']}{said}: {row['words']}: {row['why'][:300]}", flush=True)
        if asked.out is not None:
            pd.DataFrame(rows).to_csv(asked.out, index=False)
    count = Counter(row["verdict"] for row in rows)
    print("; ".join(f"{count[one]} {one}" for one in (RIGHT, LINE, SILENT, REFUSED, BROKEN, UNKNOWN)))
    return int(bool(count[SILENT] or count[BROKEN]))


if __name__ == "__main__":
    raise SystemExit(main())
