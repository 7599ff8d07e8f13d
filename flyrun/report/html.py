"""The report as one page that needs no other file: tables, caveats, figures; light and dark, on any width."""

import re

from markupsafe import Markup, escape

from flyrun.report import words
from flyrun.report.colours import BLACK, BLUE
from flyrun.report.document import Document
from flyrun.report.figures import INK


def page(document: Document) -> str:
    """The whole page. The template escapes every text that came from a config, a file or a message."""
    return words.fill("report.html", **vars(document), inline_svg=inline_svg)


def inline_svg(svg: str, name: str, label: str) -> Markup:
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
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1))
