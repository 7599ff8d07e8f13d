"""Topic models: closed forms, enumeration, other people's answers, counting and cuts; each check with a twin
that is broken and must fail it.
"""

import inspect
import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma as scipy_digamma
from scipy.special import gammaln, logsumexp
from sklearn.decomposition import LatentDirichletAllocation

from flyrun.experiments.data.documents import Corpora, Corpus, Halves, halved, of_tokens
from flyrun.experiments.gold.reference import arm_of
from flyrun.experiments.models import lda
from flyrun.experiments.samplers.method import prepare
from flyrun.experiments.samplers.topics import (
    lda_filter,
    lda_gibbs,
    lda_sampled,
    lda_streaming,
    lda_svi,
    search,
)
from flyrun.ground.errors import ConfigError

METHODS = ("lda_pmd", "lda_svi", "lda_sgrld", "lda_smc", "lda_filter", "lda_gibbs", "lda_streaming")
SMALL = [
    "dataset=topic_corpus", "dataset.n_documents=24", "dataset.n_valid=6", "dataset.n_test=6",
    "dataset.n_words=30", "dataset.n_topics=3", "dataset.length=12", "model=lda", "model.n_topics=3",
]  # fmt: skip
STEP = {"lda_pmd": "[1,1,1]", "lda_svi": "[1,1,1]", "lda_sgrld": "[0.01,100,0.6]"}


def method_of(tmp_path, name, *more):
    step = [f"sampler.step={STEP[name]}"] if name in STEP else []
    batch = [] if name == "lda_gibbs" else ["sampler.batch=6"]
    return prepare(arm_of(SMALL, (f"sampler={name}", *batch, *step, *more)), tmp_path)


def tiny(n_topics=2, alpha=0.4, beta=0.3, documents=((0, 0, 1), (1, 2), (2,))):
    """A model of documents given word by word."""
    document = np.repeat(np.arange(len(documents)), [len(one) for one in documents])
    corpus = of_tokens(document, np.concatenate(documents).astype(int), len(documents))
    none = Halves(corpus, corpus)
    return lda.Lda(n_topics, alpha, beta, Corpora(corpus, none, none, 1 + max(map(max, documents))))


def built(problem, module, **options):
    """A method on a problem made by hand."""
    default = {"batch": problem.data.train.n_documents, "batches": "epochs", "step": (1.0, 1.0, 1.0)}
    default |= {"sweeps": 4, "kept": 2, "tolerance": 1e-12, "most_iterations": 5000}
    sampler = SimpleNamespace(**{**default, **options})
    made = getattr(lda_sampled, module) if isinstance(module, str) else module.build
    return made(SimpleNamespace(sampler=sampler, method=dict), problem, sampler.step)


# --- closed forms


def after_an_epoch(tmp_path, learn=None):
    """λ, and the word counts that it should be made of, after one epoch at γ = 1/t."""
    method = method_of(tmp_path, "lda_pmd")
    if learn:
        method.learn = learn.__get__(method)
    seen, counts_of = [], method.counts

    def counted(*words):
        counts, queries = counts_of(*words)
        seen.append(counts.copy())
        return counts, queries

    method.counts = counted
    state, _ = method.advance(method.init(0), method.batches.in_epoch)
    train, beta = method.train, method.problem.beta
    by_word = np.bincount(train.word, train.repeats, minlength=method.problem.data.n_words)
    return state["lam"], beta + sum(seen), 3 * beta + by_word


@pytest.mark.thorough
def test_an_epoch_at_one_over_t_leaves_the_prior_and_all_counts(tmp_path):
    lam, from_counts, by_word = after_an_epoch(tmp_path)
    np.testing.assert_allclose(lam, from_counts, rtol=0, atol=1e-11)
    np.testing.assert_allclose(lam.sum(axis=1), by_word, rtol=0, atol=1e-11)


def without_inflation(self, rng, arrays, batch, t):
    counts, queries = self.counts(rng, lda.topics_of(arrays["lam"]), batch)
    gamma = self.rate(t)
    arrays["lam"] *= 1 - gamma
    arrays["lam"] += gamma * (self.problem.beta + counts)
    return queries


