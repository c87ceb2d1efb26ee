"""Files that are made from templates; none is HTML."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def render(template: Path, /, **values: object) -> str:
    """Return the text that a template comes to.

    Raises:
        jinja2.TemplateError: it asks for what is not given, or is no template.

    """
    environment = Environment(
        loader=FileSystemLoader(template.parent),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - no HTML
    )
    return environment.get_template(template.name).render(values)
