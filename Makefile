# `make mnist_logreg` and `make test` are all a new machine needs: python3 (3.11 or later) and make.
PYTHON ?= python3
VENV ?= .venv
FLYRUN = $(VENV)/bin/flyrun
# Further overrides for the reproduction targets: make mnist_logreg ARGS="protocol=smoke executor.workers=1"
ARGS ?=

# What `make bench` compares with: any commit
BASE ?= HEAD~1

# Where what is published goes; a try with other lengths is better kept apart: make measured MEASURED=mine
MEASURED ?= results/measured

.PHONY: help mnist_logreg cifar_softmax opv_robust table1 figures measured minibatch_gibbs arena subsampling prefetching consensus pmd_mixture pmd_logistic pmd_gp pmd_lda approximations found_bounds hogwild full smoke test test-rest test-all test-slow check bench bench_blas bench_store bench_peers bench_answers bench_pairs bench_families bench_certificate bench_certificate_fresh bench_billion bench_groups bench_groups_hard bench_groups_nuts docs results theorems lint wheel clean
help: ## this list
	@grep -hE '^[a-z0-9_-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9_-]+):.*## /  make \1\t/' | expand -t 26

mnist_logreg: $(VENV)/run.stamp ## Firefly Monte Carlo on MNIST 7 vs 9: Table 1, Figure 4a (a few minutes)
	$(FLYRUN) experiment=mnist_logreg $(ARGS)

cifar_softmax: $(VENV)/run.stamp ## the same on CIFAR-10, three classes: Table 1, Figure 4b
	$(FLYRUN) experiment=cifar_softmax $(ARGS)

opv_robust: $(VENV)/run.stamp ## the same on QM9's molecules, robust regression: Table 1, Figure 4c
	$(FLYRUN) experiment=opv_robust $(ARGS)

table1: mnist_logreg cifar_softmax opv_robust ## all three, then the whole of Table 1 beside the paper's
	$(FLYRUN) table firefly_table1

figures: $(VENV)/run.stamp ## Figures 1 and 2 (toy_flymc); bright data against the bounds' distance from the MAP
	$(FLYRUN) experiment=toy_flymc $(ARGS)
	$(FLYRUN) experiment=bound_distance $(ARGS)

measured: table1 figures ## both, and every experiment's report and figures into results/measured
	$(FLYRUN) publish mnist_logreg cifar_softmax opv_robust toy_flymc bound_distance out=$(MEASURED)

minibatch_gibbs: $(VENV)/run.stamp ## Minibatch Gibbs: Figures 1 and 2, reports and figures into results/measured
	$(FLYRUN) experiment=ising_min_gibbs $(ARGS)
	$(FLYRUN) experiment=ising_local_minibatch $(ARGS)
	$(FLYRUN) experiment=potts_mgpmh $(ARGS)
	$(FLYRUN) experiment=potts_double_min $(ARGS)
	$(FLYRUN) experiment=gibbs_cost $(ARGS)
	$(FLYRUN) experiment=gibbs_scans $(ARGS)
	$(FLYRUN) experiment=augmented_logistic $(ARGS)
	$(FLYRUN) publish gibbs_cost gibbs_scans augmented_logistic out=$(MEASURED)
	$(FLYRUN) publish ising_min_gibbs ising_local_minibatch potts_mgpmh potts_double_min out=$(MEASURED)

arena: $(VENV)/run.stamp ## every method's error against its cost on five posteriors, reports into results/measured
	$(FLYRUN) arena two_modes $(ARGS)
	$(FLYRUN) arena mnist $(ARGS)
	$(FLYRUN) arena tall $(ARGS)
	$(FLYRUN) arena qm9 $(ARGS)
	$(FLYRUN) arena normal $(ARGS)
	$(FLYRUN) publish arena_two_modes arena_mnist arena_tall arena_qm9 arena_normal out=$(MEASURED)

pmd_logistic: $(VENV)/run.stamp ## Particle mirror descent and rivals on 1.6 million eights and sixes, and as the dimension grows
	$(FLYRUN) experiment=pmd_logistic $(ARGS)
	$(FLYRUN) experiment=pmd_dimension $(ARGS)
	$(FLYRUN) publish pmd_logistic pmd_dimension out=$(MEASURED)

pmd_mixture: $(VENV)/run.stamp ## Particle mirror descent and its rivals on a posterior of two modes, report into results/measured
	$(FLYRUN) experiment=pmd_mixture $(ARGS)
	$(FLYRUN) publish pmd_mixture out=$(MEASURED)

