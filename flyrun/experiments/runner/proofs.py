"""Outcomes of `flyrun prove` of other packages' choices, kept in the cache by a digest of what was proven."""

import contextlib
from dataclasses import replace
from pathlib import Path

from flyrun.experiments.config import plugins
from flyrun.experiments.config.arm import Arm
from flyrun.experiments.runner.store import CellInfo
from flyrun.experiments.samplers.method import Facts
from flyrun.ground import files, paths
from flyrun.ground.schema import Choice


def judged(arm: Arm, facts: Facts) -> Facts:
    """The facts of an arm with what is known of its exactness, and the names of the proofs that it hangs on.

    What the method says counts where it is no, and of flyrun's own choices. Of another package's (all but
    data, this arm's or of an arm that it makes use of) nobody knows unless its class says `exact` and its
    proof, as its sources and settings are now, has passed.
    """
    awaited = _awaited(arm)
    if not facts.exact or awaited == []:
        return facts
    more = {**facts.more, "proofs": awaited} if awaited else facts.more
    return replace(facts, exact=True if awaited and all(map(passed, awaited)) else None, more=more)


def settled(info: CellInfo) -> CellInfo:
    """A cell's cell.json, exact where the proofs that it hangs on have passed since."""
    facts = info.get("facts", {})
    awaited = facts.get("proofs") if facts.get("exact", False) is None else None
    if awaited and all(map(passed, awaited)):
        return {**info, "facts": {**facts, "exact": True}}
    return info


def _awaited(arm: Arm) -> list[str] | None:
    """Names of the proofs that an arm's exactness hangs on; None where a class does not say that it is."""
    arms = [arm, *arm.sampler.inner_arms(arm), *arm.sampler.needed_arms(arm)]
    chosen = [part for each in arms for group, part in each.choices().items() if group != "dataset"]
    foreign = [part for part in chosen if plugins.is_foreign(part)]
    return (
        list(dict.fromkeys(map(plugins.identity, foreign))) if all(part.exact for part in foreign) else None
    )


def passed(name: str) -> bool:
    """Whether a proof of this name is kept and says so."""
    with contextlib.suppress(files.DamagedFile, AttributeError):
        return files.read_json(_place(name)).get("passed") is True
    return False


def keep(choice: Choice, holds: bool, lines: list[str]) -> Path:
    """Keep a proof's outcome and what it printed; where. StoreError where the cache cannot be written."""
    place = _place(plugins.identity(choice))
    with files.writing(place, "name a folder that can be written in FLYRUN_CACHE"):
        files.make_folder(place.parent)
        files.write_json(place, {"passed": holds, "settings": choice.settings(), "said": lines})
    return place


def _place(name: str) -> Path:
    return paths.cache_dir("proofs") / f"{name}.json"