def without_decay(self, rng, arrays, batch, t):
    counts, queries = self.counts(rng, lda.topics_of(arrays["lam"]), batch)
    arrays["lam"] += self.rate(t) * (self.problem.beta + self.batches.factor * counts)
    return queries


@pytest.mark.parametrize("broken", [without_inflation, without_decay])
def test_that_check_finds_a_missing_factor(tmp_path, broken):
    lam, from_counts, by_word = after_an_epoch(tmp_path, broken)
    assert np.abs(lam - from_counts).max() > 0.1
    assert np.abs(lam.sum(axis=1) - by_word).max() > 0.1


def test_one_pass_smc_counts_every_document_once_and_then_rests(tmp_path):
    method = method_of(tmp_path, "lda_smc")
    state, records = method.advance(method.init(0), method.batches.in_epoch + 3)
    train = method.train
    by_word = np.bincount(train.word, train.repeats, minlength=method.problem.data.n_words)
    np.testing.assert_allclose(state["lam"].sum(axis=1), 3 * method.problem.beta + by_word, atol=1e-11)
    assert records["visits"].tolist() == [6.0] * 4 + [0.0] * 3
    assert records["queries"].sum() == 10 * train.n_tokens
    assert records["queries"][4:].sum() == 0


def filtered(runs=400, **options):
    """Mean and standard error of p(w) by the filter over its value by enumeration, and the last state."""
    problem = tiny()
    wanted = logsumexp([log_joint(problem, list(z)) for z in itertools.product(range(2), repeat=6)])
    method = built(
        problem, lda_filter, batch=1, **{"particles": 3, "ess": 0.99, "moves": 4, "sweeps": 2, **options}
    )
    ratios = []
    for seed in range(runs):
        state, _ = method.advance(method.init(seed), 3)
        ratios.append(np.exp(state["log_evidence"][0] - wanted))
    return np.mean(ratios), np.std(ratios) / np.sqrt(runs), state, method


@pytest.mark.thorough
@pytest.mark.parametrize("moves", [0, 4])
def test_a_filter_estimates_the_evidence_without_bias(moves):
    mean, error, state, method = filtered(moves=moves)
    assert abs(mean - 1) < 3.5 * error
    assert error < 0.03
    corpus = method.train
    for p in range(3):
        z = state["assigned"][p]
        by_word = np.zeros((3, 2), int)
        np.add.at(by_word, (np.repeat(corpus.word, corpus.repeats), z), 1)
        np.testing.assert_array_equal(state["by_word"][p], by_word)
        np.testing.assert_array_equal(state["totals"][p], by_word.sum(axis=0))
        np.testing.assert_array_equal(state["by_document"][p].sum(axis=1), [3, 2, 1])
    assert sorted(state["seen"][:-1]) == list(range(6))


@pytest.mark.thorough
def test_rejuvenated_particles_follow_the_posterior():
    """How often two tokens of a word share their topic, of 600 particles."""
    problem = tiny()
    every = [list(z) for z in itertools.product(range(2), repeat=6)]
    share = np.exp([log_joint(problem, z) for z in every])
    alike = np.array([z[0] == z[1] for z in every], float)
    wanted = share @ alike / share.sum()
    _, _, state, _ = filtered(runs=1, particles=600)
    z = state["assigned"]
    assert state["weight"] @ (z[:, 0] == z[:, 1]) == pytest.approx(wanted, abs=0.07)
    assert abs(wanted - 0.5) > 0.1


@pytest.mark.thorough(but="earlier")
@pytest.mark.parametrize(
    ("right", "wrong"),
    [("totals[p, k] -= 1", "totals[p, k] -= 0"), ("earlier + n_topics", "earlier + 1 + n_topics")],
)
def test_a_filter_that_counts_wrongly_is_caught(monkeypatch, right, wrong):
    """A token that counts in what it is drawn from; a document's shares that do not sum to 1."""
    source, names = inspect.getsource(lda_filter), {"__name__": "broken"}
    assert right in source
    exec(source.replace(right, wrong), names)
    for name in ("filtered", "moved"):
        monkeypatch.setattr(lda_filter, name, names[name])
    mean, error, _, _ = filtered(runs=100)
    assert abs(mean - 1) > 10 * error


