"""The comparison's page."""

from __future__ import annotations

import importlib.metadata
import textwrap
from math import nan
from typing import Any

import pandas as pd

from flyrun.report.render import View, markdown, number, plus_minus
from flyrun.runner import environment
from tools.peers import judge
from tools.peers.contestants import APPROXIMATE, BEST, BETTER_OF, NUTS, WALK

_ABOUT = f"""\
Samplers of the same posterior: logistic regression, every coefficient N(0, 1), on MNIST's 7 against 9
(mnist) and on generated data (tall). All ran on one core, one after the other, in one run. The peers are
NumPyro (nuts, hmcecs) and BlackJAX, in JAX's single precision; regular and independence are our own samplers
that look at all data, firefly those that look at a few, all in double precision. {", ".join(APPROXIMATE)}
samples a perturbed posterior; all others are exact.

The peers get the quickest form of the log density that we found (stored transposed, gradient written out) and
are compiled once; nuts_dense_model is the same NUTS on a model as NumPyro's manual has one write it.
firefly_hmc has local bounds, firefly_hmc_slack global ones with slack 0.5, firefly_hmc_tight global ones
without. Every chain begins at a draw of the Gaussian at the posterior's mode."""

_SPEED = f"""\
ESS: effective draws by R-CODA's estimator, the worse of those of θ and of (θ - mean)², mean over coordinates;
"slowest" is the worst coordinate's. An evaluation is of one datum's likelihood, with or without its gradient.
× NUTS compares with the better of {" and ".join(BETTER_OF)},
"slowest × NUTS" the slowest coordinates of both, × walk with {WALK}.
ESS/s and evaluations/ESS are of sampling alone: compiling (for ours, or loading from numba's cache) and
set-up with warm-up (mode, bounds, burn-in; mean over seeds) stand apart.
± are sds over seeds."""

_AGREEMENT = f"""\
"Off by": the largest difference over coordinates from the reference, of posterior means (in sds) and of sds,
± its standard error, the reference's included, all seeds' draws together. Largest z: the largest of all these
differences in standard errors; by chance it exceeds the limit named in a table's title once in
{round(1 / judge.LEVEL)} times. Standard errors of few effective draws are themselves uncertain."""


_FIGURE = """\
Error: root mean square over coordinates of the running mean less the reference's, in posterior sds, averaged
over seeds. The reference's means come from chains that end too, and are off by their Monte Carlo error (the
grey line, estimated from their effective draws). So a curve levels off near that line however good its
sampler: what is left there is the reference's error, the same for all. Solid: ours with few data; dashed:
ours with all data; dotted: peers."""


def page(table: pd.DataFrame, checks: list[dict[str, Any]], stem: str, when: str) -> str:
    """Markdown: speed and agreement by problem, what the columns are, the figure, what it was made with.

    checks: a problem's name, its reference's errors and the seconds of a bare gradient, by problem.
    """
    lines = ["# Samplers on identical posteriors", "", _escaped(_ABOUT), "", "## Speed", ""]
    for check in checks:
        part = table[table["problem"] == check["problem"]]
        lines += [markdown(_speed(part)), _leapfrogs(part, check), ""]
    lines += [_escaped(_SPEED), "", "## The same posterior", ""]
    for check in checks:
        part = table[table["problem"] == check["problem"]]
        lines += [markdown(_agreement(part, check)), _escaped(_reference(check)), ""]
        lines += [_escaped(verdict(part, check)), ""]
    lines += [_escaped(_AGREEMENT), "", f"![error against seconds and evaluations]({stem}.png)", ""]
    lines += [_FIGURE, ""]
    about = environment.describe()
    peers = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpyro", "blackjax", "jax"))
    commit = (about.get("commit") or "unknown")[:10]
    lines += [f"{about['cpu']}; flyrun {about['flyrun']}, commit {commit}; {peers}; {when}.", ""]
    return "\n".join(lines)


