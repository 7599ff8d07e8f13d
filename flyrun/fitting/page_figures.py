"""Figures of a fit: its coefficients' intervals, and the fit held against the rows that it was fitted to."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from flyrun.families import domains
from flyrun.ground.page.colours import PALETTE
from flyrun.ground.page.figures import INK, axes, grid
from flyrun.tables.layout import INTERCEPT

#: what coefficients add up to, by the scale on which they do
UNITS = {
    "identity": "units of the target",
    "log": "logs of the target's mean",
    "logit": "log odds",
    "probit": "units of the probit scale",
    "cloglog": "logs of hazards",
    "cauchit": "units of the cauchit scale",
    "own": "units of the linear predictor",
}
_MOST = 40  # coefficients that are drawn
_MOST_CLASSES = 6
_MOST_CURVES = 12
_LONG = 32  # letters of a name on an axis


def of(fit: dict[str, Any], title: str) -> dict[str, partial]:
    """What draws each, by name; fit: what fit.json holds."""
    plots: dict[str, Callable] = {
        "coefficients": intervals, "smooths": smooths, "distribution": distribution,
        "calibration": calibration,
    }  # fmt: skip
    whole = {name: partial(plot, fit, title) for name, plot in plots.items()}
    factors = enumerate(fit.get("groups", ()), start=1)
    return whole | {
        f"effects_{k}": partial(effects, fit, title, factor) for k, factor in factors if "drawn" in factor
    }


def effect_per(fit: dict[str, Any]) -> str:
    """What a number column changes by for an effect: its sd, or a unit."""
    return "sd" if fit["standardize"] else "unit"


def intervals(fit: dict[str, Any], title: str) -> Any:
    """Effects: posterior means and 94 % intervals of the coefficients, per standard deviation of a column,
    for a category's level its difference from the first, for a column of two values the other's from the
    lower; largest first.

    None where there are none.
    """
    rows = [row for row in fit["coefficients"] if "effect_mean" in row]
    if not rows:
        return None
    largest: dict[str, float] = {}
    for row in rows:
        name = row["coefficient"]
        largest[name] = max(abs(row["effect_mean"]), largest.get(name, 0.0))
    shown = sorted(largest, key=lambda name: -largest[name])[:_MOST]
    classes = list(dict.fromkeys(row["class"] for row in rows))
    height = 1.1 + 0.2 * len(shown) * max(1.0, 0.6 * len(classes))
    figure, (axis,) = grid((6.4, height))
    for k, one in enumerate(classes):
        mine = {row["coefficient"]: row for row in rows if row["class"] == one}
        place = np.arange(len(shown)) + (k - (len(classes) - 1) / 2) * 0.7 / len(classes)
        mean, low, high = (
            np.array([mine[name][f"effect_{key}"] for name in shown]) for key in ("mean", "q03", "q97")
        )
        colour = PALETTE[k % len(PALETTE)]
        axis.hlines(place, low, high, color=colour, linewidth=1.4)
        axis.plot(mean, place, "o", color=colour, markersize=3.5, label=str(one))
    axis.axvline(0.0, color=INK, linewidth=0.7)
    axis.set_yticks(np.arange(len(shown)), [_short(name) for name in shown], parse_math=False)
    axis.set_ylim(len(shown) - 0.4, -0.6)
    layout, link = fit["layout"], fit["link"]
    per = effect_per(fit)
    unit = f"{per}s of the target" if link == "identity" else UNITS[link]
    axis.set_xlabel(f"effect: coefficient per {per} of its column, or of a level ({unit})")
    left_out = f" (the {_MOST} largest of {len(largest)})" if len(largest) > _MOST else ""
    axis.set_title(f"{title}{left_out}", parse_math=False, wrap=True)
    if len(classes) > 1:
        axis.legend(title=f"against {layout['target']['levels'][0]}", loc="best")
    return figure


def effects(fit: dict[str, Any], title: str, factor: dict[str, Any]) -> Any:
    """Effects of groups: posterior means and 94 % intervals, by mean; the line at 0 is what coefficients say
    alone. Of many groups those at both ends, with a gap between.
    """
    names, most = factor["effects"], max(len(effect["level"]) for effect in factor["drawn"].values())
    few = names[:_MOST_CLASSES]
    figure, panels = grid((max(6.4, 3.4 * len(few)), 1.3 + 0.17 * most), title, 1, len(few))
    for axis, name in zip(panels, few, strict=True):
        effect = factor["drawn"][name]
        place = np.arange(len(effect["level"]), dtype=np.float64)
        if gap := len(place) < factor["levels"]:
            place[len(place) // 2 :] += 1.5
        axis.hlines(place, effect["low"], effect["high"], color=PALETTE[0], linewidth=1.4)
        axis.plot(effect["mean"], place, "o", color=PALETTE[0], markersize=3.5)
        axis.axvline(0.0, color=INK, linewidth=0.7)
        axis.set_yticks(place, _apart(effect["level"]), parse_math=False, fontsize=7)
        axis.set_ylim(-0.8, place[-1] + 0.8)
        left_out = f" ({len(place)} of {factor['levels']:,})" if gap else ""
        axis.set_title(f"{name} by {factor['group']}{left_out}", parse_math=False)
        unit = UNITS[fit["link"]] if fit["link"] != "identity" else fit["layout"]["target"]["name"]
        axis.set_xlabel(
            unit if name.startswith(INTERCEPT) else f"{unit}, per unit of {name}", parse_math=False
        )
    return figure


def _short(name: str) -> str:
    """A long name's both ends, for levels of one column differ in the last."""
    return name if len(name) <= _LONG else f"{name[: _LONG // 2]}…{name[1 - _LONG // 2 :]}"


