"""The report as one page that needs no other file: tables, caveats, figures; light and dark, on any width."""

from __future__ import annotations

import json
import re
from html import escape

from flyrun.report.colours import BLACK, BLUE
from flyrun.report.document import Document
from flyrun.report.figures import INK
from flyrun.report.render import View

_CSS = """
:root { color-scheme: light dark; --page: #fff; --ink: #1f2328; --soft: #59636e; --line: #d1d9e0;
        --box: #f6f8fa; --alert: #fff8c5; --alert-line: #d4a72c; --blue: #0072b2;
        --near: #00694c; --far: #a04000; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0d1117; --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --box: #151b23;
          --alert: #2b2410; --alert-line: #9e6a03; --blue: #3d9fdd;
          --near: #3fc99f; --far: #f0883e; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.2rem 1rem 3rem; background: var(--page);
       color: var(--ink); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; } .soft, figcaption, footer { color: var(--soft); font-size: .9rem; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .4rem .7rem; text-align: right; white-space: nowrap; border-top: 1px solid var(--line); }
thead th { border-top: 0; background: var(--box); }
th:first-child { text-align: left; position: sticky; left: 0; }
tbody th { font-weight: 600; background: var(--page); }
.paper { color: var(--soft); }
.near, .far { font-size: .85em; } .near { color: var(--near); }
.far { color: var(--far); font-style: italic; }
ul.alert { margin: 1rem 0; padding: .6rem 1rem .6rem 2rem; background: var(--alert);
           border: 1px solid var(--alert-line); border-radius: 6px; }
pre { overflow-x: auto; padding: .6rem .8rem; background: var(--box); border: 1px solid var(--line);
      border-radius: 6px; font-size: .88rem; margin: .5rem 0; }
figure { margin: 1.5rem 0; } figure svg { display: block; width: 100%; max-width: 46rem; height: auto; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1rem 1rem; margin: .5rem 0; }
dt { color: var(--soft); } dd { margin: 0; } summary { cursor: pointer; }
"""


def page(document: Document) -> str:
    """The whole page. Every text that came from a config, a file or a message is escaped."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # Should an address ever slip in, the browser still fetches nothing.
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">",
        f"<title>{escape(document.title)}</title><style>{_CSS}</style></head><body>",
        f"<h1>{escape(document.title)}</h1>",
        *(f'<p class="soft">{escape(line)}</p>' for line in document.lead),
        _alerts(document.caveats),
        *(_table(view) for view in document.views),
        *(f'<p class="soft">{escape(line)}</p>' for line in document.legend),
        *(_figure(name, *figure) for name, figure in document.figures.items()),
        "<h2>Run it again</h2>",
        f"<pre>{escape(document.command)}</pre>",
        "<h2>Environment</h2>",
        _pairs(document.environment),
        *_settings(document.settings),
        f"<footer><p>{escape(document.footer)}</p></footer>",
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _alerts(caveats: list[str]) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in caveats)
    return f'<ul class="alert">{items}</ul>' if items else ""


def _table(view: View) -> str:
    paper = {index for index, head in enumerate(view.header) if head == "paper"}
    head = "".join(
        f'<th scope="col"{_class(i, paper)}>{escape(text)}</th>' for i, text in enumerate(view.header)
    )
    body = ""
    for k, row in enumerate(view.rows):
        cells = "".join(
            f"<td{_class(i, paper)}>{escape(text)}{_delta(view.deltas.get((k, i)))}</td>"
            for i, text in enumerate(row)
            if i
        )
        body += f'<tr><th scope="row">{escape(row[0])}</th>{cells}</tr>'
    note = (
        '<p class="soft">Beside a paper\'s value: by how much ours differs, <span class="near">within</span> '
        'or <span class="far">beyond</span> two sds over seeds (the paper tells none of its own).</p>'
        if view.deltas
        else ""
    )
    return (
        f'<h2>{escape(view.title)}</h2><div class="scroll" tabindex="0" role="region" '
        f'aria-label="{escape(view.title)}"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f"{note}"
    )


def _delta(found: tuple[str, bool] | None) -> str:
    if found is None:
        return ""
    text, near = found
    return f' <span class="{"near" if near else "far"}">{escape(text)}</span>'


def _class(index: int, paper: set[int]) -> str:
    return ' class="paper"' if index in paper else ""


def _figure(name: str, caption: str, svg: str) -> str:
    return f"<figure>{inline_svg(svg, name, caption)}<figcaption>{escape(caption)}</figcaption></figure>"


def inline_svg(svg: str, name: str, label: str) -> str:
    """A stand-alone SVG made part of a page: own ids, the page's ink, no header, metadata or addresses."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = svg.replace('href="#', f'href="#{name}-').replace("url(#", f"url(#{name}-")
    svg = re.sub(f"{re.escape(INK)}|{re.escape(BLACK)}", "currentColor", svg, flags=re.IGNORECASE)
    # The paper's blue is hard to see on black; a dark page has its own.
    svg = re.sub(re.escape(BLUE), "var(--blue)", svg, flags=re.IGNORECASE)
    # The size comes from the page; the viewBox keeps the shape.
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)


def _pairs(pairs: dict[str, str]) -> str:
    items = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in pairs.items())
    return f"<dl>{items}</dl>"


def _settings(settings: dict[str, dict]) -> list[str]:
    if not settings:
        return []
    found = ["<h2>Settings</h2>"]
    for arm, values in settings.items():
        text = escape(json.dumps(values, indent=2, ensure_ascii=False))
        found.append(f"<details><summary>{escape(arm)}</summary><pre>{text}</pre></details>")
    return found