def test_one_particle_is_never_redrawn_and_the_filter_rests_after_its_pass(tmp_path):
    method = method_of(tmp_path, "lda_filter", "sampler.particles=1", "sampler.sweeps=0")
    state, records = method.advance(method.init(0), method.batches.in_epoch + 3)
    assert records["queries"].sum() == method.train.n_tokens == state["seen"][-1]
    assert records["visits"].tolist() == [6.0] * 4 + [0.0] * 3
    assert method.topics(state).sum(axis=0) == pytest.approx(1.0)


@pytest.mark.parametrize("module", ["MirrorDescent", lda_svi])
def test_with_one_topic_the_posterior_is_there_after_a_step(module):
    problem = tiny(n_topics=1)
    method = built(problem, module)
    state, _ = method.advance(method.init(0), 1)
    np.testing.assert_allclose(state["lam"][:, 0], 0.3 + np.array([2, 2, 2]), atol=1e-12)


def langevin_error(noise=1.0, tmp_path=None, pull=True):
    """How far draws of φ are from Dirichlet(β + n), in its sds, mean and sd of each coordinate; one topic."""
    problem = tiny(1, 0.4, 2.0, ((0, 0, 0, 0), (0, 1, 1), (1, 2)))
    method = built(problem, "Langevin", step=(0.02, 1.0, 1e-9), sweeps=1, kept=1)
    state, draws, rng = method.init(1), [], np.random.Generator(np.random.PCG64(5))
    arrays = {name: array.copy() for name, array in state.items() if name != "rng"}
    noisy = SimpleNamespace(standard_normal=lambda shape: noise * rng.standard_normal(shape))
    counts = np.array([[5.0], [3.0], [1.0]])
    if not pull:
        counts = counts * 0.5
    method.counts = lambda *words: (counts, 0.0)  # one topic: nothing to sample
    for t in range(30_000):
        method.learn(noisy, arrays, np.arange(3), t)
        draws.append(arrays["lam"][:, 0] / arrays["lam"].sum())
    posterior = stats.dirichlet(2.0 + np.array([5.0, 3.0, 1.0]))
    kept = np.array(draws[1000:])
    sd = np.sqrt(posterior.var())
    return np.abs(kept.mean(axis=0) - posterior.mean()) / sd, kept.std(axis=0) / sd


@pytest.mark.thorough
def test_langevin_draws_have_the_posteriors_moments():
    """Of one topic, closed form. 29,000 steps of 0.02 are about 290 independent draws."""
    off, ratio = langevin_error()
    assert off.max() < 0.25
    assert 0.85 < ratio.min() < ratio.max() < 1.15


@pytest.mark.parametrize("broken", [{"noise": 0.5}, {"pull": False}])
def test_that_check_finds_wrong_noise_and_lost_data(broken):
    off, ratio = langevin_error(**broken)
    assert off.max() > 0.25 or ratio.min() < 0.85 or ratio.max() > 1.15


# --- enumeration


@pytest.mark.thorough
def test_collapsed_gibbs_visits_assignments_as_often_as_they_are_likely():
    """64 assignments of 6 tokens; draws 6 sweeps apart, χ² at level 1e-3."""
    assert chi_squared(tiny(2, 1.0, 0.5)) > 1e-3


def test_that_check_finds_a_wrong_prior():
    assert chi_squared(tiny(2, 1.0, 0.5), run_with=tiny(2, 1.0, 0.8)) < 1e-3


def chi_squared(problem, run_with=None, n=6_000):
    log_p = {z: log_joint(problem, np.array(z)) for z in itertools.product((0, 1), repeat=6)}
    method = built(run_with or problem, lda_gibbs)
    state, found = method.init(0), dict.fromkeys(log_p, 0)
    for _ in range(n):
        state, _ = method.advance(state, 6)
        found[tuple(state["z"].tolist())] += 1
    expected = n * np.exp(np.array(list(log_p.values())) - logsumexp(list(log_p.values())))
    assert expected.min() > 5
    return stats.chisquare(list(found.values()), expected).pvalue


