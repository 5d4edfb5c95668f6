"""A report page: tags closed in order, nothing fetched from outside, charts and images counted."""
import base64
import html.parser
import re
import struct

PNG = "data:image/png;base64,"


class Page(html.parser.HTMLParser):
    """Tags that are opened and closed in order, and no word that fetches something."""

    VOID = {"meta", "br", "path", "rect", "circle", "img"}

    def __init__(self):
        super().__init__()
        self.open, self.charts, self.images, self.words = [], 0, [], ""

    def handle_starttag(self, tag, attrs):
        self.look(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def look(self, tag, attrs):
        for name, value in attrs:
            if tag == "img" and name == "src" and value.startswith(PNG):
                self.images.append(base64.b64decode(value[len(PNG):], validate=True))
                continue
            assert name not in ("src", "href", "srcset", "data") and "url(" not in (value or ""), (tag, name, value)
        assert tag not in ("script", "link", "iframe"), tag
        self.charts += tag == "svg" and "role" in dict(attrs)

    def handle_startendtag(self, tag, attrs):
        self.look(tag, attrs)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            opened = self.open.pop()
            assert tag == opened, f"closing tag: got {tag!r}, want {opened!r}"

    def handle_data(self, data):
        assert "@import" not in data and not re.search(r"url\((?!#)", data), data[:100]
        self.words += data


def check_page(path, least_charts, images=0):
    """The page's words."""
    page = Page()
    page.feed(path.read_text())
    page.close()
    assert page.open == [], f"tags left open: {page.open}"
    assert page.charts >= least_charts, f"{page.charts} charts"
    assert len(page.images) == images, f"{len(page.images)} images, want {images}"
    for image in page.images:
        assert image[:8] == b"\x89PNG\r\n\x1a\n" and image[-8:-4] == b"IEND" and struct.unpack(">I", image[16:20])[0] > 0
    assert not re.search(r"\bnan\b|\binf\b", page.words), "a number that is none"
    return page.words
