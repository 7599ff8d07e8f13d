"""The documentation: what is generated is current, links lead somewhere, README is short and has a map."""

from __future__ import annotations

import re
import runpy

import pytest

from flyrun.experiments.config.arm import Arm  # noqa: F401  (that it is imported registers the choices)
from flyrun.experiments.config.compose import compose_job
from flyrun.experiments.config.sampler.combinations import Combination, WeierstrassGibbs
from flyrun.experiments.prove import prove
from flyrun.ground.paths import conf_dir
from flyrun.ground.schema import SCHEMAS, typed_fields
from tests.exactness.posteriors import library
from tests.exactness.test_stationary_combinations import _cases

ROOT = conf_dir().parent
README = (ROOT / "README.md").read_text("utf-8")
PAGES = sorted([*(ROOT / "docs").glob("**/*.md"), *ROOT.glob("*.md")])
#: what speaks of pages by their place in the checkout
SPEAKING = [
    *[ROOT / name for name in ("Makefile", "CHANGELOG.md", "pyproject.toml")],
    *[path for folder in ("flyrun", "conf", "tests", "tools") for path in sorted((ROOT / folder).rglob("*"))],
]
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#([^)\s]+))?\)")


def test_what_is_generated_is_current():
    """Each option's YAML and the pages of docs/reference, and nothing beside them."""
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    made = generate["everything"]()
    assert generate["left_over"](made) == []
    for path, text in made.items():
        assert path.read_text("utf-8") == text, f"{path}: run `make docs`"


def test_every_option_says_what_it_and_its_keys_are():
    for group, known in SCHEMAS.items():
        for name, cls in known.items():
            assert cls.__doc__, f"{group}={name}"
            for key, _, item in typed_fields(cls):
                assert key == "name" or item.metadata["doc"], f"{group}={name}: {key}"


def anchors(path):
    """What a heading of a page is called in a link."""
    headings = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target, anchor in _LINK.findall(path.read_text("utf-8")):
        page = path.parent / target
        assert page.exists(), target
        assert not anchor or anchor in anchors(page), f"{target}#{anchor}"


def test_pages_that_code_speaks_of_exist():
    for path in SPEAKING:
        if path.suffix in (".py", ".yaml", ".toml", ".md", ".txt", ".j2", "") and path.is_file():
            for page in re.findall(r"\bdocs/[\w-]+\.md", path.read_text("utf-8")):
                assert (ROOT / page).exists(), f"{path}: {page}"


def test_the_index_has_every_page():
    index = (ROOT / "docs/README.md").read_text("utf-8")
    for path in (ROOT / "docs").glob("*.md"):
        assert path.name == "README.md" or f"({path.name})" in index, path.name


def test_readme_is_read_in_five_minutes():
    assert len(README.split()) <= 900


def test_readme_maps_every_package():
    packages = {path.parent.name for path in (ROOT / "flyrun").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `flyrun/(\w+)/` \|", README, re.MULTILINE)) == packages


def test_the_page_on_ones_own_data_is_short():
    assert len((ROOT / "docs/your-data.md").read_text("utf-8").split()) <= 900


_NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_NUMBERS += ["eleven", "twelve", "thirteen", "fourteen", "fifteen"]
PARALLEL = (ROOT / "docs/parallel.md").read_text("utf-8")


def _arms(experiment):
    job = compose_job([f"experiment={experiment}"])
    return len(job.arms), len(job.arms[0].protocol.seed_list)


def _commands(target):
    """How many commands a target of the Makefile runs."""
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    return recipe[1].count("$(FLYRUN)")


def _counts():
    """By page, a sentence whose numbers are groups, and what they are."""
    arms, seeds = _arms("mnist_logreg")
    yield "docs/start.md", r"runs (\w+) chains, (\w+) of each of (\w+) arms\.", (arms * seeds, seeds, arms)
    # one more is named beside them, and the last command publishes
    several = r"the first (\w+) experiments below, and"
    yield "docs/approximations.md", several, (_commands("approximations") - 2,)
    # one chain is what they are held against
    yield "docs/approximations.md", r"(\w+) methods on one posterior", (_arms("mnist_approximations")[0] - 1,)
    combined = [
        one for one in SCHEMAS["sampler"].values() if issubclass(one, (Combination, WeierstrassGibbs))
    ]
    yield "CHANGELOG.md", r"combined by (\w+) rules", (len(combined),)
    table = PARALLEL.partition("| `sampler` | makes draws by |")[2].partition("\n\n")[0]
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))
    assert sorted(named) == sorted(one.name for one in combined)
    pages = [path for path in (ROOT / "docs").glob("*.md") if path.name != "README.md"]
    yield "CHANGELOG.md", r"the docs are (\d+) pages", (len(pages),)
    exact = r"Exact draws of (\w+) awkward posteriors stay exact under (\d+) random combinations"
    yield "docs/exactness.md", exact, (len(library()), len(_cases()))
    yield "CHANGELOG.md", r"exact draws of (\w+) posteriors stay", (len(library()),)
    proof = r"(\d+) seeds, least p .*\n.*: (\d+) steps from each of ([\d,]+) exact draws"
    yield "README.md", proof, (prove.CHAINS, prove.STEPS, prove.STARTS)
    moments, kept = r"moments of (\d+) seeds against quadrature", r"([\d,]+) exact draws, .* over (\d+) steps"
    yield "docs/extending.md", moments, (prove.CHAINS,)
    yield "docs/extending.md", kept, (prove.STARTS, prove.STEPS)


@pytest.mark.parametrize(("page", "sentence", "numbers"), list(_counts()))
def test_numbers_of_what_runs_are_counted(page, sentence, numbers):
    found = re.search(sentence, (ROOT / page).read_text("utf-8"))
    assert found, f"{page}: has no more {sentence!r}; count what says so now"
    said = [
        _NUMBERS.index(word) if word in _NUMBERS else int(word.replace(",", "")) for word in found.groups()
    ]
    assert said == list(numbers)


def test_the_page_of_packages_is_short():
    assert len((ROOT / "docs/extending.md").read_text("utf-8").split()) <= 1_600
