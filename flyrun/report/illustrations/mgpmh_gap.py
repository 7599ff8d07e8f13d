"""MGPMH's spectral gap on two binary variables, beside the bound recalled for it and the one derived here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from flyrun.diagnostics import spectral_gap
from flyrun.report.arms import Run
from flyrun.report.colours import BLUE, ORANGE
from flyrun.report.figures import INK

BATCHES = np.geomspace(1.0, 1024.0, 31)


def ratios(batches: np.ndarray) -> np.ndarray:
    """Gap of MGPMH over that of Gibbs, from exact transition matrices; one factor 1[x₁ = x₂], so L = 1."""
    pair = spectral_gap.SmallGraph(2, 2, [((0, 1), np.eye(2))])
    plain = spectral_gap.gap(spectral_gap.gibbs(pair), pair.stationary)
    gaps = [spectral_gap.gap(spectral_gap.mgpmh(pair, batch), pair.stationary) for batch in batches]
    return np.array(gaps) / plain


def gap_against_batch(run: Run, run_dir: Path) -> Any:
    """Ratio of gaps against λ with both bounds; below it, what is lost, on logarithmic axes."""
    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    measured = ratios(BATCHES)
    recalled = np.array([spectral_gap.recalled_mgpmh_bound(1.0, batch) for batch in BATCHES])
    shown = BATCHES[BATCHES >= 2.0]
    derived = np.array([spectral_gap.mgpmh_bound(1.0, batch) for batch in shown])
    for axis, of in ((top, lambda ratio: ratio), (bottom, lambda ratio: 1.0 - ratio)):
        axis.plot(BATCHES, of(measured), color=INK, marker="o", markersize=3, linewidth=1.2, label="measured")
        label = "bound as recalled, exp(−L²/λ): fails where the measured ratio is below"
        axis.plot(BATCHES, of(recalled), color=ORANGE, linestyle="--", label=label)
        label = "bound derived here, for λ ≥ 2L: holds"
        axis.plot(shown, of(derived), color=BLUE, linestyle="-.", label=label)
    top.set(ylabel="gap of MGPMH / gap of Gibbs", xscale="log", ylim=(0.0, 1.02))
    bottom.plot(
        BATCHES, np.sqrt(1.0 / (2.0 * np.pi * BATCHES)), color=INK, linewidth=0.8, linestyle=":",
        label="√(L²/(2πλ)), first order in the noise",
    )  # fmt: skip
    bottom.set(xlabel="mean batch λ (L = 1)", ylabel="1 − ratio", yscale="log")
    top.legend(*bottom.get_legend_handles_labels(), loc="lower right", fontsize=8)
    return figure


FIGURES = {"mgpmh_gap": gap_against_batch}
