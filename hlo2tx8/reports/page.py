"""Pages of HTML from templates, with everything they need inside: styles, scripts, the plots' library, packed data.

What a program's names hold goes into a page only packed (gzip in base64), or escaped by the template, so no name is ever markup.
"""

import base64
import gzip
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

from hlo2tx8.errors import InputError
from hlo2tx8.reports.against import comparison
from hlo2tx8.reports.facts import Facts

if TYPE_CHECKING:
    from jinja2 import Environment

SCRIPTS = ("core.js", "against.js", "overview.js", "timeline.js", "groups.js", "graph.js", "source.js", "levels.js", "main.js")
LIBRARY = "echarts/echarts.min.js"


def page_of(programs: Sequence[Facts], *, is_comparison: bool = False) -> str:
    """The page of programs, of which one is looked at at a time; of two it may say what the first does otherwise."""
    blocks: list[dict[str, str]] = []
    for number, facts in enumerate(programs):
        blocks.append({"id": f"facts{number}", "data": packed(facts.values)})
        blocks.append({"id": f"texts{number}", "data": packed(facts.texts)})
    title = programs[0].name
    if is_comparison:
        blocks.append({"id": "against", "data": packed(comparison(*programs))})
        title = f"{title} against {programs[1].name}"
    return render("report.html.j2", title=title, blocks=blocks, scripts=SCRIPTS, library=_library())


def packed(values: object) -> str:
    """Plain values as a page's script unpacks them."""
    text = json.dumps(values, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def render(template: str, **values: object) -> str:
    """A template of this package filled in; InputError if jinja2 is not there."""
    return _environment().get_template(template).render(**values)


def require() -> None:
    """InputError if pages cannot be made."""
    _environment()


def _environment() -> "Environment":
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise InputError(
            "E1004", "pages are made with jinja2, which is not installed", hint="pip install 'hlo2tx8[report]'"
        ) from None
    return Environment(loader=PackageLoader("hlo2tx8.reports", "page"), autoescape=_is_html, undefined=StrictUndefined)


def _is_html(template: str | None) -> bool:
    return template is None or template.endswith(".html.j2")


def _library() -> str:
    """The plots' library, which holds no end of a script."""
    return (files("hlo2tx8.reports") / LIBRARY).read_text()