pmd_gp: $(VENV)/run.stamp ## Particle mirror descent, sparse Gaussian processes: a curve, QM9's molecules; published
	$(FLYRUN) experiment=pmd_gp $(ARGS)
	$(FLYRUN) experiment=pmd_gp_qm9 $(ARGS)
	$(FLYRUN) publish pmd_gp pmd_gp_qm9 out=$(MEASURED)

pmd_lda: $(VENV)/run.stamp ## Particle Mirror Descent on topics and its rivals, Figure 2 (3), on generated documents (minutes)
	$(FLYRUN) experiment=pmd_lda $(ARGS)
	$(FLYRUN) publish pmd_lda out=$(MEASURED)

subsampling: $(VENV)/run.stamp ## chains that read part of the data, exact and biased: a toy, MNIST, molecules, as data grow; published
	$(FLYRUN) experiment=subsampling_toy $(ARGS)
	$(FLYRUN) experiment=subsampling_mnist $(ARGS)
	$(FLYRUN) experiment=subsampling_qm9 $(ARGS)
	$(FLYRUN) experiment=subsampling_tall $(ARGS)
	$(FLYRUN) experiment=gradient_samplers $(ARGS)
	$(FLYRUN) experiment=survey_chains $(ARGS)
	$(FLYRUN) experiment=adaptive_proposals $(ARGS)
	$(FLYRUN) publish survey_chains adaptive_proposals out=$(MEASURED)
	$(FLYRUN) publish gradient_samplers subsampling_toy subsampling_mnist subsampling_qm9 subsampling_tall out=$(MEASURED)

prefetching: $(VENV)/run.stamp ## one chain, its next steps evaluated ahead: 4 to 64 simulated workers, two real ones; published
	$(FLYRUN) experiment=prefetching $(ARGS)
	$(FLYRUN) experiment=prefetching_workers $(ARGS)
	$(FLYRUN) publish prefetching prefetching_workers out=$(MEASURED)

consensus: $(VENV)/run.stamp ## subposteriors of MNIST, rare features, two modes, combined by every rule; published (half an hour)
	$(FLYRUN) experiment=consensus_mnist $(ARGS)
	$(FLYRUN) experiment=consensus_rare $(ARGS)
	$(FLYRUN) experiment=consensus_two_modes $(ARGS)
	$(FLYRUN) experiment=consensus_agreement $(ARGS)
	$(FLYRUN) experiment=consensus_dimension $(ARGS)
	$(FLYRUN) publish consensus_mnist consensus_rare consensus_two_modes out=$(MEASURED)
	$(FLYRUN) publish consensus_agreement consensus_dimension out=$(MEASURED)

# a package that lies apart from flyrun, as a user's would; the proofs let tables say what is exact
LIKELIHOODS = PYTHONPATH=$(VENV)/likelihoods $(FLYRUN)
found_bounds: $(VENV)/run.stamp ## Firefly's bounds found for a package's three likelihoods, proven and published (half an hour)
	$(VENV)/bin/python -m pip install --quiet --no-deps --upgrade --target $(VENV)/likelihoods ./tools/likelihoods
	$(LIKELIHOODS) prove model=label_noise
	$(LIKELIHOODS) prove model=softplus_counts
	$(LIKELIHOODS) prove model=known_noise
	$(LIKELIHOODS) --config-dir tools/likelihoods experiment=found_bounds $(ARGS)
	$(LIKELIHOODS) publish found_bounds out=$(MEASURED)

approximations: $(VENV)/run.stamp ## Laplace, EP, variational kin, stochastic, distributed; exact weighted draws; clutter, mixture, topics
	$(FLYRUN) experiment=mnist_approximations $(ARGS)
	$(FLYRUN) experiment=approximation_rates $(ARGS)
	$(FLYRUN) experiment=weighted_draws $(ARGS)
	$(FLYRUN) experiment=clutter $(ARGS)
	$(FLYRUN) experiment=mixture_svi $(ARGS)
	$(FLYRUN) experiment=topics $(ARGS)
	$(FLYRUN) experiment=ascent_schedules $(ARGS)
	$(FLYRUN) publish ascent_schedules mnist_approximations approximation_rates weighted_draws clutter mixture_svi topics out=$(MEASURED)