def log_joint(problem, z):
    """log p(z, w), φ and θ integrated out, from the counts."""
    train, n_topics = problem.data.train, problem.n_topics
    document, word = (np.repeat(one, train.repeats) for one in (train.document, train.word))
    by_document, by_word = np.zeros((train.n_documents, n_topics)), np.zeros(problem.shape)
    np.add.at(by_document, (document, z), 1)
    np.add.at(by_word, (word, z), 1)

    def urns(counts, prior):
        """Of rows that are urns each."""
        size = counts.shape[1] * prior
        rows = gammaln(counts + prior) - gammaln(prior)
        return rows.sum() + (gammaln(size) - gammaln(counts.sum(axis=1) + size)).sum()

    return urns(by_document, problem.alpha) + urns(by_word.T, problem.beta)


def exact_shares(phi, alpha, observed):
    """E[θ | words, φ] of each document, by all K^n assignments."""
    found = []
    for d in range(observed.n_documents):
        here = slice(observed.first[d], observed.first[d + 1])
        words = np.repeat(observed.word[here], observed.repeats[here])
        weights, thetas = [], []
        for z in itertools.product(range(phi.shape[1]), repeat=len(words)):
            own = np.bincount(np.array(z, int), minlength=phi.shape[1])
            weights.append(gammaln(own + alpha).sum() + np.log(phi[words, np.array(z, int)]).sum())
            thetas.append((own + alpha) / (own + alpha).sum())
        found.append(np.exp(weights - logsumexp(weights)) @ np.array(thetas))
    return np.array(found)


def known_topics():
    rng = np.random.default_rng(2)
    phi = np.ascontiguousarray(rng.dirichlet(np.full(6, 0.5), 2).T)
    halves = halved(of_tokens(np.repeat(np.arange(8), 9), rng.integers(0, 6, 72), 8))
    return phi, halves


def test_perplexity_of_known_topics_is_the_exact_one():
    """Over 20,000 sweeps; θ is exact by all 2⁵ assignments of an observed half, the perplexity by hand."""
    phi, halves = known_topics()
    exact = exact_shares(phi, 0.3, halves.observed)
    theta = lda.fold_in(phi, 0.3, halves, 20_000, 19_900)
    np.testing.assert_allclose(theta, exact, atol=0.02)
    held = halves.held
    log = held.repeats @ np.log((exact[held.document] * phi[held.word]).sum(axis=1))
    assert lda.completion_perplexity(phi, exact, halves) == pytest.approx(np.exp(-log / held.n_tokens), 1e-12)
    assert lda.completion_perplexity(phi, theta, halves) == pytest.approx(np.exp(-log / held.n_tokens), 5e-3)
    assert np.abs(lda.fold_in(phi, 3.0, halves, 20_000, 19_900) - exact).max() > 0.02  # another prior is seen


def test_known_topics_are_told_and_no_arm_is_far_below_them(tmp_path):
    method = method_of(tmp_path, "lda_gibbs", "dataset.n_documents=400", "dataset.n_test=100")
    known = method.facts().more["known_perplexity"]
    state, _ = method.advance(method.init(0), 60)
    found = float(method.estimates(state)["perplexity"])
    assert 0.97 * known < found < 1.1 * known
    test, train = method.problem.data.test.held, method.train
    share = np.bincount(train.word, train.repeats, minlength=30) / train.n_tokens
    unigram = np.exp(-(test.repeats @ np.log(share[test.word])) / test.n_tokens)
    assert found < 0.9 * unigram


# --- other people's answers


def test_digamma():
    x = np.geomspace(1e-3, 1e6, 200)
    np.testing.assert_allclose([lda_svi.digamma(one) for one in x], scipy_digamma(x), rtol=1e-12, atol=1e-12)


