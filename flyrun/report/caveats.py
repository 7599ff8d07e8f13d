"""What a reader must know before trusting a row, in plain words."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyrun.report.arms import ArmResult, Run
from flyrun.report.table import per_seed

FEW_DRAWS = 100
HIGH_RHAT = 1.05
# Efficiency of random-walk and Langevin steps is flat around the target; a quarter off is still harmless.
ACCEPTANCE_SLACK = 0.25
# Of independence proposals on QM9 (57 coefficients, Student-t, Laplace prior, 3 × 5,000 draws) 0.04, 0.09,
# 0.21, 0.26 were accepted with 1, 2, 5, 10 data a coefficient; R-hat was 1.32, 1.04, 1.01, 1.01, HMC's 1.00.
FEW_DATA = 5
MACHINE_KEYS = ("cpu", "cores", "platform")


def caveats(run: Run) -> list[str]:
    """Warnings of a run, arm by arm, each one sentence; empty when there is nothing to say."""
    found = []
    for arm in run.arms:
        found += [f"{arm.name}: {text}" for text in (*unfinished(arm), *_trust(arm))]
    return found + _comparison(run)


def unfinished(arm: ArmResult) -> list[str]:
    """Seeds that are not in an arm's row, and why."""
    if arm.done == arm.wanted:
        return []
    found = [f"{arm.done} of {arm.wanted} seeds are finished and in its row; the same command runs the rest."]
    for seed, state in arm.states.items():
        if state != "done" and arm.messages.get(seed):
            found.append(f"seed {seed} is {state}: {arm.messages[seed]}.")
    return found


def _trust(arm: ArmResult) -> list[str]:
    if not arm.done or arm.pooled is None:
        return []
    found = []
    if arm.fact("exact") is False:
        found.append("this sampler is biased: its draws do not follow the posterior exactly.")
    still = [seed for seed, cell in zip(_seeds(arm), arm.cells, strict=True) if np.max(cell.ess) == 0]
    if still:
        found.append(f"the chain of seed {_listed(still)} never moved; it counts with an ESS of 0.")
    found += _few_draws(arm, float(np.min(arm.pooled.free_bulk or arm.pooled.bulk)))
    rhat = np.nan_to_num(np.array(arm.pooled.rhat), nan=1.0)
    if rhat.max(initial=1.0) > HIGH_RHAT:
        where = arm.pooled.names[int(rhat.argmax())]
        count = int((rhat > HIGH_RHAT).sum())
        found.append(
            f"the runs do not agree yet: R-hat is {rhat.max():.2f} for {where}"
            f" and above {HIGH_RHAT} for {count} of {rhat.size} coordinates; run longer."
        )
    found += about_a_gaussian(arm)
    target = arm.setting("sampler", "target_accept")
    rate = np.mean([cell.accept_rate for cell in arm.cells])
    fixed = arm.setting("sampler", "step") is not None
    if target and not fixed and abs(rate - target) > ACCEPTANCE_SLACK * target:
        found.append(
            f"acceptance is {rate:.2f}, not near its target {target:g}; a longer burn-in tunes better."
        )
    return found


def about_a_gaussian(arm: ArmResult) -> list[str]:
    """That a sampler is about a Gaussian, or a t, where the posterior is far from one."""
    sampler, ratio = arm.setting("sampler", "name"), arm.fact("n_data", 0) / max(arm.fact("n_params", 0), 1)
    apart = np.nanmax([1.0, *(arm.pooled.rhat if arm.pooled else ())]) > HIGH_RHAT
    if sampler == "elliptical_slice" and arm.setting("protocol", "init") == "prior" and apart:
        return [
            "elliptical slice sampling is about a Gaussian and hardly moves far out, where the posterior "
            "falls off more slowly; let chains start near the mode: protocol.init=map."
        ]
    heavy = [
        words
        for group, name, words in (
            ("model", "student_t", "a Student-t likelihood"),
            ("prior", "laplace", "a Laplace prior"),
        )
        if arm.setting(group, "name") == name
    ]
    if sampler == "independence" and heavy and 0 < ratio < FEW_DATA:
        return [
            f"its proposals are a t at the MAP, and a posterior of {' and '.join(heavy)} with {ratio:.2g} "
            f"data a coefficient, below {FEW_DATA}, is far from it: chains can stay put for long; "
            "sampler=hmc moves."
        ]
    return []


def _few_draws(arm: ArmResult, worst: float) -> list[str]:
    """The ESS itself is an estimate: with few effective draws it may be off by half."""
    total = float(sum(np.mean(cell.free or cell.ess) for cell in arm.cells))
    if np.isnan(worst) or min(total, worst) >= FEW_DRAWS:
        return []
    return [
        f"its estimates rest on few effective draws ({total:,.0f} by R-CODA on average over coordinates, "
        f"{worst:,.0f} by ArviZ for the worst one, over {arm.done} {'run' if arm.done == 1 else 'runs'}); "
        "means and ESS are rough."
    ]


def _comparison(run: Run) -> list[str]:
    """What makes arms or seeds unlike each other."""
    done = [arm for arm in run.arms if arm.done]
    found = []
    lengths = {arm.name: arm.cells[0].n_iterations for arm in done}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {n:,}" for name, n in lengths.items())
        found.append(
            f"The arms differ in iterations after burn-in ({listed}); compare ESS at equal length only."
        )
    found += different_machines(done)
    if done and run.baseline is None:
        found.append("No arm of this run is the baseline, so there is no speedup.")
    return found + uneven_times([(arm, per_seed(arm, "us_per_iter")) for arm in done])


def different_machines(done: list[ArmResult]) -> list[str]:
    """That cells ran on more than one machine."""
    machines = {_machine(info) for arm in done for info in arm.infos}
    if len(machines) < 2:
        return []
    return [f"Cells ran on {len(machines)} different machines; times are not comparable."]


def uneven_times(times: list[tuple[ArmResult, np.ndarray]]) -> list[str]:
    """Arms whose seeds took times that differ much; times: one value per seed."""
    return [
        f"{arm.name}: times differ much between seeds; something else used the machine."
        for arm, values in times
        if len(values) > 1 and np.std(values) > 0.5 * np.mean(values)
    ]


def _machine(info: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(info.get("environment", {}).get(key)) for key in MACHINE_KEYS)


def _seeds(arm: ArmResult) -> list[int]:
    return [info["seed"] for info in arm.infos]


def _listed(values: list[int]) -> str:
    return ", ".join(map(str, values))
