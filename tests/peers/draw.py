"""The comparison's page and figure."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from flyrun.report.render import View, markdown, number, plus_minus
from flyrun.runner import environment

# Okabe and Ito's colours.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
_FIREFLY, _OURS = "firefly", "regular"
_LEGEND = """\
One core each, one after the other, in one run. ESS: effective draws by R-CODA's estimator, the worse of
those of θ and of (θ - mean)², mean over coordinates; "worst coordinate" the smallest, in ESS/s. An
evaluation is of one datum's likelihood, with or without its gradient. ESS/s and evaluations/ESS are of
sampling alone; compiling, set-up (MAP, bounds) and warm-up stand in the two "start" columns, of the first
chain. "Off by": the largest difference over coordinates of posterior means (in sds) and of sds from those of
nuts\\_dense, all seeds of each together. ± are sds over seeds. Peers run in JAX's single precision, our
arms in double. hmcecs samples a perturbed posterior; all others are exact."""


def page(table: pd.DataFrame, stem: str, seconds: float, when: str) -> str:
    """Markdown: a table a problem, what the columns are, the figure, and what it was made with."""
    lines = ["# Samplers on identical posteriors", ""]
    for problem in table["problem"].unique():
        lines += [markdown(_view(table, problem))]
    lines += [
        _LEGEND,
        "",
        f"Each sampler and seed had {seconds:g} s of sampling, nuts\\_dense eight times as many "
        "(its curve shows the first eighth).",
        "",
    ]
    lines += [f"![error against seconds and evaluations]({stem}.png)", ""]
    about = environment.describe()
    peers = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpyro", "blackjax", "jax"))
    commit = (about.get("commit") or "unknown")[:10]
    lines += [f"{about['cpu']}; flyrun {about['flyrun']}, commit {commit}; {peers}; {when}.", ""]
    return "\n".join(lines)


def _view(table: pd.DataFrame, problem: str) -> View:
    rows = [
        (
            row["sampler"],
            plus_minus(row["ess_per_s"], row["ess_per_s_sd"]),
            number(row["ess_per_s_worst"]),
            plus_minus(row["evaluations_per_ess"], row["evaluations_per_ess_sd"]),
            number(row["start_s"]),
            number(row["start_evaluations"]),
            number(row["effective_draws"]),
            f"{row['mean_off_sds']:.3f} sd",
            f"{100 * row['sd_off']:.1f} %",
            str(row["seeds"]),
        )
        for row in table[table["problem"] == problem].to_dict("records")
    ]
    head = (
        "sampler", "ESS/s", "worst coordinate", "evaluations/ESS", "start s", "start evaluations",
        "effective draws", "means off by", "sds off by", "seeds",
    )  # fmt: skip
    n_data = int(table.loc[table["problem"] == problem, "n_data"].iloc[0])
    return View(f"{problem}, {n_data:,} data", head, tuple(rows))


def figure(curves: dict[str, dict[str, list[dict[str, np.ndarray]]]], path: Path) -> None:
    """Error of the running mean against seconds and evaluations, a row a problem; mean over seeds."""
    drawn = Figure(figsize=(10, 3.6 * len(curves) + 0.6), layout="constrained")
    axes = drawn.subplots(len(curves), 2, squeeze=False, sharey="row")
    names = list(dict.fromkeys(name for every in curves.values() for name in every))
    for row, (problem, every) in zip(axes, curves.items(), strict=True):
        for name, runs in every.items():
            k = names.index(name)
            style = {"color": _COLOURS[k % len(_COLOURS)], "linestyle": _line(name), "linewidth": 1.6}
            for axis, key in zip(row, ("seconds", "evaluations"), strict=True):
                x, y = _common(runs, key)
                axis.plot(x, y, label=name.replace("_", " "), **style)
        for axis, key in zip(row, ("seconds of sampling", "likelihood evaluations"), strict=True):
            axis.set(xscale="log", yscale="log", xlabel=key)
            axis.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel("error of the posterior mean (sds)")
        row[0].set_title(problem, loc="left")
    handles = dict(zip(*reversed(axes[0, 0].get_legend_handles_labels()), strict=True))
    drawn.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=8)
    drawn.savefig(path, dpi=110)


def _line(name: str) -> str:
    return "-" if name.startswith(_FIREFLY) else "--" if name.startswith((_OURS, "independence")) else ":"


def _common(runs: list[dict[str, np.ndarray]], key: str) -> tuple[np.ndarray, np.ndarray]:
    """The seeds' curves averaged, in logarithms, on the stretch that all have."""
    low, high = max(run[key][0] for run in runs), min(run[key][-1] for run in runs)
    x = np.geomspace(low, max(high, low * 1.0001), 60)
    logs = [np.interp(np.log(x), np.log(run[key]), np.log(np.maximum(run["error"], 1e-12))) for run in runs]
    return x, np.exp(np.mean(logs, axis=0))
