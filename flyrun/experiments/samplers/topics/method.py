"""The family of topic models: minibatches of documents, topics as they stand, and what these are worth.

A step is a batch. Queries: see models/lda.py; visits are documents. What is handed in is a functional, the
perplexity of completing the test documents, for the topics are too many coordinates; they are the result.
"""

import time
from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from flyrun.experiments.data.documents import Halves
from flyrun.experiments.models import lda
from flyrun.experiments.models.lda import Lda
from flyrun.experiments.samplers.batches import batches_of
from flyrun.experiments.samplers.method import Arm, Facts, Method, Records, State, first_step
from flyrun.experiments.samplers.topics import search
from flyrun.ground.numerics.batches import Batches
from flyrun.ground.numerics.state import generator, generator_state, seeded

TOP_WORDS = 10


def prepare(arm: Arm, folder: Path) -> Method:
    """Load the documents of an arm, and search its step where none is given. DataError, ConfigError."""
    started = time.perf_counter()
    problem = lda.bind(arm.model, arm.dataset.code.load(arm.dataset))
    step, candidates = getattr(arm.sampler, "step", None), getattr(arm.sampler.build, "candidates", ())
    searched = search.best(arm, problem, candidates, folder) if candidates and not step else search.Found()
    method = arm.sampler.build(arm, problem, step or searched.step)
    method.found, method.setup_s = searched, time.perf_counter() - started + searched.seconds
    return method


class Topics(Method):
    """What the methods share. One of them says what a batch does to its arrays, in `learn`."""

    answers = "density"
    unit = "step"
    shown = ("{queries} queries/step",)
    label, exact = "", False
    candidates: tuple[search.Step, ...] = ()  # steps (a, b, c) that a search tries
    warm_up = first_step

    def __init__(self, arm: Arm, problem: Lda, step: tuple[float, float, float] | None):
        self.arm, self.problem, self.step = arm, problem, step
        self.train, self.n_documents = problem.data.train, (n := problem.data.train.n_documents)
        some = hasattr(arm.sampler, "batch")
        self.batches = batches_of(arm, n, "documents") if some else Batches(n, n, "epochs")
        self.room = lda.workspace(self.train, problem.n_topics)
        self.found, self.setup_s = search.Found(), 0.0

    @abstractmethod
    def learn(self, rng: np.random.Generator, arrays: State, batch: np.ndarray, t: int) -> float:
        """Take the t-th batch (from 0) of documents, (B,), and change the arrays in place; the queries."""

    def topics(self, state: State) -> np.ndarray:
        """Mean topics (V, K) as they would be handed in now."""
        return lda.topics_of(state["lam"])

    def shares(self, state: State, halves: Halves) -> np.ndarray:
        """E θ, (documents, K), of observed halves: Gibbs sampling given the mean topics."""
        return lda.fold_in(self.topics(state), self.problem.alpha, halves)

    def start(self, rng: np.random.Generator) -> State:
        """The arrays that a seed begins with."""
        return {"lam": first_lambda(rng, self.problem)}

    def perplexity(self, state: State, halves: Halves) -> float:
        """Of completing these documents."""
        return lda.completion_perplexity(self.topics(state), self.shares(state, halves), halves)

    def rate(self, t: int) -> float:
        """a(1 + t/b)^−c."""
        scale, delay, power = self.step or (1.0, 1.0, 1.0)
        return float(scale * (1.0 + t / delay) ** -power)

    def init(self, seed: int, needed: tuple[Any, ...] = ()) -> State:
        """Arms of one seed begin with the same topics and have luck of their own."""
        rng = seeded(seed, self.arm.method())
        key, clock = rng.integers(1 << 62, size=1), np.zeros(1, np.int64)
        return {"rng": generator_state(rng), "key": key, "clock": clock} | self.start(seeded(seed))

    def advance(self, state: State, n: int) -> tuple[State, Records]:
        rng = generator(state["rng"])
        arrays = {name: array.copy() for name, array in state.items() if name != "rng"}
        spent, seen = np.zeros(n), np.zeros(n)
        for i in range(n):
            t = int(arrays["clock"][0])
            batch = self.batches.rows(t, rng, int(arrays["key"][0]))
            if self.reads(t):
                spent[i], seen[i] = self.learn(rng, arrays, batch, t), len(batch)
            arrays["clock"] += 1
        return arrays | {"rng": generator_state(rng)}, {"queries": spent, "visits": seen}

    def reads(self, t: int) -> bool:
        """Whether the t-th step does anything."""
        return True

    def estimates(self, state: State) -> dict[str, np.ndarray]:
        return {"perplexity": np.array(self.perplexity(state, self.problem.data.test))}

    def result(self, state: State) -> dict[str, np.ndarray]:
        """Mean topics, (K, V)."""
        return {"topics": np.ascontiguousarray(self.topics(state).T)}

    def facts(self, state: State | None = None) -> Facts:
        """known_perplexity: of the topics that the documents were generated from.

        searched: the steps tried, with their perplexities.  top_words: the likeliest of each topic.
        """
        more: dict[str, Any] = {"n_tokens": self.train.n_tokens}
        if (known := self.problem.data.topics) is not None:
            theta = lda.fold_in(known, self.problem.alpha, self.problem.data.test)
            more["known_perplexity"] = lda.completion_perplexity(known, theta, self.problem.data.test)
        if self.found.tried:
            more["searched"] = self.found.tried
        if state is not None and (vocabulary := self.problem.data.vocabulary):
            best = np.argsort(-self.topics(state), axis=0)[:TOP_WORDS].T
            more["top_words"] = [" ".join(vocabulary[w] for w in topic) for topic in best]
        return Facts(
            update=self.label,
            exact=self.exact,
            n_data=self.n_documents,
            n_params=int(np.prod(self.problem.shape)),
            setup_queries=self.found.queries,
            setup_visits=self.found.visits,
            setup_s=self.setup_s,
            tuned=dict(zip("abc", self.step or (), strict=False)),
            more=more,
        )


def first_lambda(rng: np.random.Generator, problem: Lda) -> np.ndarray:
    """λ (V, K) to begin with, about 1 each: all alike, no topic would ever differ (Hoffman et al. 2010)."""
    return rng.gamma(100.0, 0.01, problem.shape)
