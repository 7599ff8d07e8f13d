"""Tables as LaTeX: booktabs, siunitx for numbers, every other text escaped."""

import re
import unicodedata
from collections.abc import Iterable

from flyrun.ground.page.render import NOTHING, View

_HEAD = r"""% \usepackage{booktabs}
% \usepackage{siunitx}"""
_TABLE = r"""\begin{table}
  \centering
  \sisetup{separate-uncertainty=true, group-digits=integer, group-separator={,}, group-minimum-digits=4}
  \caption{%s}
  \label{tab:%s}
  \begin{tabular}{l%s}
    \toprule
    %s
    \midrule
    %s
    \bottomrule
  \end{tabular}%s
\end{table}"""
_SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"$\sim$", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "|": "$|$",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"}, '"': "''", "–": "--", "—": "---", "…": r"\ldots{}",
    "½": r"$\frac{1}{2}$", "°": r"$^\circ$", "ᵀ": r"$^\top$", "⁻": "$^-$",
    **{sign: f"$^{power}$" for power, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    **{sign: f"$_{place}$" for place, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")},
}  # fmt: skip
_GREEK = {
    sign: unicodedata.name(sign).split()[-1].replace("MD", "MBD")
    for sign in "αβγδεζηθκλμνξπρστφχψωΓΔΘΛΞΠΣΦΨΩ"
}
_MATHS = {
    **{sign: name.capitalize() if sign.isupper() else name.lower() for sign, name in _GREEK.items()},
    "µ": "mu", "±": "pm", "·": "cdot", "×": "times", "÷": "div", "√": "surd", "≤": "leq", "≥": "geq",
    "≠": "neq", "≈": "approx", "∞": "infty", "∫": "int", "ℓ": "ell", "‖": "|", "⟨": "langle", "⟩": "rangle",
    "𝒥": "mathcal{J}", "∈": "in", "∂": "partial", "∇": "nabla", "→": "rightarrow",
}  # fmt: skip
#: character -> what LaTeX takes for it
SYMBOLS = _SPECIAL | {sign: f"$\\{command}$" for sign, command in _MATHS.items()} | {"−": "$-$"}
_ACCENTS = {"\u0302": "hat", "\u0303": "tilde", "\u0304": "bar"}
_ACCENTED = re.compile(f"(.)([{''.join(_ACCENTS)}])")
_NO_NUMBER = {NOTHING: "--", "inf": r"$\infty$", "-inf": r"$-\infty$"}
_NUMBER = r"[-−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?"
_MEASURED = re.compile(rf"(?<![\w.])({_NUMBER})(?: ± ({_NUMBER}))?(?![\w.])")


def escape(text: str) -> str:
    """Text of a config or a message that stays text in LaTeX, on one line."""
    parts = _ACCENTED.split(re.sub(r"\s+", " ", text))  # text, letter, accent, text, …
    for place in range(0, len(parts) - 1, 3):
        letter, accent = parts[place + 1 : place + 3]
        inside = SYMBOLS.get(letter, letter).strip("$")
        parts[place + 1 : place + 3] = f"$\\{_ACCENTS[accent]}{{{inside}}}$", ""
    return "".join(
        part if place % 3 else "".join(SYMBOLS.get(letter, letter) for letter in part)
        for place, part in enumerate(parts)
    )


def cell(text: str) -> str:
    r"""A cell with its numbers as siunitx's: \num{178.3 \pm 2.1}, with ± and digits as the page has them."""
    if text in _NO_NUMBER:
        return _NO_NUMBER[text]
    parts = _MEASURED.split(text)  # text, number, spread or None, text, …
    cells = [escape(parts[0])]
    for place in range(1, len(parts), 3):
        both = [_plain(part) for part in parts[place : place + 2] if part]
        # siunitx takes no spread with a power of ten of its own, and leaves one of 0 out
        apart = "e" in "".join(both) or float(both[-1]) == 0
        together = both if apart else [r" \pm ".join(both)]
        cells.append(r" $\pm$ ".join(f"\\num{{{part}}}" for part in together))
        cells.append(escape(parts[place + 2]))
    return "".join(cells)


def _plain(number: str) -> str:
    """A number as siunitx reads it."""
    digits, power, exponent = number.replace(",", "").replace("−", "-").partition("e")
    return f"{digits}e{int(exponent)}" if power else digits


def tables(views: Iterable[View], name: str, remarks: Iterable[str]) -> str:
    """The tables, each with a caption and the label tab:<name>-<number>; remarks: comments above them."""
    blocks = ["\n".join([_HEAD, *(f"% {' '.join(text.split())}" for text in remarks)])]
    for number, view in enumerate(views, 1):
        label = f"{re.sub('[^A-Za-z0-9]+', '-', name)}-{number}"
        rows = [[escape(row[0]), *map(cell, row[1:])] for row in view.rows]
        head, *body = (" & ".join(row) + r" \\" for row in [list(map(escape, view.header)), *rows])
        notes = "; ".join(f"{escape(heading)}: {escape(text)}" for heading, text in view.notes)
        below = f"\n  \\par\\smallskip\\footnotesize {notes}." if notes else ""
        columns = "r" * (len(view.header) - 1)
        blocks.append(_TABLE % (escape(view.title), label, columns, head, "\n    ".join(body), below))
    return "\n\n".join(blocks) + "\n"
