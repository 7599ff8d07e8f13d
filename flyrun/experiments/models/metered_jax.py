"""The posterior for JAX: functions that may be compiled, differentiated and looped over, counted as they run.

The meter is an array that compiled code adds to, so that a library's own loops count, too. The log density of
logistic, softmax and Student-t regression is written out as JAX compiles it best for one core: features are
stored (D, N), and the gradient shares the exponentials with the value. Any other model, a package's too, is
asked in double precision outside of JAX, which costs a call a few tenths of a millisecond.

What comes back is of JAX's own precision, single by default: at a million rows a log density is then wrong by
0.02. That meter cannot count under jax.vmap, and refuses: map by jax.lax.map, or take `vmappable`.
"""

import os
from collections.abc import Callable
from functools import partial

import numpy as np

from flyrun.ground.errors import ConfigError

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

try:
    import jax
    import jax.numpy as jnp
except ModuleNotFoundError as error:
    raise ConfigError("JAX is not installed; type `pip install 'flyrun[jax]'`") from error

from flyrun.experiments.config.arm import Arm
from flyrun.experiments.models import passes
from flyrun.experiments.models.features import pulled
from flyrun.experiments.models.problem import Problem, log_priors, value_and_score
from flyrun.experiments.models.shard_prior import priors_of