@pytest.mark.thorough
def test_the_fixed_point_of_svi_is_scikit_learns():
    """A full-batch step from where their batch algorithm has converged stays; with another α it does not."""
    rng = np.random.default_rng(3)
    counts = rng.poisson(rng.dirichlet(np.full(3, 0.3), 40) @ rng.dirichlet(np.full(12, 0.2), 3) * 30)
    document, word = np.nonzero(counts)
    repeats = counts[document, word]
    corpus = of_tokens(np.repeat(document, repeats), np.repeat(word, repeats), 40)
    theirs = LatentDirichletAllocation(
        3, doc_topic_prior=0.3, topic_word_prior=0.2, max_iter=400, max_doc_update_iter=2000,
        mean_change_tol=1e-9, random_state=0,
    ).fit(counts)  # fmt: skip
    moved = {}
    for alpha in (0.3, 0.6):
        problem = lda.Lda(3, alpha, 0.2, Corpora(corpus, Halves(corpus, corpus), Halves(corpus, corpus), 12))
        method = built(problem, lda_svi)
        state = method.init(0) | {"lam": np.ascontiguousarray(theirs.components_.T)}
        moved[alpha] = np.abs(method.advance(state, 1)[0]["lam"] - state["lam"]).max()
    assert moved[0.3] < 1e-3
    assert moved[0.6] > 0.1


def bound_of(method, lam, beta):
    """The variational bound at λ (V, K), under Dirichlet(beta) topics, and the words by topic there."""
    train, alpha, counts = method.train, method.problem.alpha, np.zeros_like(lam)
    gamma, _ = method.local(train, np.arange(train.n_documents), lam, counts)
    of_documents = np.repeat(np.arange(train.n_documents), np.diff(train.first))

    def means(parameters):
        return scipy_digamma(parameters) - scipy_digamma(parameters.sum(axis=1, keepdims=True))

    def less_divergence(prior, parameters):
        size = parameters.shape[1]
        whole = len(parameters) * (gammaln(size * prior) - size * gammaln(prior))
        entropy = gammaln(parameters).sum() - gammaln(parameters.sum(axis=1)).sum()
        return whole + entropy + ((prior - parameters) * means(parameters)).sum()

    each = means(gamma)[of_documents] + means(lam.T).T[train.word]
    words = train.repeats @ logsumexp(each, axis=1)
    return words + less_divergence(alpha, gamma) + less_divergence(beta, lam.T), counts


def test_all_documents_a_step_with_steps_of_one_is_coordinate_ascent():
    """λ is β and the words by topic; the bound rises, and falls for a wrong β."""
    rng = np.random.default_rng(5)
    documents = [rng.integers(3 * (d % 3), 3 * (d % 3) + 5, size=20) for d in range(30)]
    problem = tiny(n_topics=3, documents=documents)
    right, wrong = (
        built(problem._replace(beta=beta), lda_svi, step=(1.0, 1.0, 0.0), tolerance=1e-9)
        for beta in (0.3, 2.0)
    )
    state, heights = right.init(1), []
    for _ in range(15):
        height, counts = bound_of(right, state["lam"], 0.3)
        heights.append(height)
        state, _ = right.advance(state, 1)
        np.testing.assert_allclose(state["lam"], 0.3 + counts, rtol=1e-12)
    assert np.diff(heights).min() > -1e-6
    assert heights[1] > heights[0] + 1
    assert bound_of(wrong, wrong.advance(state, 1)[0]["lam"], 0.3)[0] < heights[-1] - 1
    early, late = built(problem, lda_svi, step=(1.0, 1.0, 0.0)), built(problem, lda_svi)
    assert early.rate(7) == 1.0
    assert late.rate(7) == 0.125


def streamed(problem, **options):
    return built(problem, lda_streaming, **{"inner": 3, "stale": 0, "tolerance": 1e-9, **options})


def test_a_stream_of_one_batch_is_coordinate_ascent():
    """From where all arms of a seed begin, bit for bit; afterwards it rests."""
    rng = np.random.default_rng(5)
    problem = tiny(
        n_topics=3, documents=[rng.integers(3 * (d % 3), 3 * (d % 3) + 5, size=20) for d in range(30)]
    )
    stream, ascent = streamed(problem), built(problem, lda_svi, step=(1.0, 1.0, 0.0), tolerance=1e-9)
    once, _ = stream.advance(stream.init(1), 1)
    wanted, _ = ascent.advance(ascent.init(1), 3)
    np.testing.assert_allclose(once["lam"], wanted["lam"], rtol=1e-12)
    later, records = stream.advance(once, 2)
    np.testing.assert_array_equal(later["lam"], once["lam"])
    assert records["queries"].sum() == records["visits"].sum() == 0