def verdict(part: pd.DataFrame, check: dict[str, Any]) -> str:
    """Whether our best and NUTS have one posterior, in words; empty where our best did not run."""
    found = part[part["sampler"] == BEST].to_dict("records")
    if not found:
        return ""
    row = found[0]
    words = "agree" if agrees(row) else "DISAGREE"
    return textwrap.fill(
        f"{BEST} and the reference {words}: means differ by {row['off_worst']:.3f} ± "
        f"{row['off_worst_error']:.3f} sd at most, sds by {100 * row['sd_off']:.1f} ± "
        f"{100 * row['sd_off_error']:.1f} %; of {2 * check['n_params']} differences the largest is "
        f"{row['largest_z']:.1f} standard errors, where chance gives more than {row['limit']:.1f} once in "
        f"{round(1 / judge.LEVEL)} times.",
        110,
    )


def agrees(row: dict[str, Any]) -> bool:
    """Whether a line's differences are what chance gives."""
    return row["largest_z"] <= row["limit"]


def _leapfrogs(part: pd.DataFrame, check: dict[str, Any]) -> str:
    rows = part[part["sampler"].isin([NUTS, f"{NUTS}_model"])].to_dict("records")
    each = " and ".join(
        f"{1e3 * row['n_data'] * row['seconds_per_evaluation']:.3g} ms in {row['sampler']}" for row in rows
    )
    bare = f"{1e3 * check['gradient_s']:.3g} ms"
    return _escaped(f"A leapfrog step took {each}; value and gradient, compiled alone in a loop, {bare}.")


def _reference(check: dict[str, Any]) -> str:
    return (
        f"Reference: long chains of {NUTS}, other seeds; standard errors {check['mean_error']:.3f} sd of "
        f"means and {100 * check['sd_error']:.2f} % of sds in the worst coordinate."
    )


def _speed(part: pd.DataFrame) -> View:
    by_name = part.set_index("sampler")
    rates, slowest = by_name["ess_per_s"], by_name["ess_per_s_worst"]
    costs = by_name["evaluations_per_ess"]
    better = max(BETTER_OF, key=lambda name: rates.get(name, 0.0))
    rows = [
        (
            row["sampler"],
            plus_minus(row["ess_per_s"], row["ess_per_s_sd"]),
            number(row["ess_per_s_worst"]),
            number(row["ess_per_s"] / rates.get(better, nan)),
            number(row["ess_per_s_worst"] / slowest.get(better, nan)),
            number(row["ess_per_s"] / rates.get(WALK, nan)),
            plus_minus(row["evaluations_per_ess"], row["evaluations_per_ess_sd"]),
            number(costs.get(better, nan) / row["evaluations_per_ess"]),
            number(costs.get(WALK, nan) / row["evaluations_per_ess"]),
            number(row["compile_s"]),
            number(row["warm_s"]),
            str(row["seeds"]),
        )
        for row in part.to_dict("records")
    ]
    head = (
        "sampler", "ESS/s", "slowest", "× NUTS", "slowest × NUTS", "× walk", "evaluations/ESS",
        "per evaluation × NUTS", "per evaluation × walk", "compile s", "set-up, warm-up s", "seeds",
    )  # fmt: skip
    return View(_title(part), head, tuple(rows))


def _agreement(part: pd.DataFrame, check: dict[str, Any]) -> View:
    rows = [
        (
            row["sampler"],
            number(row["effective_draws"]),
            f"{row['off_worst']:.3f} ± {row['off_worst_error']:.3f} sd",
            f"{100 * row['sd_off']:.1f} ± {100 * row['sd_off_error']:.1f} %",
            f"{row['largest_z']:.1f}{'' if agrees(row) else ' (above)'}",
            str(row["seeds"]),
        )
        for row in part.to_dict("records")
    ]
    head = ("sampler", "effective draws", "means off by", "sds off by", "largest z", "seeds")
    return View(f"{_title(part)}; limit of z {judge.limit(check['n_params']):.1f}", head, tuple(rows))


def _title(part: pd.DataFrame) -> str:
    first = part.iloc[0]
    return f"{first['problem']}, {int(first['n_data']):,} data"


def _escaped(text: str) -> str:
    return text.replace("_", "\\_")
