"""What an arm looks like in figures: one colour for a method wherever it is drawn, and no two arms alike."""

import zlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from flyrun.experiments.report.arms import ArmResult
from flyrun.ground.page.colours import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LINES,
    ORANGE,
    PALETTE,
    PINK,
    SKY,
    VERMILION,
    VIOLET,
)

#: arms by name, samplers of graphs by theirs; the papers' three arms and plain Gibbs in the papers' colours
KNOWN = {
    "regular": BLUE, "untuned": GREEN, "map_tuned": ORANGE, "map_tuned_small_q": VIOLET,
    "map_tuned_slack": SKY, "independence": PINK,
    "independence_ep": GREY, "round": SKY, "shaped": VIOLET, "ep_shards_8": BLUE,
    "mala": VIOLET, "hmc": SKY, "regular_hmc": SKY, "firefly_hmc": VERMILION,
    "firefly_hmc_local": PINK, "gibbs": BLACK,
    "random_walk": BLUE, "random_walk_whitened": GREY, "laplace": BLACK, "importance": GREEN,
    "importance_fitted": GREEN, "slice": VIOLET, "min_gibbs": BLUE, "local_minibatch": ORANGE,
    "mgpmh": GREEN, "double_min": PINK, "poisson_gibbs": SKY,
    "pmd": ORANGE, "pmd_6000": ORANGE, "pmd_30": VIOLET, "pmd_60": SKY, "pmd_narrow": ORANGE,
    "pmd_weighted": PINK, "pmd_weighted_20000": PINK, "pmd_pilot": PINK, "pmd_kde": VERMILION,
    "pmd_bound": VERMILION, "pmd_hybrid": PINK, "pmd_kde_growing": GREY, "pmd_replacement": GREY,
    "svi": BLUE, "svi_constant": BLUE, "svi_jaakkola_jordan": BLUE, "svi_512": BLUE,
    "one_pass_smc": GREEN, "tempered_smc": GREY, "sgld": SKY,
    "sgrld": SKY, "npv": VIOLET, "streaming_laplace": BLACK, "gibbs_swap": BLACK, "subset_of_data": PINK,
    "exact_gp": BLACK, "mh_ss_1": ORANGE, "mh_ss_2": ORANGE, "mh_ss_3": ORANGE, "smh_2": GREEN,
    "smh_2_cornish": GREEN, "smh_2_walk": GREEN, "smh_2_walk_cornish": GREEN, "tuna": BLUE, "tuna_2": BLUE,
    "delayed": BLACK, "surrogate_transition": BLACK, "surrogate_transition_2": BLACK, "zigzag": VIOLET,
    "zigzag_1": VIOLET, "zigzag_2": VIOLET, "austerity": PINK, "austerity_0.001": PINK,
    "austerity_0.01": PINK, "austerity_0.05": PINK, "austerity_0.1": VERMILION, "austerity_0.2": VERMILION,
    "austerity_proxies": PINK, "austerity_proxies_pcn": VERMILION, "hoeffding": VIOLET, "serfling": VIOLET,
    "bernstein": VIOLET, "bernstein_serfling": VIOLET, "serfling_proxies": GREY, "bernstein_proxies": GREY,
    "bernstein_serfling_proxies": GREY, "sgld_epochs": SKY, "sgld_polynomial": SKY, "sgld_100": SKY,
    "sgld_1000": SKY, "sgld_1000_short": GREY, "sgld_cv": BLUE, "ep": GREEN, "ep_serial": GREEN, "adf": GREEN,
    "ep_adf": GREEN, "parallel_ep": GREEN, "parallel_ep_control": PINK, "kl_gaussian": BLUE,
    "stochastic_kl": BLUE, "stochastic_kl_control": BLUE, "sep": SKY, "sep_control": SKY,
    "sep_constant": SKY, "mean_field": VERMILION, "linear_response": VERMILION, "cavi": PINK,
    "cavi_from_prior": PINK,
    "jaakkola_jordan": VIOLET, "bbvi": VIOLET, "pathfinder": VIOLET, "weighted": ORANGE,
    "weighted_laplace": ORANGE, "weighted_t": ORANGE, "advi": GREY, "advi_whitened": GREY,
    "full": GREEN, "diagonal": VIOLET, "scalar": VERMILION, "uniform": GREY, "product": ORANGE, "swiss": PINK,
    "kernels": SKY, "semiparametric": SKY, "trees": ORANGE, "pie": PINK, "wasp": GREY, "rejection": BLACK,
    "weierstrass": GREEN, "weierstrass_wide": VERMILION, "consensus_4": SKY, "consensus_16": SKY,
    "weierstrass_16": BLACK, "prefetching_16": BLUE,
    "advi_full_rank": GREY, "synchronous": GREY, "streaming_vb": BLACK, "streaming_ep_stale": BLACK,
    "firefly": ORANGE, "sgld_step_0.03": SKY,
}  # fmt: skip
# These name a method whatever its arms are called, as there are several of one with other batches.
_SAMPLERS = ("gibbs", "min_gibbs", "local_minibatch", "mgpmh", "double_min", "poisson_gibbs")
# Visits all data in every iteration, as the regular arm: its line of queries lies on that one's.
_DASHED = ("independence",)


class Look(NamedTuple):
    """A colour and one of LINES."""

    colour: str
    line: str


def looks(methods: Mapping[str, str]) -> dict[str, Look]:
    """arm -> look, from arm -> method.

    A method that is not KNOWN has a colour by its name, or the next that the fewest others here have. Arms of
    one colour differ in the line.
    """
    colours = {method: KNOWN[method] for method in methods.values() if method in KNOWN}
    for method in methods.values():
        if method not in colours:
            first = zlib.crc32(method.encode()) % len(PALETTE)
            order = PALETTE[first:] + PALETTE[:first]
            colours[method] = min(order, key=list(colours.values()).count)
    styles: dict[str, Look] = {}
    for arm, method in methods.items():
        free = [Look(colours[method], line) for line in LINES[method in _DASHED :]]
        styles[arm] = next((look for look in free if look not in styles.values()), free[-1])
    return styles


def styles_of(arms: Iterable[ArmResult]) -> dict[str, Look]:
    """arm -> look of a run's arms: by sampler where that names the method, else by the arm's own name, or by
    that of the arm that it was swept from on other data.

    Arms of one method on one problem differ in the line, and on several while there are lines for all.
    """
    arms = list(arms)
    problems = {arm.own_name: arm.problem for arm in arms}
    named: dict[str, dict[str, str]] = {}
    others: dict[str, dict[str, str]] = {}
    for arm in arms:
        sampler, base = arm.setting("sampler", "name"), (arm.sweep or {}).get("arm", arm.own_name)
        if sampler in _SAMPLERS:
            named.setdefault(arm.problem, {})[arm.name] = sampler
        else:
            elsewhere = problems.get(base, arm.problem) != arm.problem
            others.setdefault(arm.problem, {})[arm.name] = base if elsewhere else arm.own_name
    styles = looks({arm: method for group in others.values() for arm, method in group.items()})
    crowded = len(set(styles.values())) < len(styles)
    for group in (*named.values(), *(others.values() if crowded else ())):
        styles |= looks(group)
    return styles