hogwild: $(VENV)/run.stamp ## Hogwild Gibbs of Gaussians, Ising models and topics; Chromatic Gibbs; published
	$(FLYRUN) experiment=hogwild_gaussian $(ARGS)
	$(FLYRUN) experiment=chromatic $(ARGS)
	$(FLYRUN) experiment=hogwild_ising $(ARGS)
	$(FLYRUN) experiment=topics_hogwild $(ARGS)
	$(FLYRUN) publish hogwild_gaussian chromatic hogwild_ising topics_hogwild out=$(MEASURED)

# apart from `make table1`, whose runs have the same names
FULL = results_dir=results/runs/full
full: $(VENV)/run.stamp ## Table 1 with the published lengths (protocol=full), reports into results/measured (over an hour on 2 cores)
	$(FLYRUN) experiment=mnist_logreg protocol=full $(FULL) $(ARGS)
	$(FLYRUN) experiment=cifar_softmax protocol=full $(FULL) $(ARGS)
	$(FLYRUN) experiment=opv_robust protocol=full $(FULL) $(ARGS)
	$(FLYRUN) table firefly_table1 $(FULL)
	$(FLYRUN) publish mnist_logreg cifar_softmax opv_robust $(FULL) out=$(MEASURED)

smoke: $(VENV)/run.stamp ## MNIST in seconds, to see that all works
	$(FLYRUN) experiment=mnist_logreg protocol=smoke name=smoke $(ARGS)

# Some tests start a Python, which reads flyrun compiled to bytecode sooner. The minutes of each run are kept in
# .junit/<target>.xml, and printed by folder whether tests pass or not.
define tests
$(VENV)/bin/python -m pytest -n auto --dist worksteal -m '$(1)' --durations=80 --junitxml=.junit/$@.xml; \
  status=$$?; $(VENV)/bin/python -m tools.minutes .junit/$@.xml; exit $$status
endef

test test-rest test-slow: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/dev.stamp ## the first tier of tests: every verb, refusal and rung of exactness (4 minutes)
	$(call tests,not slow and not thorough)

test-rest: $(VENV)/dev.stamp ## the second tier: further data, models and faults
	$(call tests,thorough and not slow)

test-all: test test-rest ## both tiers

test-slow: $(VENV)/dev.stamp ## the tests that take minutes
	$(call tests,slow)

check: $(VENV)/run.stamp ## short chains of every arm against stored ones, bit for bit (new values: flyrun check --update)
	$(FLYRUN) check

bench: $(VENV)/dev.stamp ## seconds of this tree by those of BASE (HEAD~1), interleaved: a ratio with an interval
	$(VENV)/bin/python -m tools.bench --base $(BASE) $(ARGS)

bench_blas bench_store: export FLYRUN_COMPILE = full
bench_blas: $(VENV)/dev.stamp ## speed against a BLAS product on this machine
	$(VENV)/bin/python -m pytest tests/benchmarks -m '' --benchmark-enable --benchmark-only -p no:xdist

bench_store: $(VENV)/dev.stamp ## the same, and its ratios become those that tests compare with
	STORE_RATIOS=1 $(VENV)/bin/python -m pytest tests/benchmarks -m '' --benchmark-enable --benchmark-only -p no:xdist

PEERS = $(VENV)/bin/flyrun --config-dir tools/peers
bench_peers: $(VENV)/dev.stamp ## NumPyro, nutpie, BlackJAX and ours on MNIST, tall data, molecules; published (over an hour)
	$(call install,'.[peers]')
	$(PEERS) experiment=peers_mnist $(ARGS)
	$(PEERS) experiment=peers_tall $(ARGS)
	$(PEERS) experiment=peers_qm9 $(ARGS)
	$(FLYRUN) publish peers_mnist peers_tall peers_qm9 out=$(MEASURED)

bench_answers: $(VENV)/dev.stamp ## a file to an answer, seven models: scikit-learn, statsmodels, glum, lifelines, bambi, flyrun fit; into results/measured/answers (20 minutes)
	$(call install,'.[answers]')
	$(VENV)/bin/python -m tools.answers --out $(MEASURED)/answers $(ARGS)

bench_pairs: $(VENV)/dev.stamp ## real tables by families of `flyrun fit` against stored references; into results/measured/fit_pairs (minutes)
	$(call install,'.[answers]')
	$(VENV)/bin/python -m tools.pairs --out $(MEASURED)/fit_pairs $(ARGS)

