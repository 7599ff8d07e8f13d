"""What a report on a graph says in words: constants above, meanings of columns below, and warnings."""

from __future__ import annotations

import math

import numpy as np

from flyrun.report.arms import ArmResult, Run
from flyrun.report.caveats import different_machines, uneven_times, unfinished
from flyrun.report.gibbs_reference import FAR, reference
from flyrun.report.gibbs_table import frame, per_seed, plain_gibbs
from flyrun.report.render import number

# What the sd of the energy's estimate can be at λ = Ψ²/4. On the paper's Ising model 0.15 of MIN-Gibbs'
# updates changed a variable there (of plain Gibbs' 0.38), 0.001 at Ψ²/16 and 0.0001 at Ψ²/100.
MOST_SPREAD = 2.0


def lead(run: Run) -> list[str]:
    """Paper, graph with L, Ψ and Δ, and lengths, a line each."""
    lines = [str(run.info["paper"])] if run.info.get("paper") else []
    arm = next((arm for arm in run.arms if arm.done), None)
    if arm is None:
        return lines
    info, n = arm.infos[0], arm.fact("n_variables", 0)
    lines.append(
        f"{arm.setting('dataset', 'name')}, {arm.setting('model', 'name')}: {n:,} variables of up to "
        f"{arm.fact('n_values'):,} values; L = {arm.fact('local_energy_bound'):.5g}, "
        f"Ψ = {arm.fact('total_energy_bound'):.5g}, Δ = {arm.fact('largest_degree'):,}."
    )
    sweeps, burn_in = info["iterations"], info["burn_in"]
    lines.append(
        f"{sweeps:,} sweeps of {n:,} updates, {sweeps * n:,} in all, from variables all equal (error "
        f"{arm.fact('start_error'):.3f}). The error counts all of them; energy and agreement leave out the "
        f"first {burn_in:,} sweeps."
    )
    return lines


def legend(run: Run) -> list[str]:
    """What the tables' columns mean."""
    lines = [
        "error: mean over variables of the ℓ2 distance between the running marginal and uniform, after the "
        "last update. × Gibbs: relative to plain Gibbs. Batch sizes are our choice (the paper's are not "
        "known to us), in multiples of L² or Ψ², or in factors; a mean batch is of Poisson draws.",
        "factors: factor evaluations per update. Nominal charges each batch at its full size, as the "
        "algorithm states it; actual is what was done. estimator: faithful draws a batch factor by factor, "
        "superposed draws the same sum as one Poisson number, in O(1). µs: per update, sampling only.",
        "⟨ζ⟩/Ψ: mean energy; neighbours agree: share of neighbouring pairs of one value; off: difference to "
        f"a long run of plain Gibbs ({_long_run(run)}) in standard errors, of both together, from the spread "
        f"over chains; ! marks those beyond {FAR:g}. By symmetry the true marginals are uniform, so a biased "
        "sampler has a small error too; here it is seen.",
    ]
    if any(arm.fact("exact") is False for arm in run.arms):
        lines.append(f"biased: {_listed(run, exact=False)}; no stationary distribution of it is known.")
    return lines


def _long_run(run: Run) -> str:
    long_run = reference(run)
    return long_run.what if long_run is not None else "none at hand"


def caveats(run: Run) -> list[str]:
    """Warnings of a run, each one sentence; empty when there is nothing to say."""
    off = {row["arm"]: row for row in frame(run).to_dict("records")}
    found = []
    for arm in run.arms:
        found += [f"{arm.name}: {text}" for text in (*unfinished(arm), *_trust(arm, off[arm.name]))]
    done = [arm for arm in run.arms if arm.done]
    if done and plain_gibbs(run) is None:
        found.append(
            "No arm of this run is plain Gibbs with a finished seed; there is nothing to compare with."
        )
    if len({arm.infos[0]["iterations"] for arm in done}) > 1:
        found.append("The arms differ in length; compare errors at equal numbers of updates only.")
    if any(arm.done == 1 for arm in done):
        found.append("One seed has no spread: standard deviations and errors are not known.")
    times = [(arm, per_seed(arm, "us_per_update")) for arm in done]
    return found + different_machines(done) + uneven_times(times)


def sticks(arm: ArmResult) -> list[str]:
    """That a batch is so far below Ψ² that the estimate of the energy, once large, is kept for long."""
    key = {"min_gibbs": "batch", "double_min": "second_batch"}.get(arm.setting("sampler", "name", default=""))
    if key is None:
        return []
    batch, total = arm.fact("batches")[-1], arm.fact("total_energy_bound")
    if math.log1p(total / batch) * math.sqrt(batch) <= MOST_SPREAD:
        return []
    return [
        f"its mean batch λ = {number(batch, 4)} is {batch / total**2:.2g} Ψ²: it is exact, but below Ψ²/4 "
        "the estimate of the energy that it keeps can vary by an sd above 2, so that it sticks at large ones "
        f"and mixes very slowly; raise sampler.{key}, which counts in Ψ²."
    ]


def _trust(arm: ArmResult, row: dict) -> list[str]:
    found = sticks(arm)
    far = [
        f"{what} is {row[column]:+.1f} standard errors off the long Gibbs run"
        for what, column in (("mean energy", "energy_off"), ("agreement of neighbours", "agreement_off"))
        if row.get(column) is not None and not math.isnan(row[column]) and abs(row[column]) > FAR
    ]
    if arm.fact("exact") is False:
        found.append(
            "; ".join(["this sampler is biased: its draws do not follow the model exactly", *far]) + "."
        )
    elif far:
        found.append(f"{' and '.join(far)}, though it is exact: it has not settled, so run longer.")
    if arm.done and arm.fact("n_values", 2) > 1 and np.min(per_seed(arm, "changed")) < 1e-3:
        found.append("fewer than one update in 1,000 changed a variable: the batch is too small to move.")
    return found


def _listed(run: Run, exact: bool) -> str:
    return ", ".join(arm.name for arm in run.arms if arm.fact("exact") is exact)
