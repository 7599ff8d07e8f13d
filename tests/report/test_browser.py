"""The report's page in a real browser: it renders, complains of nothing, asks the network for nothing, and
fits a phone. Skipped where there is no Chromium."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import matplotlib.image
import pytest

from flyrun.experiments.report.build import build
from flyrun.fitting import page as fit_page
from flyrun.ground.page.document import Document
from flyrun.ground.page.document import as_html as page_of
from tests.stored import write_three_arms

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next((path for name in NAMES if (path := shutil.which(name))), None)
PHONE, DESK = 390, 1280
pytestmark = [pytest.mark.skipif(BROWSER is None, reason="no Chromium here"), pytest.mark.figures]

# Measured inside a frame as wide as a phone: a headless window has a least width of its own.
FRAME = """<!doctype html><body style="margin:0"><iframe src="report.html" width={width} height=4000
style="border:0" onload="var root = this.contentDocument.documentElement;
document.title = JSON.stringify({{scroll: root.scrollWidth, client: root.clientWidth,
height: root.scrollHeight, tables: root.querySelectorAll('table').length,
figures: root.querySelectorAll('svg').length,
ends: Array.from(root.querySelectorAll('thead th')).map(cell => cell.getBoundingClientRect().right),
asked: this.contentWindow.performance.getEntriesByType('resource').map(entry => entry.name)}})"></iframe>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    root = write_three_arms(tmp_path_factory.mktemp("browser") / "mnist_logreg", seeds=2)
    build(root)
    return root / "report.html"


def browse(page, *options, width=DESK):
    """What one call of the browser prints, and its messages, in which the console's are marked."""
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        "--enable-logging=stderr",
        "--allow-file-access-from-files", "--disable-background-networking", "--disable-component-update",
        "--no-first-run", f"--user-data-dir={page.with_name('profile')}",
        f"--window-size={width},1600", *options,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, done.stderr


def measure(page, width):
    """Sizes of the page in a frame of this width, what it asked for, and the browser's messages."""
    frame = page.with_name("frame.html")
    frame.write_text(FRAME.format(width=width))
    text, messages = browse(page, "--dump-dom", "--virtual-time-budget=5000", frame.as_uri())
    return json.loads(html.unescape(re.search(r"<title>(.*?)</title>", text)[1])), messages


def test_page_renders(page):
    shot = page.with_name("wide.png")
    _, messages = browse(page, f"--screenshot={shot}", page.as_uri())
    assert "CONSOLE" not in messages, messages
    image = matplotlib.image.imread(shot)
    assert image.shape[1] == DESK
    # a page that did not render is of one colour
    assert image[:800].std() > 0.05


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_page_fits_and_asks_for_nothing(page, width):
    found, messages = measure(page, width)
    assert "CONSOLE" not in messages, messages
    assert found["scroll"] <= found["client"] == width, found
    assert found["tables"] >= 3
    assert found["figures"] == 3
    assert found["height"] > 1000
    assert not [url for url in found["asked"] if not url.startswith("data:")]


@pytest.mark.parametrize("name", ["a long name of many words " * 4, "one_word_of_eighty_letters" * 3])
def test_a_long_name_leaves_a_coefficient_and_its_interval_in_sight_of_a_phone(name, tmp_path):
    """Words of a person's own that push the numbers out of view."""
    row = {"class": "", "coefficient": name, "mean": -0.076, "sd": 0.061, "q03": -0.193, "q97": 0.038}
    row |= {"ess_bulk": 7825.0, "ess_tail": 8967.0, "rhat": 1.0, "effect_mean": 0.1}
    view = fit_page.views({"coefficients": [row]})
    empty = {key: [] for key in ("lead", "caveats", "legend")} | {"figures": {}, "environment": {}}
    text = Document(title="t", views=view, command="c", settings={}, footer="", **empty)
    (tmp_path / "report.html").write_text(page_of(text))
    found, _ = measure(tmp_path / "report.html", PHONE)
    assert found["ends"][4] < PHONE, found  # that of the interval
    assert found["ends"][8] > PHONE  # the control: all do not fit


def test_what_is_wrong_is_noticed(page):
    """Negative control of the width, the complaints and the requests."""
    wrong = (
        '<div style="width:900px">wide</div><script>console.error("x")</script>'
        '<img src="http://127.0.0.1:9/x.png"></body>'
    )
    folder = page.parent / "wrong"
    folder.mkdir()
    bad = folder / "report.html"
    bad.write_text(page.read_text().replace("</body>", wrong))
    found, messages = measure(bad, PHONE)
    assert found["scroll"] > PHONE
    assert "CONSOLE" in messages
    assert "http://127.0.0.1:9/x.png" in found["asked"]
