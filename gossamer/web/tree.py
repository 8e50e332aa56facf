"""The only module that builds a tree of a page: for its text, and for links where there is no scanner."""

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from gossamer.web.charset import declared_charset, decode
from gossamer.web.tokens import FOLLOW, LANGUAGE_CHARS, NOFOLLOW, Tokens, reference, title

_WANTED = "a,area,base,frame,iframe,link,meta"
_LINK_RELATIONS = frozenset(["alternate", "canonical", "next", "prev"])
_NOFOLLOW = frozenset(["nofollow", "sponsored", "ugc"])

_TITLES = 20  # of which all but the last may belong to images
_SPACE = re.compile(r"\s+")
_CELLS = frozenset(["td", "th"])
_UNREAD = frozenset(
    ["head", "iframe", "noembed", "noframes", "script", "style", "svg", "template", "-comment", "-doctype"]
)
_BLOCKS = frozenset((
    "address", "article", "aside", "blockquote", "body", "br", "button", "caption", "center", "dd",
    "details", "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form",
    "frameset", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr", "html", "legend", "li", "main",
    "menu", "nav", "ol", "optgroup", "option", "p", "pre", "search", "section", "select", "summary", "table",
    "tbody", "textarea", "tfoot", "thead", "tr", "ul",
))  # fmt: skip


def tokenise(body: bytes, charset: str, agent: str, max_links: int) -> Tokens:
    """Read a page through a tree. `agent` is our product token in lower case."""
    parser = LexborHTMLParser(decode(body, charset))
    tokens = Tokens()
    for node in parser.css(_WANTED):
        tag, attributes = node.tag, node.attributes
        if tag == "meta":
            _meta(tokens, attributes, agent)
        elif tag == "base":
            if tokens.base is None and "href" in attributes:
                tokens.base = attributes["href"] or ""
        elif len(tokens.hrefs) < max_links:
            _link(tokens, str(tag), attributes)
    if (tokens.base is not None or tokens.refresh is not None) and b"<noscript" in body.lower():
        _outside_noscript(tokens, body, charset, agent)
    tokens.title = _title(parser)
    root = parser.root
    attributes = root.attributes if root else {}
    tokens.language = (attributes.get("lang") or attributes.get("xml:lang") or "")[:LANGUAGE_CHARS]
    return tokens


def _link(tokens: Tokens, tag: str, attributes: dict[str, str | None]) -> None:
    if tag in ("frame", "iframe"):
        if "src" not in attributes:
            return
        value = attributes["src"]
    elif "href" in attributes:
        value = attributes["href"]
    elif "xlink:href" in attributes and tag == "a":
        value = attributes["xlink:href"]
    else:
        return
    relations = (attributes.get("rel") or "").lower().split()
    if tag == "link" and ("stylesheet" in relations or _LINK_RELATIONS.isdisjoint(relations)):
        return
    href = reference(value or "")
    if href is None:
        return
    if tag == "link" and tokens.canonical is None and "canonical" in relations:
        tokens.canonical = href
    flag = FOLLOW if _NOFOLLOW.isdisjoint(relations) else NOFOLLOW
    tokens.hrefs[href] = tokens.hrefs.get(href, 0) | flag


def _meta(tokens: Tokens, attributes: dict[str, str | None], agent: str) -> None:
    content = attributes.get("content")
    if not content:
        return
    if (attributes.get("name") or "").strip().lower() in ("robots", agent):
        tokens.robots.append(content)
    if tokens.refresh is None and (attributes.get("http-equiv") or "").lower() == "refresh":
        tokens.refresh = content


def _outside_noscript(tokens: Tokens, body: bytes, charset: str, agent: str) -> None:
    """Links for readers without scripts are ours to follow; a base or refresh for them leads us astray."""
    tokens.base = tokens.refresh = None
    seen = Tokens()
    for node in LexborHTMLParser(decode(body, charset), scripting=True).css("base,meta"):
        if node.tag == "meta":
            _meta(seen, node.attributes, agent)
        elif tokens.base is None and "href" in node.attributes:
            tokens.base = node.attributes["href"] or ""
    tokens.refresh = seen.refresh


def _title(parser: LexborHTMLParser) -> str:
    for node in parser.css("title")[:_TITLES]:
        if not _is_drawn(node):
            return title(node.text())
    return ""


def _is_drawn(node: LexborNode) -> bool:
    """Whether it is in an SVG image, where titles are tooltips."""
    parent = node.parent
    while parent is not None and parent.tag != "svg":
        parent = parent.parent
    return parent is not None


def text_of(body: bytes, content_type: str = "") -> str:
    """Readable text: one line per block, white space folded; "" for what is not text."""
    mime = content_type.partition(";")[0].strip().lower()
    is_markup = mime == "" or "html" in mime or mime.endswith("xml")
    if not is_markup and not mime.startswith("text/"):
        return ""
    text = decode(body, declared_charset(body, content_type))
    root = LexborHTMLParser(text).root if is_markup else None
    if root is None:
        return "" if is_markup else text.strip()
    lines = (" ".join(line.split()) for line in "".join(_pieces(root)).split("\n"))
    return "\n".join(line for line in lines if line)


def _pieces(root: LexborNode) -> list[str]:
    """The text nodes, with line ends at the borders of blocks. Iterative: markup may be nested very deep."""
    pieces: list[str] = []
    ancestors: list[tuple[LexborNode, str]] = []
    node: LexborNode | None = root
    while node is not None or ancestors:
        if node is None:
            node, border = ancestors.pop()
            pieces.append(border)
            node = node.next
            continue
        tag = node.tag or ""
        if tag == "-text":
            pieces.append(_SPACE.sub(" ", node.text_content or ""))
        elif tag not in _UNREAD:
            border = "\n" if tag in _BLOCKS else " " if tag in _CELLS else ""
            pieces.append(border)
            ancestors.append((node, border))
            node = node.first_child
            continue
        node = node.next
    return pieces