@pytest.mark.parametrize("stale", [0, 2])
def test_a_stream_takes_every_token_once_however_late(stale):
    """λ is β and each token's counts; without −λ_τ, as (5.49) has it, each batch adds the others again."""
    rng = np.random.default_rng(5)
    problem = tiny(
        n_topics=3, documents=[rng.integers(3 * (d % 3), 3 * (d % 3) + 5, size=20) for d in range(30)]
    )
    stream = streamed(problem, batch=5, stale=stale)
    state, records = stream.advance(stream.init(1), 9)
    assert records["visits"].sum() == 30
    prior, words = (
        problem.beta * problem.shape[1],
        np.bincount(np.repeat(problem.data.train.word, problem.data.train.repeats)),
    )
    np.testing.assert_allclose(state["lam"].sum(axis=1), prior + words, rtol=1e-12)
    local = stream.local
    stream.local = lambda corpus, batch, at, counts: (local(corpus, batch, at, counts), counts.__iadd__(at))[
        0
    ]
    twice, _ = stream.advance(stream.init(1), 9)
    assert twice["lam"].sum() > 1.5 * state["lam"].sum()


def test_a_stream_ends_near_coordinate_ascent():
    """By what completes documents, on many documents of topics that differ."""
    rng = np.random.default_rng(2)
    problem = tiny(
        n_topics=3,
        alpha=0.1,
        documents=[rng.integers(3 * (d % 3), 3 * (d % 3) + 3, size=20) for d in range(300)],
    )
    stream, ascent = (
        streamed(problem, batch=30, inner=10),
        built(problem, lda_svi, step=(1.0, 1.0, 0.0), tolerance=1e-9),
    )
    once, _ = stream.advance(stream.init(1), 10)
    long, _ = ascent.advance(ascent.init(1), 60)
    ours, theirs = (
        one.perplexity(state, problem.data.test) for one, state in ((stream, once), (ascent, long))
    )
    assert ours == pytest.approx(theirs, rel=0.02)
    assert ours < 0.5 * problem.shape[0]


# --- the contract


@pytest.mark.parametrize("name", METHODS)
def test_cuts_do_not_matter(tmp_path, name):
    method = method_of(tmp_path, name)
    whole, records = method.advance(method.init(3), 9)
    state, parts = method.init(3), []
    for n in (1, 5, 3):
        before = {key: array.copy() for key, array in state.items()}
        new, part = method.advance(state, n)
        for key, array in before.items():
            np.testing.assert_array_equal(state[key], array)  # what was given stays as it is
        state = new
        method.estimates(state)  # looking changes nothing
        parts.append(part["queries"])
    for key in whole:
        np.testing.assert_array_equal(state[key], whole[key])
    np.testing.assert_array_equal(np.concatenate(parts), records["queries"])


@pytest.mark.thorough
@pytest.mark.parametrize("name", METHODS)
def test_seeds_differ_and_results_are_topics(tmp_path, name):
    method = method_of(tmp_path, name)
    first, second = (method.advance(method.init(seed), 4)[0] for seed in (0, 1))
    topics = method.result(first)["topics"]
    assert topics.shape == (3, 30)
    np.testing.assert_allclose(topics.sum(axis=1), 1.0)
    assert np.abs(topics - method.result(second)["topics"]).max() > 1e-3
    assert method.facts().exact is (name == "lda_gibbs")


@pytest.mark.parametrize("name", ["lda_pmd", "lda_sgrld", "lda_smc", "lda_gibbs"])
def test_queries_are_tokens_times_sweeps_and_visits_documents(tmp_path, name):
    method = method_of(tmp_path, name, "dataset.n_documents=25")  # batches of 5
    sweep = name == "lda_gibbs"
    steps = 1 if sweep else 5
    _, records = method.advance(method.init(0), steps)
    assert records["queries"].sum() == (1 if sweep else 10) * method.train.n_tokens
    assert records["visits"].tolist() == ([25.0] if sweep else [5.0] * 5)


