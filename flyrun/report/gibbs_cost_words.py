"""What the report on costs says in words."""

from __future__ import annotations

from flyrun.report.arms import ArmResult, Run
from flyrun.report.caveats import different_machines, uneven_times, unfinished
from flyrun.report.gibbs_cost_table import SYMBOL, frame
from flyrun.report.gibbs_table import per_seed
from flyrun.report.gibbs_words import sticks
from flyrun.report.slopes import COSTS


def lead(run: Run) -> list[str]:
    """Paper and what was measured."""
    lines = [str(run.info["paper"])] if run.info.get("paper") else []
    done = [arm for arm in run.arms if arm.done]
    if done:
        graphs = len({str((arm.setting("dataset"), arm.setting("model"))) for arm in done})
        lines.append(
            f"{len(done)} arms on {graphs} graphs. From one graph to the next one of Δ, D, L and Ψ grows "
            "while the others stay; costs are means over a whole chain. One cell at a time, as cells "
            "that run side by side slow each other down (executor.workers=1)."
        )
    return lines


def legend(run: Run) -> list[str]:
    """What the tables' columns mean."""
    published = "; ".join(f"{name} O({cost.text}) ({cost.paper})" for name, cost in COSTS.items())
    return [
        "factors: factor evaluations per update, counted as done, all estimators faithful on these graphs. "
        "µs: per update, sampling only. Slopes: least squares of log cost on log size ± standard error from "
        "the scatter. as published: exponent of the parameter in the published cost, a range where only one "
        "of its terms grows; formula here: slope of that formula over the same graphs, constants left out.",
        f"Published costs: {published}.",
        "Batches λ of MIN-Gibbs Ψ², of MGPMH and Poisson-Gibbs L², of DoubleMIN-Gibbs L² and Ψ² (our "
        "choice), so that they grow as the published costs have it. L is varied at fixed Ψ, and Ψ at "
        "fixed L, by the number of variables: Ψ = nL/k for factors of k variables.",
        "Time follows the count of factors where it is most of the work. A minibatch's factors lie anywhere "
        "in memory, plain Gibbs reads its own in order: a factor costs a minibatch more, the more so the "
        "larger the graph, which is why its time may grow with Δ while its count does not.",
        "× faster an update: plain Gibbs' time by this one's. × faster at equal error: plain Gibbs' time by "
        "the time until this one's mean error is down to where plain Gibbs ends; '-' where its chain ends "
        "before that.",
        *_left_out(run),
    ]


def _left_out(run: Run) -> list[str]:
    """Where a method is not run because it cannot win: its cost by formula."""
    found = []
    rows = [row for row in frame(run).to_dict("records") if row["compared"] == "regime"]
    for graph in dict.fromkeys(row["graph"] for row in rows):
        own = {row["sampler"]: row for row in rows if row["graph"] == graph}
        some = next(iter(own.values()))
        gibbs, batch = some["D"] * some["Delta"], some["Psi"] ** 2
        if batch > gibbs and not {"min_gibbs", "double_min"} & set(own):
            found.append(
                f"MIN-Gibbs and DoubleMIN-Gibbs are left out at n = {some['n_variables']:,}: they do not win "
                f"there. A batch of Ψ² is {batch:.3g} evaluations, {batch / gibbs:,.0f} times plain Gibbs' "
                "DΔ; they are for few variables with many factors, where Ψ is small."
            )
        found += [
            f"{row['update']} does not win at n = {some['n_variables']:,}, Δ = {some['Delta']:,}: its "
            f"updates take {1 / row['speedup_per_update']:.2g} times plain Gibbs'."
            for row in own.values()
            if row["speedup_per_update"] < 1
        ]
    lost = _losses(run)
    if lost:
        found.append(
            "Where they do not win: an update took longer than plain Gibbs' on the same graph for "
            + "; ".join(f"{name} at {where}" for name, where in lost.items())
            + "."
        )
    return found


def _losses(run: Run) -> dict[str, str]:
    """Algorithm -> the graphs of the sweeps on which its update took longer than plain Gibbs'."""
    lost: dict[str, list[str]] = {}
    for row in frame(run).to_dict("records"):
        if row["compared"] and row["compared"] != "regime" and row["speedup_per_update"] < 1:
            sizes = ", ".join(f"{SYMBOL[name]} = {row[name]:,.4g}" for name in SYMBOL)
            lost.setdefault(row["update"], []).append(f"({sizes})")
    return {name: ", ".join(where) for name, where in lost.items()}


def caveats(run: Run) -> list[str]:
    """Warnings of a run, each one sentence; empty when there is nothing to say."""
    done = [arm for arm in run.arms if arm.done]
    found = [f"{arm.name}: {text}" for arm in run.arms for text in (*unfinished(arm), *sticks(arm))]
    names = dict.fromkeys(arm.fact("update") for arm in done if arm.fact("exact") is False)
    found += [f"{name} is biased: its draws do not follow the model exactly." for name in names]
    found += different_machines(done)
    times: list[tuple[ArmResult, object]] = [(arm, per_seed(arm, "us_per_update")) for arm in done]
    return found + uneven_times(times)  # type: ignore[arg-type]
