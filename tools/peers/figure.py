"""The comparison's figure: error against seconds and against evaluations, a row a problem."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from flyrun.report.colours import looks
from tools.peers.run import FIREFLY

#: what a sampler is called in the experiments, or the same method of another library: it has their colour
_METHODS = {
    "firefly_random_walk": "map_tuned",
    "regular_random_walk": "regular",
    "blackjax_random_walk": "regular",
    "regular_mala": "mala",
    "blackjax_mala": "mala",
    "regular_hmc_by_bound": "regular_hmc",
}
_OURS = ("regular", "independence")
#: the same sampler as another one, only slower
_NOT_DRAWN = ("nuts_dense_model",)

FLOOR = "the reference's Monte Carlo error: curves level off here, whatever their sampler"

Curves = dict[str, list[dict[str, np.ndarray]]]


def figure(curves: dict[str, Curves], floors: dict[str, float], path: Path) -> None:
    """Error of the running mean, averaged over seeds.

    floors: by problem, the reference's own error, at which curves level off whatever the sampler.
    """
    drawn = Figure(figsize=(11, 3.5 * len(curves) + 1.4), layout="constrained")
    axes = drawn.subplots(len(curves), 2, squeeze=False, sharey="row")
    styles = _styles(list(dict.fromkeys(name for every in curves.values() for name in every)))
    handles = {}
    for row, (problem, every) in zip(axes, curves.items(), strict=True):
        for axis, key, words in zip(
            row, ("seconds", "evaluations"), ("seconds of sampling", "likelihood evaluations"), strict=True
        ):
            for name in (name for name in styles if name in every):
                x, y = _common(every[name], key)
                (handles[name],) = axis.plot(x, y, label=name.replace("_", " "), **styles[name])
            axis.axhline(floors[problem], color="#999999", linewidth=0.8, zorder=0)
            axis.set(xscale="log", yscale="log", xlabel=words)
            axis.spines[["top", "right"]].set_visible(False)
        row[0].annotate(
            FLOOR, (0.01, floors[problem]), xycoords=("axes fraction", "data"),
            xytext=(0, -3), textcoords="offset points", va="top", fontsize=7, color="#666666",
        )  # fmt: skip
        row[0].set_ylim(bottom=0.6 * floors[problem])
        row[0].set_ylabel("error of the posterior mean (sds)")
        row[0].set_title(problem, loc="left", fontweight="bold")
    shown = [handles[name] for name in styles if name in handles]
    drawn.legend(handles=shown, loc="outside lower center", ncols=4, fontsize=9, handlelength=3.2)
    drawn.savefig(path, dpi=110)


def _styles(names: list[str]) -> dict[str, dict[str, object]]:
    """Ours with few data thick and solid, ours with all data dashed, peers dotted; colours as elsewhere."""
    kinds: dict[str, list[str]] = {"-": [], "--": [], ":": []}
    for name in names:
        if name not in _NOT_DRAWN:
            kinds["-" if name.startswith(FIREFLY) else "--" if name.startswith(_OURS) else ":"].append(name)
    widths = {"-": 2.4, "--": 1.5, ":": 1.9}
    return {
        name: {"color": look.colour, "linestyle": line, "linewidth": widths[line]}
        for line, group in kinds.items()
        for name, look in looks({name: _METHODS.get(name, name) for name in group}).items()
    }


def _common(runs: list[dict[str, np.ndarray]], key: str) -> tuple[np.ndarray, np.ndarray]:
    """The seeds' curves averaged, in logarithms, on the stretch that all have."""
    low, high = max(run[key][0] for run in runs), min(run[key][-1] for run in runs)
    x = np.geomspace(low, max(high, low * 1.0001), 60)
    logs = [np.interp(np.log(x), np.log(run[key]), np.log(np.maximum(run["error"], 1e-12))) for run in runs]
    return x, np.exp(np.mean(logs, axis=0))
