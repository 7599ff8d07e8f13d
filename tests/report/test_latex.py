"""`flyrun table --latex`: the page's tables as LaTeX; text stays text, and numbers keep their digits."""

import re
import shutil
import subprocess

import pytest

from flyrun.cli.main import main
from flyrun.experiments.report.section import sections
from flyrun.ground.page import latex
from flyrun.ground.page.render import View, plus_minus
from tests.stored import write_three_arms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("178.3 ± 2.1", r"\num{178.3 \pm 2.1}"),
        ("37,699 ± 2,158", r"\num{37699 \pm 2158}"),
        ("~ 1.00 ± 0.22", r"$\sim$ \num{1.00 \pm 0.22}"),
        ("≥ 12.5", r"$\geq$ \num{12.5}"),
        ("12.3 ± 0.1 %", r"\num{12.3 \pm 0.1} \%"),
        ("1.5e-05 ± 2.1e-06", r"\num{1.5e-5} $\pm$ \num{2.1e-6}"),
        ("40 ± 0", r"\num{40} $\pm$ \num{0}"),  # siunitx leaves a spread of 0 out
        ("−5.20", r"\num{-5.20}"),
        ("-0.04", r"\num{-0.04}"),
        ("3/5", r"\num{3}/\num{5}"),
        ("-", "--"),
        ("inf", r"$\infty$"),
        ("not run", "not run"),
        ("v1.2.3 t4", "v1.2.3 t4"),
        ("N(0, 1)", r"N(\num{0}, \num{1})"),
    ],
)
def test_a_cell_has_the_pages_digits(text, expected):
    assert latex.cell(text) == expected


@pytest.mark.parametrize("value", [0, 1.5e-5, 12.345, 6e5, 3e15, -7.2, float("nan")])
@pytest.mark.parametrize("sd", [0.0, 2e-6, 0.31, 1200.0, float("nan")])
def test_nothing_of_a_number_is_lost(value, sd):
    shown = plus_minus(value, sd)
    plain = re.sub(r"\\num\{(.*?)\}", r"\1", latex.cell(shown)).replace("$", "").replace(r"\pm", "±")
    there = [float(part.replace(",", "")) for part in shown.split(" ± ") if part != "-"]
    assert [float(part) for part in plain.split("±") if part.strip() != "--"] == there


def test_text_stays_text():
    assert latex.escape(r"a_b & 5% #1 $x^2$ {c} \d ~e") == (
        r"a\_b \& 5\% \#1 \$x\textasciicircum{}2\$ \{c\} \textbackslash{}d $\sim$e"
    )
    assert latex.escape("k̂, θ̂ and x²\n% no comment") == r"$\hat{k}$, $\hat{\theta}$ and x$^2$ \% no comment"


def test_every_letter_of_the_headings_is_one_that_latex_takes():
    found = set()
    for section in sections():
        listed = () if callable(section.metrics) else section.metrics
        found |= set("".join([section.title, *(f"{metric.head}{metric.means}" for metric in listed)]))
    assert len(found) > 60
    strange = {sign for sign in found if ord(sign) > 126} - set(latex.SYMBOLS) - set(latex._ACCENTS)
    assert strange == set()


VIEW = View("Cost & more", ("arm", "µs/iter"), (("a_b", "4 ± 1"), ("c", "-")), notes=(("µs", "of 1,000"),))


def test_a_table_has_rules_a_caption_and_a_label():
    text = latex.tables([VIEW, VIEW], "my_run.x", ["low ESS\nof a"])
    assert text.startswith("% \\usepackage{booktabs}\n% \\usepackage{siunitx}\n% low ESS of a\n")
    for line in (
        r"\caption{Cost \& more}", r"\label{tab:my-run-x-2}", r"\begin{tabular}{lr}", r"arm & $\mu$s/iter \\",
        r"a\_b & \num{4 \pm 1} \\", r"c & -- \\", r"\par\smallskip\footnotesize $\mu$s: of 1,000.",
    ):  # fmt: skip
        assert line in text
    for left, right in (("{", "}"), (r"\begin{", r"\end{")):
        assert text.count(left) == text.count(right)
    assert all(text.count(rule) == 2 for rule in (r"\toprule", r"\midrule", r"\bottomrule"))


def test_a_runs_tables(tmp_path, capsys):
    write_three_arms(tmp_path / "runs/one")
    assert main(["table", "one", f"--results-dir={tmp_path}", "--latex", f"--out={tmp_path / 't'}"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"map\\_tuned & .*\\num\{207", printed)
    assert "% map_tuned: " in printed or "% regular: " in printed  # what to know before trusting a row
    assert (tmp_path / "t.tex").read_text() in printed
    assert {path.suffix for path in tmp_path.glob("t.*")} == {".md", ".csv", ".tex"}
    assert main(["table", "one", f"--results-dir={tmp_path}"]) == 0
    assert "map_tuned" in capsys.readouterr().out
    assert main(["table", "on", f"--results-dir={tmp_path}"]) == 2
    assert "choose from one" in capsys.readouterr().err


def test_a_published_table(tmp_path, capsys):
    write_three_arms(tmp_path / "runs/mnist_logreg")
    assert main(["table", "firefly_table1", f"--results-dir={tmp_path}", "--latex"]) == 0
    printed = capsys.readouterr().out
    assert r"\label{tab:firefly-table1-1}" in printed
    assert "% opv_robust is not run yet" in printed


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no LaTeX")
def test_latex_takes_it(tmp_path):
    view = View("".join(latex.SYMBOLS) + "k̂", ("a_b", "$"), (("#", "1.5e-05 ± 2.1e-06"), ("~", "40 ± 0 %")))
    text = "\n".join(latex.tables([view, VIEW], "x", ["5 %"]).splitlines())
    uses = r"\documentclass{article}\usepackage[utf8]{inputenc}\usepackage{booktabs,siunitx}"
    (tmp_path / "x.tex").write_text(f"{uses}\\begin{{document}}{text}\\end{{document}}", encoding="utf-8")
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "x.tex"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    if "siunitx.sty' not found" in done.stdout:
        pytest.skip("LaTeX lacks siunitx")
    assert done.returncode == 0, done.stdout[-2000:]