def test_queries_of_svi_are_distinct_words_times_iterations(tmp_path):
    method = method_of(tmp_path, "lda_svi", "sampler.most_iterations=7", "sampler.tolerance=1e-300")
    _, records = method.advance(method.init(0), method.batches.in_epoch)
    assert records["queries"].sum() == 8 * len(method.train.word)  # and once more for the counts


def test_every_document_is_seen_once_an_epoch(tmp_path):
    method = method_of(tmp_path, "lda_pmd", "dataset.n_documents=25")
    seen, learn = [], method.learn
    method.learn = lambda rng, arrays, batch, t: seen.append(batch.copy()) or learn(rng, arrays, batch, t)
    method.advance(method.init(0), 10)
    for epoch in (seen[:5], seen[5:]):
        assert sorted(np.concatenate(epoch)) == list(range(25))
    assert np.concatenate(seen[:5]).tolist() != np.concatenate(seen[5:]).tolist()


# --- steps by search


def test_the_best_step_is_taken_charged_and_recalled(tmp_path, monkeypatch):
    words = ("sampler=lda_pmd", "sampler.batch=6", "sampler.search_passes=2")
    method = prepare(arm_of(SMALL, words), tmp_path)
    tried = method.facts().more["searched"]
    best = min(tried, key=lambda one: one[3])
    assert method.step == tuple(best[:3])
    assert method.facts().tuned == dict(zip("abc", best[:3], strict=True))
    assert len(tried) == 60
    assert method.facts().setup_queries == 60 * 2 * 10 * method.train.n_tokens
    assert method.facts().setup_visits == 60 * 2 * method.n_documents
    alone = prepare(
        arm_of(SMALL, (*words, f"sampler.step={json.dumps(best[:3]).replace(' ', '')}")), tmp_path
    )
    assert alone.facts().setup_queries == 0
    monkeypatch.setattr(search, "SEED", None)  # another search would fail
    again = prepare(arm_of(SMALL, words), tmp_path)
    assert again.facts().more["searched"] == tried
    assert again.facts().setup_costs()[:3] == method.facts().setup_costs()[:3]


def test_all_that_are_searched_try_the_same_steps():
    tried = {one.candidates for one in (lda_svi.build, lda_sampled.MirrorDescent, lda_sampled.Langevin)}
    assert tried == {search.GRID}
    assert len(set(search.GRID)) == len(search.GRID) == 60


# --- bad input


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("sampler=lda_pmd", "sampler.step=[2,1,1]"), r"sampler\.step=\[2\.0,1\.0,1\.0\].* at most 1"),
        (("sampler=lda_pmd", "sampler.step=[0,1,1]"), r"sampler\.step"),
        (("sampler=lda_svi", "sampler.step=[1,1]"), r"sampler\.step"),
        (("sampler=lda_svi", "sampler.step=[1,0,1]"), r"its first two numbers must be above 0"),
        (("sampler=lda_smc", "sampler.kept=11"), r"sampler\.kept=11: must be at most sampler\.sweeps=10"),
        (("sampler=lda_smc", "sampler.batch=25"), r"sampler\.batch=25: the data have 24 documents"),
        (("sampler=random_walk",), r"sampler=random_walk and model=lda do not fit"),
        (("sampler=lda_pmd", "dataset=tall"), r"dataset=tall and model=lda do not fit"),
        (("sampler=lda_pmd", "model=logistic"), r"do not fit"),
    ],
)
def test_bad_settings_are_refused_in_a_line(tmp_path, words, told):
    own = [word for word in SMALL if not any(word.startswith(f"{one.split('=')[0]}.") for one in words[1:])]
    with pytest.raises(ConfigError, match=told) as caught:
        prepare(arm_of(own, words), tmp_path)
    assert "\n" not in str(caught.value)


def test_documents_without_words_are_passed_over():
    """Halves may be empty: θ is then the prior's."""
    empty = Corpus(np.array([0, 0, 2]), np.array([0, 1], np.int32), np.array([1, 1], np.int32))
    theta = lda.fold_in(np.full((2, 2), 0.5), 0.4, Halves(empty, empty))
    np.testing.assert_allclose(theta[0], [0.5, 0.5])
    assert np.isfinite(lda.completion_perplexity(np.full((2, 2), 0.5), theta, Halves(empty, empty)))
