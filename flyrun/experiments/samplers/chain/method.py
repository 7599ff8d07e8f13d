"""The family of chains: θ moved by an update, on all data or under Firefly Monte Carlo."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.models.base_density import draw_base
from flyrun.experiments.models.collapse import expected_bright
from flyrun.experiments.models.local_bounds import brought_in, outside
from flyrun.experiments.models.problem import Problem, bind
from flyrun.experiments.samplers.chain.loop import begin_chain, empty_draws, run_chain
from flyrun.experiments.samplers.chain.metric import reference_at, reference_of
from flyrun.experiments.samplers.chain.setup import Setup
from flyrun.experiments.samplers.chain.targets.firefly import Firefly, firefly
from flyrun.experiments.samplers.chain.targets.full_data import FullData, full_data
from flyrun.experiments.samplers.chain.update import StepSize
from flyrun.experiments.samplers.method import Arm, Facts, Method, Records, State
from flyrun.experiments.samplers.on_data import OnData
from flyrun.ground import mapped
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.compiled import outer_jit
from flyrun.ground.numerics.state import arrays_of, generator, generator_state, seeded, with_arrays
from flyrun.ground.threads import one_blas_thread


def prepare(arm: Arm, folder: Path) -> "Chain":
    """Load the data, fit what the arm needs (or recall it from `folder`) and bind it all together.

    Raises DataError or ConfigError, one line each, for what a person can mend.
    """
    if arm.sampler.metric == "bound" and arm.model.climbs and not arm.model.bounds:
        raise ConfigError(
            f"sampler.metric=bound: model={arm.model.name} has no bounds; choose sampler.metric=hessian"
        )
    shaped = arm.sampler.metric != "identity"
    at_map = arm.bound.at_map or (arm.acceptance is not None and arm.acceptance.at_map)
    needs_map = at_map or arm.protocol.init in ("map", "ep") or shaped
    return Chain(arm, bind(arm, folder, needs_map))


@outer_jit
def _draw(base, rng, theta):
    draw_base(base, rng, theta)


def _state(theta: np.ndarray, iteration: int, rng: Any, kernel: Any, brightness: Any, target: Any) -> State:
    return {
        "theta": theta,
        "iteration": np.array([iteration]),
        "rng": generator_state(rng),
        **arrays_of(kernel, "kernel"),
        **arrays_of(brightness, "brightness"),
        **arrays_of(target.memory, "memory"),
    }


class Chain(OnData):
    """One arm, ready to run chains from any seed."""

    unit, shown = Method.unit, Method.shown

    def __init__(self, arm: Arm, problem: Problem):
        super().__init__(arm, problem)
        self.setup, self.module = Setup(arm, problem), arm.sampler.code
        self.label = self.module.LABEL
        self.exact = (arm.acceptance is None or arm.acceptance.exact) and not arm.sampler.biased
        started = time.perf_counter()
        with one_blas_thread():
            self._target, self._brightness = self._make_target()
            self._kernel = self._make_kernel()
            self._starts = self._around()
        self.own_seconds, self._warm = time.perf_counter() - started, False

    def _around(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Centres, (P,), and roots, (P, P), of precisions of the Gaussians that chains start from, if any.

        EP's, or of the curvature at each mode; at one that is no peak (a corner of the prior's), the MAP's.
        """
        if self.arm.protocol.init == "ep":
            return [(self.setup.ep.mean, np.linalg.cholesky(np.linalg.inv(self.setup.ep.covariance)))]
        if self.arm.protocol.init != "map":
            return []
        places = [(self.problem.fit.theta_map, self.setup.lower)]
        for mode in self.problem.fit.modes[1:]:
            try:
                places.append((mode, np.linalg.cholesky(self.setup.curvature_at(mode))))
            except np.linalg.LinAlgError:
                places.append((mode, self.setup.lower))
        return places

    def _make_target(self) -> tuple[Any, Any]:
        """Target and brightness update."""
        problem, arm = self.problem, self.arm
        bound, expected = arm.bound.code.build(arm.bound, self.setup, bool(arm.brightness.expects_tight))
        self._expected_bright = float(expected.sum()) if len(expected) else float("nan")
        brightness = arm.brightness.code.build(arm.brightness, self.n_data, expected)
        gradients = self.module.GRADIENTS
        make = getattr(arm.acceptance.code, "target", None) if arm.acceptance else None
        if make is not None:
            target: Any = make(arm.acceptance, self.setup, gradients)
        elif bound is None:
            prior, power = problem.prior, problem.power
            target = full_data(prior, problem.model, problem.features, self.n_params, gradients, power)
        else:
            base = self.setup.collapse(bound)
            target = firefly(base, problem.model, bound, problem.features, gradients)
        return target, brightness

    def _make_kernel(self) -> Any:
        """θ-update; one that is shaped by a Gaussian near the target is given it, as is one with a rule."""
        config, rule, setup = self.arm.sampler, self.arm.acceptance, self.setup
        metric = config.metric
        shape: tuple[Any, ...] = ()
        if metric == "ep":
            mean, covariance = setup.ep
            shape = (reference_at(mean, np.linalg.inv(covariance)),)
        elif metric == "hessian":
            shape = (reference_at(self.problem.fit.theta_map, setup.curvature),)
        elif metric != "identity" and not self.arm.bound.firefly:
            shape = (reference_of(setup.collapse(setup.touching(self.problem.fit.theta_map)), target=False),)
        elif metric != "identity":
            shape = (reference_of(self._target.base, target=True),)
        if hasattr(self.module, "chosen"):
            shape += (self.module.chosen(config, self._expected_bright),)
        kernel = self.module.build(config, self.n_params, *shape)
        step = getattr(kernel, "step", None)
        if metric == "identity" and isinstance(step, StepSize) and not step.fixed:
            step.current[0] *= setup.unit
        return kernel._replace(rule=rule.code.build(rule, setup)) if rule else kernel

    @property
    def parts(self) -> tuple[Any, ...]:
        """What is set up before any chain: data, model, bounds, base, and what updates are made of."""
        return self._target, self._brightness, self._kernel

    def warm_up(self) -> float:
        """Compile what a chain needs, or load it from the cache, once; seconds it took."""
        started = time.perf_counter()
        if not self._warm:
            _, draws = self.advance(self.init(0), 2 * self.arm.protocol.thin)
            self.trace(draws["theta"][:0])
            self._warm = True
        return time.perf_counter() - started

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """First state of a chain.

        The start is the same for every arm at one seed: a draw from the prior, as in the paper, 0, or, for
        protocol.init=map, from the Gaussian of the posterior's curvature at the MAP, near stationarity (not
        the MAP itself: there every pseudo-likelihood is 0); where there are several modes, seeds take turns
        at them; for ep, from EP's. init_freedom makes a t of it. Where bounds are of two levels a start
        beyond their border is brought in, unless it is at another mode: out there so many data are bright
        that chains find no way in for tens of thousands of iterations. The first state costs N queries.
        """
        first = seeded(seed)
        theta = np.zeros(self.n_params)
        if self._starts:
            centre, root = self._starts[seed % len(self._starts)]
            with one_blas_thread():
                away = np.linalg.solve(root.T, first.standard_normal(theta.size))
            if freedom := self.arm.protocol.init_freedom:
                away *= np.sqrt(freedom / first.chisquare(freedom))
            theta = centre + away
        elif self.arm.protocol.init == "prior":
            _draw(self.problem.prior, first, theta)
        if self._region is not None and len(self._starts) < 2:
            with one_blas_thread():
                theta = brought_in(self._region, theta)
        return self._begin(theta, seeded(seed, self.arm.method()), self._kernel, 0)

    @property
    def _region(self) -> Any:
        """Where bounds of two levels are tight; None of others."""
        return getattr(getattr(self._target, "bound", None), "region", None)

    def at(self, theta: np.ndarray, tuned: State, seed: int) -> State:
        asleep = {key: np.zeros_like(values) for key, values in tuned.items() if key.endswith("stream.state")}
        kernel = with_arrays(self._kernel, tuned | asleep, "kernel")
        rng = seeded(seed, {**self.arm.method(), "at": seed})
        return self._begin(theta.copy(), rng, kernel, int(tuned["iteration"][0]))

    def _begin(self, theta: np.ndarray, rng: np.random.Generator, kernel: Any, iteration: int) -> State:
        """The state of a chain that begins at θ, (P,), which costs N queries."""
        memory = self._target.memory
        target = self._target._replace(memory=with_arrays(memory, arrays_of(memory, ""), ""))
        mapped.expect(self.problem.features.rows, random=False)
        begin_chain(rng, target, kernel, self._brightness, theta)
        state = _state(theta, iteration, rng, kernel, self._brightness, target)
        return state if self._region is None else {**state, "outside": outside(self._region, theta[None])}

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        """n more iterations from `state`, which stays as it is.

        Draws: theta (n // thin, P), and per iteration queries, bright, accepted and, where the target knows
        it, log_joint, each (n,); outside, of bounds of two levels: whether the last kept position is beyond.
        """
        protocol = self.arm.protocol
        first = int(state["iteration"][0])
        theta = state["theta"].copy()
        rng = generator(state["rng"])
        kernel = with_arrays(self._kernel, state, "kernel")
        brightness = with_arrays(self._brightness, state, "brightness")
        target = self._target._replace(memory=with_arrays(self._target.memory, state, "memory"))
        draws = empty_draws(n, protocol.thin, first, self.n_params)
        mapped.expect(self.problem.features.rows, random=not isinstance(self._target, FullData))
        run_chain(rng, target, kernel, brightness, theta, first, protocol.burn_in, protocol.thin, draws)
        records = draws._asdict()
        if getattr(self._target, "partial", False):
            del records["log_joint"]
        after = _state(theta, first + n, rng, kernel, brightness, target)
        if self._region is not None:  # at the position kept last
            places = np.append(state["outside"], outside(self._region, draws.theta))
            kept = (first + np.arange(1, n + 1)) // protocol.thin - first // protocol.thin
            records["outside"], after["outside"] = places[kept], places[-1:]
        return after, records

    def trace(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        records, target = super().trace(theta), self._target
        if isinstance(target, Firefly):
            of = self.setup.module, target.bound, target.model, target.features
            records["bright_expected"] = np.array([expected_bright(*of, place) for place in theta], float)
        return records

    def notes(self) -> list[str]:
        fit, lines = self.problem.fit, []
        for key, chosen, scores in (
            ("model.scale", fit.model_scale, fit.held_out_model),
            ("prior.scale", fit.scale, fit.held_out),
        ):
            tried = ", ".join(f"{scale:g}: {score:.5f}" for scale, score in scores)
            if tried:
                taken = f"{self.arm.name}: {key}=held_out takes {chosen:g}"
                if len(scores) > 1 and chosen in [end(scale for scale, _ in scores) for end in (min, max)]:
                    grid = f"{key.partition('.')[0]}.grid"
                    taken += f", an end of {grid}: a better one may lie beyond it, so try a wider {grid}=[…]"
                lines.append(f"{taken}; mean test log likelihood at the MAP by scale: {tried}")
        return lines

    def facts(self, state: State | None = None) -> Facts:
        start_queries = getattr(self._target, "start_queries", self.n_data)
        self.own_queries = self.setup.queries + start_queries
        return replace(super().facts(state), tuned=self._tuned(state))

    def more(self, state: State | None) -> dict[str, Any]:
        """What was held out, how data and coordinates are called, and what setting up is made of."""
        fit, setup = self.problem.fit, self.setup
        shift_free = getattr(self.arm.model.code, "SHIFT_FREE", False)
        return {
            "held_out": fit.held_out,
            "model_scale": None if np.isnan(fit.model_scale) else fit.model_scale,
            "held_out_model": fit.held_out_model,
            "feature_names": list(self.problem.dataset.feature_names),
            "gradients": self.module.GRADIENTS,
            "gauge": {"classes": self.problem.model.n_predictors} if shift_free else {},
            "bound_queries": setup.queries,
            "start_queries": self.own_queries - setup.queries,
            **({"mass_beyond": setup.mass_beyond} if setup.mass_beyond < 1.0 else {}),
            **self._read(state),
            **self._occupation(),
        }

    def _occupation(self) -> dict[str, Any]:
        """How often chains should be beyond the border of bounds of two levels; that bright data are known.

        Given θ each datum is bright with probability 1 − B/L, whatever moves z, which `trace` adds up.
        """
        known: dict[str, Any] = {}
        if isinstance(self._target, Firefly) and self.exact:
            apart = "brightness=explicit brightness.fraction=1"
            together = "acceptance=exact bound=map brightness=implicit"
            remedy = apart if self.arm.brightness.firefly else together
            known["bright"] = {"remedy": f"take {remedy}, or more iterations"}
        if self._region is not None:
            remedy = "take bound.mass_outside=0.0001, or bound=map"
            share = self.arm.bound.mass_outside
            known["outside"] = {"share": share, "what": "beyond the bounds' border", "remedy": remedy}
        return {"occupation": known} if known else {}

    def _read(self, state: State | None) -> dict[str, int]:
        """What a rule that draws data by bounds has read so far; one beyond its bound ends a run."""
        key = "kernel.rule.candidates"
        return {"candidates": int(state[key][0])} if state is not None and key in state else {}

    def _tuned(self, state: State | None) -> dict[str, float]:
        settings = {}
        if state is not None and "kernel.step.current" in state:
            settings["step"] = float(state["kernel.step.current"][0])
        if self.arm.sampler.n_steps == "auto":
            settings["n_steps"] = float(self._kernel.n_steps)
        if self.arm.brightness.q == "auto":
            settings["q"] = float(np.exp(self._brightness.log_q))
        return settings
