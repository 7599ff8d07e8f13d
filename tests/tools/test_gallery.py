"""results/measured/index.html in a real browser, and what it and docs/results.md hold."""

import re
import shutil

import matplotlib.image
import pytest

from flyrun.ground.errors import ConfigError
from tests.report.test_browser import BROWSER, DESK, PHONE, browse, measure
from tools.results import gallery, pages

in_a_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
_LINK = re.compile(r'href="(?!#)([^"]+)"')


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return shutil.copy(pages.GALLERY, tmp_path_factory.mktemp("gallery") / "report.html")


@in_a_browser
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_gallery_fits_and_asks_for_nothing(page, width):
    found, messages = measure(page, width)
    assert "CONSOLE" not in messages, messages
    assert found["scroll"] <= found["client"] == width, found
    assert not [url for url in found["asked"] if not url.startswith("data:")]


@in_a_browser
def test_the_gallery_is_dark_where_that_is_preferred(page):
    brightness = []
    for name, options in {"light": [], "dark": ["--force-dark-mode"]}.items():
        shot = page.with_name(f"{name}.png")
        browse(page, f"--screenshot={shot}", *options, page.as_uri())
        brightness.append(matplotlib.image.imread(shot)[:, :, :3].mean())
    light, dark = brightness
    assert light > 0.8 > 0.4 > dark


def test_every_published_run_is_in_the_gallery_and_in_the_docs():
    text, docs = pages.GALLERY.read_text("utf-8"), pages.RESULTS.read_text("utf-8")
    runs = {path.parent.name for path in gallery.MEASURED.glob("*/report.md")}
    assert runs < set(re.findall(r'<article id="(\w+)">', text))
    assert runs < set(re.findall(r"^### (\w+)$", docs, re.MULTILINE))
    links = _LINK.findall(text)
    assert len(links) > 2 * len(runs)
    assert [link for link in links if not (gallery.MEASURED / link).exists()] == []
    assert len(text) < 2_000_000


def test_a_run_without_a_sentence_is_refused(tmp_path, monkeypatch):
    told = gallery.SENTENCES.read_text("utf-8").replace("toy_flymc:", "another:")
    (tmp_path / "experiments.yaml").write_text(told)
    monkeypatch.setattr(gallery, "SENTENCES", tmp_path / "experiments.yaml")
    with pytest.raises(ConfigError, match="says nothing of toy_flymc"):
        pages.current()
