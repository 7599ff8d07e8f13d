"""One scan: a pilot that meets every class, stages that move the centre on the way, and the draws.

Exactness does not need a good centre: a bad one costs rows that travel, in number as one by the share of the
table that told it. So first looks, at a twentieth of the row groups in all, are for a centre alone; all other
row groups follow in stages, each half as many again as are known by then, and that twentieth comes last.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flyrun.families.family import Family
from flyrun.fitting import chosen_priors, gaussian_noise, mode, table_posterior, weighted_draws
from flyrun.fitting.coefficient_prior import CoefficientPrior
from flyrun.fitting.groups import grouped_table
from flyrun.fitting.priors import INTERCEPT_SD
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.scan import classes_apart, folds, pilot_rows, row_weights
from flyrun.fitting.scan.block_sums import LEAST_SHARE, AtEnds, GramLook, Intensity, Products, SumLook, Sums
from flyrun.fitting.scan.encoded_rows import Encoding
from flyrun.fitting.scan.pilot import Table
from flyrun.fitting.scan.pilot_rows import RowsLook, Sample
from flyrun.fitting.scan.row_groups import tree
from flyrun.fitting.scan.row_weights import Model
from flyrun.fitting.scan.rows_to_come import LEAST_DRAWS, rows_to_come
from flyrun.fitting.scan.second_order import Centre
from flyrun.fitting.scan.stage_ranges import Stage, stages_of
from flyrun.fitting.scan.text_levels import Texts
from flyrun.fitting.table_rows import Rows
from flyrun.fitting.weighted_draws import Weighted
from flyrun.ground.errors import ConfigError, DataError, FlyrunError
from flyrun.ground.threads import one_blas_thread
from flyrun.tables.layout import Layout

_CORE_NUMBERS = 1_000_000  # that a further scan's rows kept as they are may be: chains go over all of them
_SCANS = 3
_ALL_ROWS = 1_000_000  # that travel where nothing else helps
_FEW_ROWS = 500  # all of which come at once, of a family that is not log-concave
_SKEWED = 0.1  # variance of log weights from where all rows come if they can: draws of sums miss a tail then
_FAR = 30.0  # posterior sds that the last centre may have moved by

#: a scan that asks for looks: (look, groups from and to, words) → parts, until it has Found
Steps = Generator[tuple[Any, tuple[int, int], str], Any, Any]


@dataclass
class Found:
    """What a scan found. rows_read: of all looks; moved: sds by which each stage moved the centre; encoding:
    by means and sds of all rows. without: the same of all rows but each fold's; foretold: of each fold's;
    ends: as of Sums; apart: parts of what tells classes apart, where something may; target: its mean and
    variance; texts: rows of levels; came: what came here of groups.
    """

    layout: Layout
    posterior: row_weights.Surrogate
    answer: row_weights.Answer
    counts: dict[float, float]
    rows_read: int
    scans: int
    moved: list[float]
    encoding: Encoding
    without: list[tuple[row_weights.Surrogate, row_weights.Answer]] = field(default_factory=list)
    foretold: list[folds.HeldOut] = field(default_factory=list)
    ends: np.ndarray = field(default_factory=lambda: np.zeros((0, 1)))
    apart: list[classes_apart.Apart] = field(default_factory=list)
    target: tuple[float, float] = (0.0, 0.0)
    texts: Texts = field(default_factory=lambda: Texts.of_rows({}))
    came: str = ""


class Scan(Table):
    """One table, or a level's rows in it, under one model."""

    def run(self, pilot: Sample, encoding: Encoding, family: Family) -> Found:
        """All looks, and the answer. FlyrunError where what was asked for cannot be certified."""
        return self.follow(self.steps(pilot, encoding, family))

    def follow(self, steps: Steps) -> Found:
        """What steps find that ask for looks."""
        parts = None
        try:
            while True:
                look, (begun, end), text = steps.send(parts)
                parts = self.mapper(look, self.groups[begun:end], text)
        except StopIteration as stop:
            return stop.value

    def seen(self, pilot: Sample) -> float:
        """Rows that a pilot's are worth, by all."""
        return pilot_rows.effective(pilot.chance) / self.rows

    def steps(self, pilot: Sample, encoding: Encoding, family: Family, first: Sequence[Stage] = ()) -> Steps:
        """As `run`, by who looks on its own. first: stages of the first scan."""
        table_posterior.refuse_many(family.linear(len(encoding.values)) * (self.width - 1 + family.intercept))
        model = self.model(encoding, family)
        if model.family.by_sums:
            fitted = yield from self._by_sums(encoding, family)
            return (yield from self._held_out(fitted, family))
        self.refuse_few(pilot, encoding)
        self.chance, prior = pilot.chance, model.prior
        # about a peaked prior's mode rows that matter would seem small
        sd = np.where(np.isfinite(prior.sd), prior.sd, INTERCEPT_SD)
        start = model._replace(prior=CoefficientPrior(prior.mean, sd)).posterior(
            pilot_rows.rows_of(pilot, encoding, model.form, self.shards.blocks)
        )
        at, likelihood = mode.find(start)
        curvature = likelihood.curvature
        met = seen = self.seen(pilot)
        self.moved = [0.0]
        why, many = "", len(self.groups)
        begun = _SCANS if self.rows <= _FEW_ROWS and not model.family.one_mode else 1
        for number in range(begun, _SCANS + 1):
            stages = (first or self._stages(seen)) if number == 1 else [Stage(0, many, seen)]
            centres, parts, apart = list[np.ndarray](), list[Sums](), list[list[list[Sums]]]()
            alone, sampled = 0, True  # parts that are for a centre alone
            self.draws = row_weights.DRAWS
            for k, stage in enumerate(stages):
                to_come = [] if stage.again else stages[k:]
                gone = sum(part.kappa for part in parts[alone:])
                looked = (encoding, len(centres), number, to_come, gone)
                look = self._look(start, at, curvature, min(seen, 1.0), *looked)
                text = f"scan {1 + number - begun}, stage {k + 1} of {len(stages)}"
                if not (sums := (yield look, (stage.begun, stage.end), text)):  # no row of a level
                    continue
                total = tree(sums)
                self.rows_read += total.rows + total.dropped
                centres, parts = [*centres, at], [*parts, total]
                apart.append(folds.by_fold(sums, stage.begun, self.folds))
                alone += stage.again
                sampled = sampled and (stage.again or look.intensity.rate > 0)
                if alone and k + 1 == len(stages):  # of rows that told the centre before
                    continue
                if sum(part.rows + part.dropped for part in parts) >= 0.99 * met * self.rows:
                    at, curvature, seen = self._moved(model, centres, parts)
                    self.say(f"{text}: the centre moved by {self.moved[-1]:.2g} sds")
            why = "its first centre was too far off"
            if sampled:
                fitted = self._answer(family, encoding, centres, parts, apart, alone)
                fitted.scans = 1 + number - begun
                skewed = not model.family.one_mode and number < _SCANS and self.rows <= _ALL_ROWS
                most = _SKEWED if skewed else row_weights.MOST_VARIANCE
                if not (why := _doubts(fitted, most)):
                    yield from self._apart(fitted, pilot)
                    return (yield from self._held_out(fitted, family))
            if number < _SCANS:
                self.say(f"another scan follows, because {why}")
        raise FlyrunError(
            f"{self.given}: no posterior is written, because after {_SCANS} scans "
            f"{why}; use fewer columns with --drop, or more rows"
        )

    def _stages(self, seen: float) -> list[Stage]:
        """As of `stages_of`; all at once where some would meet no row of a level that folders name."""
        stages = stages_of(len(self.groups), seen)
        blocks = [block for group in self.groups[: stages[0].end] for block in group]
        whole = len(self.rows_by_place(blocks)) == len(self.rows_by_place(self.blocks))
        return stages if whole else [Stage(0, len(self.groups), seen)]

    def model(self, encoding: Encoding, family: Family) -> Model:
        """Of rows as they are encoded. ConfigError for a prior that is of nothing there is, or has bounds."""
        chosen_priors.refuse_bounds(self.request.priors, "a scan")
        layout = encoding.layout
        groups = grouped_table.terms(self.request.groups, layout)
        given = table_posterior.under_priors(encoding.family(family), self.request, layout, groups)
        its, levels = given.family, len(encoding.values)
        prior = table_posterior.coefficient_prior(its, levels, given.priors)
        its = replace(its, by_sums=its.by_sums and not prior.others)
        return Model(its, levels, prior, given.slopes, encoding.form(its), given.chosen.groups)

    def _look(
        self,
        start: Posterior,
        at: np.ndarray,
        curvature: np.ndarray,
        seen: float,
        encoding: Encoding,
        stage: int,
        number: int,
        to_come: Sequence[Stage],
        gone: float,
    ) -> SumLook:
        """About this centre, (P,), by the curvature there, (P, P). seen: the share of rows that told it;
        to_come: this stage and those after it, none where rows of it are to correct nothing; gone: Σ of sizes
        in stages before it.
        """
        covariance, model = mode.covariance(curvature + start.prior_at(at).curvature), start.family.name
        root = row_weights.Mixture.of(at, covariance).root
        # the mode of all rows lies about as far off as the fewer rows that told this centre leave open
        centre = Centre(at, root, math.sqrt(1.0 / seen - 1.0), stage)
        size, weight = pilot_rows.sizes(start, self.chance, encoding, model, centre), 1.0 / self.chance
        mean, core = pilot_rows.bulk_and_core(size, weight)
        each = 1.0 + LEAST_SHARE
        if number == _SCANS and self.rows <= _ALL_ROWS:
            core, rate = -1.0, 1.0  # of all rows, whose likelihoods then are summed as they are
        else:
            rate = self._rate(each * mean, seen, to_come, number, each * gone) if to_come else 0.0
            if number > 1 and weight[size > 0.1 * core].sum() * self.width <= _CORE_NUMBERS:
                core *= 0.1
        intensity = Intensity(rate, LEAST_SHARE * mean, core)
        return SumLook(encoding, model, centre, intensity, self.seed)

    def _rate(self, mean: float, seen: float, to_come: Sequence[Stage], number: int, gone: float) -> float:
        """Λ for each unit of size; 0 where so many rows would travel that a better centre comes first.

        The centre's distance makes sizes grow in proportion to how many times the rows that told it all are.
        One rate for all stages takes the fewest rows for a variance.
        """
        known = [seen, *(max(seen, stage.told) for stage in to_come[1:])]
        shares = ((stage.end - stage.begun) / len(self.groups) for stage in to_come)
        sizes = sum(share * seen / known_before for share, known_before in zip(shares, known, strict=True))
        kappa = gone + self.rows * mean * sizes
        come = rows_to_come(kappa, self.rows, self.width, self.share)
        if come.most < self.draws:
            if number < _SCANS and (seen < 1.0 or gone):  # gone: about worse centres
                return 0.0
            if come.most < LEAST_DRAWS:
                raise ConfigError(f"{self.given}: {come.a_draw:,.0f} rows a draw would travel; {come.remedy}")
            self.say(f"{come.most:,.0f} draws, not {self.draws:,}, because the rows of more would not fit")
            self.draws = int(come.most)
        if not gone:  # of the whole scan
            self.say(come.told(self.draws))
        return self.draws * come.each

    def _moved(
        self, model: Model, centres: list[np.ndarray], parts: list[Sums]
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """The next centre, (P,), all rows' curvature there, (P, P), and the share of rows that tell it."""
        share = sum(part.rows + part.dropped for part in parts) / self.rows
        summed = row_weights.together(centres, parts, share)
        post = model.of_core(tree(list(parts)).core(model.family.intercept), summed, share)
        at, likelihood = mode.find(post)
        covariance = mode.covariance(likelihood.curvature + post.prior_at(at).curvature)
        proposal = row_weights.Mixture.of(at, covariance, 0.0, 0.0)
        self.moved.append(row_weights.whitened(proposal, at - centres[-1]))
        return at, likelihood.curvature, share

    def _answer(
        self,
        family: Family,
        encoding: Encoding,
        centres: list[np.ndarray],
        parts: list[Sums],
        apart: list[list[list[Sums]]],
        alone: int,
    ) -> Found:
        """In units of the whole table's means and sds. centres: (P,) each; apart: of each stage, by fold;
        alone: so many stages were for a centre alone.
        """
        every, centres, parts, apart = centres, centres[alone:], parts[alone:], apart[alone:]
        whole = tree(list(parts))
        layout, scales, exact = self.exact(family, encoding, whole)
        model = self.model(exact, family)
        pilots = model.of_core(whole.core(family.intercept), row_weights.together(centres, parts))
        units = row_weights.Units.of(pilots, *scales)

        def drawn(
            stages: list[tuple[np.ndarray, Sums]], seed: int
        ) -> tuple[row_weights.Surrogate, row_weights.Answer]:
            abouts, sums = ([*each] for each in zip(*stages, strict=True))
            pooled = tree([*sums])
            summed = units.expansion(row_weights.together(abouts, sums))
            post = model.of_core(units.rows(pooled.core(family.intercept)), summed)
            return post, row_weights.draw(post, units, pooled, every, seed, self.draws)

        post, answer = drawn([*zip(centres, parts, strict=True)], self.seed)
        counts = dict.fromkeys(encoding.values, 0.0)
        if len(counts) == 2:
            counts = dict(zip(encoding.values, (whole.copies - whole.y[0], whole.y[0]), strict=True))
        without = []
        for k in range(len(self.folds)):
            others = zip(centres, folds.without(k, apart), strict=True)
            without.append(drawn([(at, sums) for at, rest in others for sums in rest], self.seed + 1 + k))
        read, moved, ends = self.rows_read, self.moved, whole.ends
        return Found(layout, post, answer, counts, read, 1, moved, exact, without, ends=ends)

    def _by_sums(self, encoding: Encoding, family: Family) -> Steps:
        """Of normal noise: sums of products are all that the posterior needs."""
        parts = yield GramLook(encoding), (0, len(self.groups)), "sums"
        whole: Products = tree(list(parts))
        self.rows_read += whole.rows + whole.dropped
        layout, scales, exact = self.exact(family, encoding, whole)
        model = self.model(exact, family)
        post = model.of_no_rows(len(layout.names))
        units = row_weights.Units.of(post, *scales)

        def drawn(products: Products, seed: int) -> tuple[row_weights.Surrogate, row_weights.Answer]:
            sums = gaussian_noise.about(model.prior.mean, units.products(products.gram), products.copies)
            post.sums = sums
            x = gaussian_noise.draw_from(sums, post, np.random.default_rng(seed), row_weights.DRAWS)
            return post, row_weights.Answer(Weighted.of_independent(x), 1.0, 0.0, 0, 0, 0)

        apart = [folds.by_fold(parts, 0, self.folds)]
        others = [products for k in range(len(self.folds)) for (products,) in folds.without(k, apart)]
        without = [drawn(products, self.seed + 1 + k) for k, products in enumerate(others)]
        _, answer = drawn(whole, self.seed)
        return Found(layout, post, answer, {}, self.rows_read, 1, [], exact, without)

    def _apart(self, fitted: Found, pilot: Sample) -> Steps:
        """Find out whether classes are told apart."""
        form, mean = fitted.encoding.form(fitted.posterior.family), fitted.answer.found.moments()[0]
        rows = pilot_rows.rows_of(pilot, fitted.encoding, form, self.shards.blocks)
        asked = fitted.encoding, fitted.posterior, mean, rows.features, rows.target, len(self.groups)
        fitted.apart = yield from classes_apart.looks(*asked)
        self.rows_read += sum(part.rows for part in fitted.apart)

    def _held_out(self, fitted: Found, family: Family) -> Steps:
        """The same, with what each fold's rows are under the posterior of all others."""
        for k, ((_, answer), fold) in enumerate(zip(fitted.without, self.folds, strict=True)):
            draws = folds.some(answer.found)
            look = folds.HeldOutLook(fitted.encoding, family.name, draws)
            fitted.foretold.append(tree((yield look, fold, f"fold {k + 1} of {len(self.folds)}")))
            self.rows_read += fitted.foretold[-1].rows + fitted.foretold[-1].dropped
        fitted.rows_read, fitted.target, fitted.texts = self.rows_read, self.of_target, self.texts
        return fitted

    def whole(self, task: str, family: Family, stages: Sequence[Stage]) -> Steps:
        """As `steps`, of few rows: all come here, and no pilot is needed. stages: of others' scan."""
        look = RowsLook(self.columns, tuple(self.beside.values()), self.target, self.table.missing)
        parts = list[Sample]()
        for k, stage in enumerate(stages):
            samples = yield look, (stage.begun, stage.end), f"scan 1, stage {k + 1} of {len(stages)}"
            parts += [] if stage.again else samples
        sample: Sample = tree(parts)
        if not len(sample.y):
            raise DataError(f"{self.given}: every row lacks a value")
        layout, exact, model, rows, ends = self.of_all(sample, task, family)
        with one_blas_thread():  # the bits of sums depend on the number of BLAS threads
            draws = weighted_draws.fit(model.posterior(rows), self.seed)
        post = model.surrogate(rows, row_weights.nothing(len(draws.x.T)))
        answer = row_weights.Answer(draws, 1.0, 0.0, len(rows), 0, sample.x.nbytes)
        if draws.why:
            answer = replace(row_weights.by_chains(post, self.seed), core=len(rows), nbytes=sample.x.nbytes)
        if answer.found.why:
            raise FlyrunError(f"{self.given}: no posterior is written, because {answer.found.why}")
        values, count = np.unique(sample.y, return_counts=True)
        counts = dict(zip(values.tolist(), count.tolist(), strict=True))
        fitted = Found(
            layout, post, answer, counts, sample.read, 1, [], exact, ends=ends, target=self.of_target
        )
        if exact.values and not layout.domain.ordered:
            theta = classes_apart.theta_of(post, answer.found.moments()[0])
            fitted.apart = [classes_apart.of_rows(rows.features.T, rows.target, theta, len(exact.values))]
        return fitted

    def of_all(
        self, sample: Sample, task: str, family: Family
    ) -> tuple[Layout, Encoding, Model, Rows, np.ndarray]:
        """Of a table whose rows are all here: layout, encoding and model by their means and sds, the rows,
        and ends as of Sums.
        """
        encoding = self.encoding(sample, task, family)
        levels = len(encoding.values)
        table_posterior.refuse_many(family.linear(levels) * (self.width - 1 + family.intercept))
        self.refuse_few(sample, encoding)
        form = encoding.form(encoding.family(family))
        rows = pilot_rows.rows_of(sample, encoding, form, self.shards.blocks)
        x, y, trials = form.columns(rows), rows.target, rows.trials
        trials = trials if np.ndim(trials) < 2 else 1.0  # of times that were not seen whole: other numbers
        each = np.broadcast_to(rows.weights * trials, len(rows))
        none = np.zeros(x.shape[1], bool)
        sums = (x.T @ each, (x * x).T @ each, none, np.array([y @ each, (y * y) @ each]))
        ends = AtEnds(encoding).of(x.T[np.flatnonzero(encoding.two)], y, trials, each)
        lost, none_lacks = sample.read - len(y), np.zeros(len(encoding.all_columns), np.int64)
        whole = Sums(len(y), lost, none_lacks, float(each.sum()), none, none, 0.0, *sums, ends, ())
        layout, _, exact = self.exact(family, encoding, whole)
        model = self.model(exact, family)
        rows = pilot_rows.rows_of(sample, exact, model.form, self.shards.blocks)
        return layout, exact, model, rows, ends

    def exact(
        self, family: Family, encoding: Encoding, whole: Sums | Products
    ) -> tuple[Layout, tuple[np.ndarray, np.ndarray, tuple[float, float]], Encoding]:
        """The layout by means and sds of all rows; as of `Units.of`, what these, (D,), are by the pilot's;
        and an encoding by them.
        """
        n, columns = whole.copies, slice(0, len(encoding.mean))
        away = whole.x[columns] / n
        ratio = np.sqrt(np.maximum(whole.square[columns] / n - away**2, 0.0))
        two = encoding.two & ~whole.other[columns]
        owners = [column.name for column in encoding.features for _ in column.encoded]
        if constant := [name for name, sd in zip(owners, ratio, strict=True) if not sd > 1e-6]:
            raise DataError(
                f"{self.given}: {constant[0]} has one value alone in all rows; leave it out "
                f"{self.table.out(constant[0])}, or choose another target"
            )
        away, ratio = np.where(two, 0.0, away), np.where(two, 1.0, ratio)
        if not family.intercept:
            away = np.zeros_like(away)
        target = (1.0, 0.0)
        if family.domain.standardized:
            mean = float(whole.y[0]) / n
            target = (math.sqrt(max(float(whole.y[1]) / n - mean**2, 1e-300)), mean)
        aim, mean = encoding.layout.target, float(whole.y[0]) / n
        variance = float(whole.y[1]) / n - mean**2
        self.of_target = aim.mean + aim.sd * mean, aim.sd**2 * variance
        layout = replace(
            encoding.rescaled(encoding.mean + away * encoding.sd, encoding.sd * ratio, two),
            target=replace(aim, mean=aim.mean + target[1] * aim.sd, sd=aim.sd * target[0]),
            rows=whole.rows,
            dropped=whole.dropped,
            copies=n,
            missing={
                name: int(rows)
                for name, rows in zip(encoding.all_columns, whole.lacking, strict=True)
                if rows
            },
        )
        return layout, (ratio, away, target), replace(encoding, layout=layout, two=two)


def _doubts(fitted: Found, most: float) -> str:
    """Why the draws of a scan are not to be trusted; "" where they are. most: variance of log weights."""
    if fitted.moved[-1] > _FAR and not fitted.answer.found.why:
        return f"the centre moved by {fitted.moved[-1]:.0f} sds in the last stage"
    for answer in (fitted.answer, *(answer for _, answer in fitted.without)):
        if answer.found.why:
            return answer.found.why
        if not answer.variance < most:
            return f"the log weights' variance is {answer.variance:.2g}, at most {most:g} is asked for"
        if answer.planned <= 0.5:
            return f"only {100 * answer.planned:.0f} % of the draws are effective"
    return ""
