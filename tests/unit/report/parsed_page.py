"""A page read back with the standard library's parser: what a reader, or a screen reader, gets."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

from tests.harness.report import typeset

VOID = {"meta", "br", "link", "img", "hr", "input"}


@dataclass
class Element:
    """One element: its name, attributes, children and text."""

    name: str
    attributes: dict[str, str]
    children: list["Element"] = field(default_factory=list)
    pieces: list["str | Element"] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text inside, white space collapsed."""
        whole = "".join(piece if isinstance(piece, str) else piece.text for piece in self.pieces)
        return " ".join(whole.replace(typeset.THIN, "").replace("\N{SOFT HYPHEN}", "").split())

    def all(self, name: str = "", **attributes: str) -> list["Element"]:
        """Return every element below this one with that name and those attributes (`class_` for a class)."""
        wanted = {key.rstrip("_"): value for key, value in attributes.items()}
        found = []
        for child in self.children:
            fits = all(value in child.attributes.get(key, "").split() for key, value in wanted.items())
            if fits and name in ("", child.name):
                found.append(child)
            found.extend(child.all(name, **attributes))
        return found

    def one(self, name: str = "", **attributes: str) -> "Element":
        """Return the only such element."""
        found = self.all(name, **attributes)
        assert len(found) == 1, f"{len(found)} elements {name} {attributes}"
        return found[0]

    def rows(self) -> list[list[str]]:
        """Return the cells of the table body and foot below this element."""
        return [
            [cell.text for cell in row.children]
            for part in self.all("tbody") + self.all("tfoot")
            for row in part.all("tr")
        ]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {key: value or "" for key, value in attrs})
        self.open[-1].children.append(element)
        self.open[-1].pieces.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}> at {self.getpos()}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].pieces.append(data)


def parse(page: str) -> Element:
    """Parse a page; elements that are not closed in order are an assertion error."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert len(reader.open) == 1, f"not closed: {[element.name for element in reader.open]}"
    return reader.root