bench_families: $(VENV)/dev.stamp ## generated tables of families, small, hard, of 10⁶ rows, against stored references; into results/measured/families (minutes)
	$(VENV)/bin/python -m tools.truth --out $(MEASURED)/families $(ARGS)

bench_certificate: $(VENV)/dev.stamp ## weighted draws of 317 small tables against long chains, and what draws are worth; published (an hour)
	$(call install,'.[answers]')
	$(VENV)/bin/python -m tools.certificate --out $(MEASURED)/certificate $(ARGS)
	$(VENV)/bin/python -m tools.certificate.efficiency --out $(MEASURED)/fit_efficiency

bench_certificate_fresh: $(VENV)/dev.stamp ## random small tables of all families, as `flyrun fit` answers them, against tempered particles; into results/measured/certificate_fresh (hours)
	$(VENV)/bin/python -m tools.certificate.fresh --out $(MEASURED)/certificate_fresh $(ARGS)

bench_combinations: $(VENV)/dev.stamp ## 300 random combinations of model, prior, bound, sampler and rule against quadrature: none wrong without a line (40 minutes)
	$(VENV)/bin/python -m tools.combinations $(ARGS)

bench_billion: $(VENV)/dev.stamp ## one scan of 10⁶ and 10⁷ generated rows, SGD, Newton and others; into results/measured/billion (minutes, 1.2 GB)
	$(VENV)/bin/python -m tools.billion --out $(MEASURED)/billion $(ARGS)

bench_groups: $(VENV)/dev.stamp ## fits with groups, and chains of many terms beside NUTS and lme4 where these are; into results/measured/groups and group_terms (20 minutes)
	$(VENV)/bin/python -m tools.groups --out $(MEASURED)/groups
	$(VENV)/bin/python -m tools.groups.chains --out $(MEASURED)/group_terms $(ARGS)

bench_groups_hard: $(VENV)/dev.stamp ## 153 hard tables with groups against long chains: none accepted and wrong; into results/measured/group_hard (an hour)
	$(VENV)/bin/python -m tools.groups.hard --out $(MEASURED)/group_hard $(ARGS)

bench_groups_nuts: $(VENV)/dev.stamp ## twelve tables with groups against NumPyro's NUTS; into results/measured/group_nuts (20 minutes)
	$(call install,'.[peers]')
	$(VENV)/bin/python -m tools.groups.against_nuts --out $(MEASURED)/group_nuts $(ARGS)

docs: $(VENV)/dev.stamp ## conf/ and docs/reference from the classes in flyrun/experiments/config
	$(VENV)/bin/python docs/generate.py

results: $(VENV)/dev.stamp ## the tables of figures in README and docs from results/measured
	$(VENV)/bin/python -m tools.results

lint: $(VENV)/dev.stamp ## ruff and mypy
	$(VENV)/bin/ruff check --no-cache .
	$(VENV)/bin/ruff format --no-cache --check .
	$(VENV)/bin/mypy

theorems: $(VENV)/dev.stamp ## what the papers' theorems say beside what is so (3 minutes)
	$(VENV)/bin/python -m tools.theorems
	$(VENV)/bin/python -m tools.theorems.mirror_descent
	$(VENV)/bin/python -m tools.theorems.pmd_costs

wheel: $(VENV)/dev.stamp ## build dist/*.whl
	$(VENV)/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean: ## remove the environment and what building left (results stay)
	rm -rf $(VENV) dist build .junit .pytest_cache .ruff_cache .mypy_cache .benchmarks

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: $(PYTHON) is older than 3.11; name another: make PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "make: $(PYTHON) cannot make an environment; on Debian: apt-get install python3-venv" >&2; exit 2; }

# pip would compile all packages to bytecode in turn, their own tests too: half of the time that it takes
define install
@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --editable $(1)
@env -u PYTHONDONTWRITEBYTECODE $(VENV)/bin/python -m compileall -q -j 0 -x 'site-packages/.*/tests?/' $(VENV)/lib || true
endef

$(VENV)/run.stamp: pyproject.toml | $(VENV)/bin/pip
	@echo "installing flyrun into $(VENV) (once, about a minute)"
	$(call install,.)
	@touch $@

$(VENV)/dev.stamp: pyproject.toml | $(VENV)/bin/pip
	@echo "installing flyrun and its test tools into $(VENV) (once, about a minute)"
	$(call install,'.[dev]')
	@touch $(VENV)/run.stamp $@