class JaxPosterior:
    """log_density(theta), theta (P,): log posterior, with its gradient in reverse."""

    def __init__(self, arm: Arm, problem: Problem):
        self._arm, self._problem = arm, problem
        self.n_params, self.n_data = len(problem.coordinates), len(problem.features.rows)
        #: what was read: passes over all rows; rows of batches; of the latter 2^31 before it is drained
        self.read = jax.new_ref(jnp.zeros(2, jnp.int32))
        kind = type(problem.model)
        written = _WRITTEN_OUT.get(f"{kind.__module__}.{kind.__name__}")
        evaluate = self._outside if written is None else self._written_out(written)

        @jax.custom_vjp
        def log_density(theta):
            return forward(theta)[0]

        def forward(theta):
            self.read[0] += 1
            value, gradient = evaluate(theta)
            return value, gradient

        log_density.defvjp(forward, lambda gradient, upstream: (upstream * gradient,))
        self.log_density = log_density
        self.log_likelihoods = self._of_rows()
        self._asked = 0

    @property
    def vmappable(self) -> Callable[[jax.Array], jax.Array]:
        """log_density for jax.vmap, asked outside of JAX, where calls count; not for JaxStepwise.step."""

        def ask(theta: jax.Array) -> tuple[np.ndarray, np.ndarray]:
            thetas = np.asarray(theta, float).reshape(-1, self.n_params)
            self._asked += len(thetas)
            both = [value_and_score(self._arm, self._problem, np.ascontiguousarray(at)) for at in thetas]
            values, gradients = (np.array(part, theta.dtype) for part in zip(*both, strict=True))
            return values.reshape(theta.shape[:-1]), gradients.reshape(theta.shape)

        def forward(theta: jax.Array) -> tuple[jax.Array, jax.Array]:
            shapes = jax.ShapeDtypeStruct((), theta.dtype), jax.ShapeDtypeStruct(theta.shape, theta.dtype)
            return jax.pure_callback(ask, shapes, theta, vmap_method="broadcast_all")

        log_density = jax.custom_vjp(lambda theta: forward(theta)[0])
        log_density.defvjp(forward, lambda gradient, upstream: (upstream * gradient,))
        return log_density

    def drain(self) -> int:
        """Queries since it was last asked."""
        passed, rows = np.asarray(self.read[...]).tolist()
        self.read[...] = jnp.zeros(2, jnp.int32)
        passed, self._asked = passed + self._asked, 0
        return passed * self.n_data + rows

    def _written_out(self, likelihood: Callable) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
        """θ (P,) -> log posterior and its gradient."""
        model, rows, power = self._problem.model, self._problem.features.rows, self._problem.power
        features = jnp.asarray(np.ascontiguousarray(rows.T), jnp.float32)
        likelihood, shape = partial(likelihood, model), (model.n_predictors, rows.shape[1])
        penalty = priors_of(self._arm).penalty(self._problem.prior)
        at_zero = float(log_priors(self._problem.prior, np.zeros((1, self.n_params)))[0])

        def evaluate(theta):
            value, slopes = likelihood(theta.reshape(shape) @ features)
            of_prior = at_zero - 0.5 * penalty.ridge * theta @ theta - penalty.rate * jnp.abs(theta).sum()
            gradient = power * (slopes @ features.T).ravel()
            return power * value + of_prior, gradient - penalty.ridge * theta - penalty.rate * jnp.sign(theta)

        return evaluate

    def _outside(self, theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The same by flyrun's own code."""

        def both(theta):
            value, gradient = value_and_score(self._arm, self._problem, np.asarray(theta, float))
            return np.asarray(value, theta.dtype), gradient.astype(theta.dtype)

        shapes = jax.ShapeDtypeStruct((), theta.dtype), jax.ShapeDtypeStruct(theta.shape, theta.dtype)
        return jax.pure_callback(both, shapes, theta)

    def _of_rows(self) -> Callable[[jax.Array, jax.Array], jax.Array]:
        """(θ (P,), rows (n,)) -> log L_n, (n,), differentiable by θ in reverse. n queries."""
        problem = self._problem
        k = problem.model.n_predictors

        @jax.custom_vjp
        def log_likelihoods(theta, rows):
            return forward(theta, rows)[0]

        def forward(theta, rows):
            self.read[1] += rows.shape[0]

            def both(theta, rows):
                index = np.asarray(rows, np.int64)
                values, slopes = passes.of_rows(
                    problem.model, problem.features, index, np.asarray(theta, float)
                )
                return (problem.power * values).astype(theta.dtype), slopes.astype(theta.dtype)

            shapes = (
                jax.ShapeDtypeStruct(rows.shape, theta.dtype),
                jax.ShapeDtypeStruct((*rows.shape, k), theta.dtype),
            )
            values, slopes = jax.pure_callback(both, shapes, theta, rows)
            return values, (slopes, rows, theta)

        def backward(kept, upstream):
            slopes, rows, theta = kept

            def pull(slopes, rows):
                index = np.asarray(rows, np.int64)
                rows = problem.features.rows[index].astype(float)
                pulls = pulled(problem.features, rows, np.asarray(slopes, float))
                return (problem.power * pulls).astype(theta.dtype)

            weighted = slopes * upstream[:, None]
            shape = jax.ShapeDtypeStruct(theta.shape, theta.dtype)
            return jax.pure_callback(pull, shape, weighted, rows), None

        log_likelihoods.defvjp(forward, backward)
        return log_likelihoods


def _logistic(model, eta: jax.Array) -> tuple[jax.Array, jax.Array]:
    """eta (1, N): the sum of log L_n, and its slopes by eta."""
    small = jnp.exp(-jnp.abs(eta))
    value = jnp.sum(jnp.minimum(eta, 0.0) - jnp.log1p(small))
    return value, jnp.where(eta > 0, small, 1.0) / (1.0 + small)


def _student_t(model, eta: jax.Array) -> tuple[jax.Array, jax.Array]:
    r = (jnp.asarray(model.target, jnp.float32) - eta) / model.scale
    value = r.size * model.log_peak - 0.5 * (model.nu + 1.0) * jnp.sum(jnp.log1p(r * r / model.nu))
    return value, (model.nu + 1.0) * r / ((model.nu + r * r) * model.scale)


def _softmax(model, eta: jax.Array) -> tuple[jax.Array, jax.Array]:
    hot = jax.nn.one_hot(model.labels, model.n_predictors, axis=0)
    top = jax.nn.logsumexp(eta, axis=0)
    return jnp.sum(hot * eta) - jnp.sum(top), hot - jnp.exp(eta - top)


#: by the type of a model's likelihood: named, for what is imported here outdates every cell as it is edited
_WRITTEN_OUT = {
    "flyrun.experiments.models.logistic.Logistic": _logistic,
    "flyrun.experiments.models.softmax.Softmax": _softmax,
    "flyrun.experiments.models.student_t.StudentT": _student_t,
}