def _apart(names: list[str]) -> list[str]:
    """Long names without what all of them begin and end with."""
    if max(map(len, names)) <= _LONG or len(names) < 2:
        return names
    begin = _alike(names)
    end = min(_alike([name[::-1] for name in names]), min(map(len, names)) - begin)
    return [f"…{_short(name[begin : len(name) - end])}…" for name in names]


def _alike(names: list[str]) -> int:
    """With how many letters all begin."""
    pairs = zip(min(names), max(names), strict=False)
    return next((k for k, (first, last) in enumerate(pairs) if first != last), min(map(len, names)))


def smooths(fit: dict[str, Any], title: str) -> Any:
    """Smooth curves, each with its line and 0 on average over the rows: posterior means and 94 % bands.
    Of te() cuts along its first column, at three values of the other.
    """
    names = list(dict.fromkeys(curve["smooth"] for curve in fit.get("smooths", ())))[:_MOST_CURVES]
    if not names:
        return None
    columns = min(2, len(names))
    rows = -(-len(names) // columns)
    figure, panels = grid((3.3 * columns + 0.4, 2.5 * rows + 0.3), title, rows, columns)
    for name, axis in zip(names, panels, strict=False):
        curves = [curve for curve in fit["smooths"] if curve["smooth"] == name]
        for k, curve in enumerate(curves):
            axis.fill_between(
                curve["value"], curve["low"], curve["high"], color=PALETTE[k], alpha=0.25, linewidth=0
            )
            axis.plot(curve["value"], curve["mean"], color=PALETTE[k], linewidth=1.4, label=curve["at"])
        axis.axhline(0.0, color=INK, linewidth=0.7)
        axis.set_xlabel(curves[0]["column"], parse_math=False)
        axis.set_ylabel(curves[0].get("unit", UNITS[fit["link"]]))
        axis.set_title(f"{name}, {curves[0]['freedom']:.1f} degrees of freedom", parse_math=False, fontsize=9)
        if len(curves) > 1:
            axis.legend(loc="best", fontsize=8)
    for axis in panels[len(names) :]:
        axis.set_axis_off()
    return figure


def distribution(fit: dict[str, Any], title: str) -> Any:
    """Posterior predictive check: the table's targets (dots), and the mean (line) and 90 % intervals (band)
    of targets drawn anew for the same rows. Dots off the band are what the model does not reproduce.
    """
    if (told := fit.get("predictive", {}).get("distribution")) is None:
        return None
    edges = np.array(told["edges"])
    middle = 0.5 * (edges[1:] + edges[:-1])
    figure, (axis,) = axes(1, title)
    axis.fill_between(middle, told["low"], told["high"], color=PALETTE[0], alpha=0.25, linewidth=0)
    axis.plot(middle, told["mean"], color=PALETTE[0], linewidth=1.2, label="drawn anew")
    axis.plot(middle, told["observed"], "o", color=INK, markersize=3.5, label="observed")
    axis.set_ylim(bottom=0.0)
    layout = fit["layout"]
    if domains.of(layout["task"]).whole:
        axis.xaxis.get_major_locator().set_params(integer=True)
    name = layout["target"]["name"]
    axis.set_xlabel(f"log({name})" if layout["log_target"] else name, parse_math=False)
    axis.set_ylabel("share of rows")
    axis.legend(loc="best")
    return figure


def calibration(fit: dict[str, Any], title: str) -> Any:
    """Calibration: rows alike in what is predicted of them, and what was observed (dots); the bars hold 90 %
    of what new rows would show. Dots off their bars are where the model is wrong on rows that it has seen.
    """
    if not (told := fit.get("predictive", {}).get("calibration")):
        return None
    figure, (axis,) = axes(1, title)
    for k, one in enumerate(told[:_MOST_CLASSES]):
        colour = PALETTE[k]
        axis.vlines(one["predicted"], one["low"], one["high"], color=colour, linewidth=3.0, alpha=0.4)
        axis.plot(one["predicted"], one["observed"], "o", color=colour, markersize=3.5, label=one["class"])
    ends = np.array([[min(one["predicted"]), max(one["predicted"])] for one in told[:_MOST_CLASSES]])
    line = [ends[:, 0].min(), ends[:, 1].max()]
    axis.plot(line, line, color=INK, linewidth=0.7)
    target, task = fit["layout"]["target"], fit["layout"]["task"]
    what = f"log({target['name']})" if fit["layout"]["log_target"] else target["name"]
    if task == "successes":
        what = f"{what} a trial"
    elif task == "binary":
        what = f"share of {what} = {told[0]['class']}"
    elif len(told) > 1:
        what = f"share of each {what}"
        axis.legend(title=f"the first {_MOST_CLASSES}" if len(told) > _MOST_CLASSES else None, loc="best")
    axis.set_xlabel(f"predicted {what}", parse_math=False)
    axis.set_ylabel("observed")
    return figure
