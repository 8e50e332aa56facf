# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The scanner reads a page's markup in one pass over its bytes: the same Tokens as `tree.tokenise`, many times as fast.

It follows the HTML standard's tokeniser and keeps as much of the tree's state as links need: raw text, templates,
shadow trees, noscript, and whether we are in an image or formula. It never copies the page and never looks outside it;
every byte is looked at a bounded number of times, so hostile markup takes linear time.
"""

from cpython.unicode cimport PyUnicode_DecodeCharmap, PyUnicode_DecodeUTF8
from libc.string cimport memchr, memcmp, memset

from gossamer.web._links cimport References, bytes_t

from gossamer.web import tokens as _tokens
from gossamer.web.tokens import Tokens, reference, unescape, unescape_text

cdef int FOLLOW = _tokens.FOLLOW
cdef int NOFOLLOW = _tokens.NOFOLLOW
cdef Py_ssize_t REFERENCE_CHARS = _tokens.REFERENCE_CHARS
cdef Py_ssize_t TITLE_BYTES = 16 * _tokens.TITLE_CHARS  # raw: with entities and white space
cdef Py_ssize_t LANGUAGE_CHARS = _tokens.LANGUAGE_CHARS
cdef Py_ssize_t RESERVATION_CHARS = _tokens.RESERVATION_CHARS

cdef enum Tag:
    OTHER, A, AREA, BASE, FRAME, IFRAME, LINK, META, HTML, TITLE, NOSCRIPT, TEMPLATE, PLAINTEXT
    SCRIPT, STYLE, RAW, SVG, MATH, SVG_ISLAND, MATH_ISLAND, BREAKOUT

cdef enum Relation:
    MARKED = 1, PAGE = 2, CANONICAL = 4, STYLESHEET = 8

# Character classes of the tokeniser.
cdef enum:
    SPACE = 1, SLASH = 2, GREATER = 4, EQUALS = 8, LETTER = 16
cdef unsigned char[256] CLASS
cdef unsigned char[256] LOWER
# By the first letter of a tag's name, the lengths that names have which matter outside of images and formulas.
cdef unsigned int[256] LENGTHS

cdef int MAX_FOREIGN = 32
cdef int NAME_BYTES = 15  # "foreignobject" is the longest we know

# Start and end tags that cannot be inside an image or formula: the parser leaves it when it sees one.
cdef frozenset _BREAKOUTS = frozenset(
    b"b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu "
    b"nobr ol p pre ruby s small span strong strike sub sup table td th tr tt u ul var section article header "
    b"footer main nav form button".split()
)
cdef dict _TAGS = {
    b"a": A, b"area": AREA, b"base": BASE, b"frame": FRAME, b"iframe": IFRAME, b"link": LINK, b"meta": META,
    b"html": HTML, b"title": TITLE, b"noscript": NOSCRIPT, b"template": TEMPLATE, b"plaintext": PLAINTEXT,
    b"script": SCRIPT, b"style": STYLE, b"xmp": RAW, b"noembed": RAW, b"noframes": RAW, b"textarea": RAW,
    b"svg": SVG, b"math": MATH, b"foreignobject": SVG_ISLAND, b"desc": SVG_ISLAND, b"mi": MATH_ISLAND,
    b"mo": MATH_ISLAND, b"mn": MATH_ISLAND, b"ms": MATH_ISLAND, b"mtext": MATH_ISLAND,
}


cdef struct Entry:  # a known tag name
    unsigned char length
    unsigned char tag
    unsigned char[16] name

cdef Entry[512] TABLE  # open addressing; at most a fifth full


cdef inline unsigned int slot(bytes_t name, Py_ssize_t length) noexcept nogil:
    return (name[0] * 31 + name[length - 1] * 7 + name[length >> 1] * 3 + <unsigned int>length * 61) & 511


cdef void prepare():
    cdef int i
    cdef unsigned int at
    cdef bytes name
    for i in range(256):
        LOWER[i] = i + 32 if 65 <= i <= 90 else i
        CLASS[i] = 0
        LENGTHS[i] = 0
    for i in b"\t\n\f\r ":
        CLASS[i] = SPACE
    CLASS[c"/"] = SLASH
    CLASS[c">"] = GREATER
    CLASS[c"="] = EQUALS
    for i in range(26):
        CLASS[65 + i] = CLASS[97 + i] = LETTER
    tags = dict.fromkeys(_BREAKOUTS, BREAKOUT)
    tags.update(_TAGS)
    for name, tag in sorted(tags.items()):
        at = slot(name, len(name))
        while TABLE[at].length:
            at = (at + 1) & 511
        TABLE[at].length = len(name)
        TABLE[at].tag = tag
        for i in range(len(name)):
            TABLE[at].name[i] = name[i]
        if tag != BREAKOUT and tag != SVG_ISLAND and tag != MATH_ISLAND:
            LENGTHS[name[0]] |= 1 << len(name)
            LENGTHS[name[0] - 32] |= 1 << len(name)


prepare()


cdef inline Tag tag_of(bytes_t name, Py_ssize_t length) noexcept nogil:
    """Which of the tags that we know; `name` need not be in lower case."""
    cdef unsigned char[16] lower
    cdef Py_ssize_t i
    cdef unsigned int at
    if length > NAME_BYTES:
        return OTHER
    for i in range(length):
        lower[i] = LOWER[name[i]]
    at = slot(lower, length)
    while TABLE[at].length:
        if TABLE[at].length == length and memcmp(TABLE[at].name, lower, length) == 0:
            return <Tag>TABLE[at].tag
        at = (at + 1) & 511
    return OTHER


cdef inline bint may_matter(bytes_t name, Py_ssize_t length) noexcept nogil:
    """Whether a tag outside of images and formulas may be one that we look at; most tags are not."""
    return length <= NAME_BYTES and (LENGTHS[name[0]] >> length) & 1


cdef inline bint is_word(bytes_t text, Py_ssize_t length, const char* word, Py_ssize_t word_length) noexcept nogil:
    """Whether it is that word; `word` is in lower case."""
    cdef Py_ssize_t i
    if length != word_length:
        return False
    for i in range(length):
        if LOWER[text[i]] != <unsigned char>word[i]:
            return False
    return True


cdef struct Slice:
    bytes_t at  # NULL: not there
    Py_ssize_t length


cdef struct Attributes:  # the first of each name, as the standard says
    Slice href, xlink, src, srcdoc, rel, name, content, http_equiv, lang, xml_lang, shadow
    bint is_closed  # <tag/>


cdef inline void keep(Slice* place, bytes_t at, Py_ssize_t length) noexcept nogil:
    if place.at == NULL:
        place.at = at
        place.length = length


cdef void keep_attribute(Attributes* into, bytes_t name, Py_ssize_t size, bytes_t at, Py_ssize_t length) noexcept nogil:
    if size == 3:
        if is_word(name, 3, "rel", 3):
            keep(&into.rel, at, length)
        elif is_word(name, 3, "src", 3):
            keep(&into.src, at, length)
    elif size == 4:
        if is_word(name, 4, "href", 4):
            keep(&into.href, at, length)
        elif is_word(name, 4, "name", 4):
            keep(&into.name, at, length)
        elif is_word(name, 4, "lang", 4):
            keep(&into.lang, at, length)
    elif size == 6 and is_word(name, 6, "srcdoc", 6):
        keep(&into.srcdoc, at, length)
    elif size == 7 and is_word(name, 7, "content", 7):
        keep(&into.content, at, length)
    elif size == 8 and is_word(name, 8, "xml:lang", 8):
        keep(&into.xml_lang, at, length)
    elif size == 10:
        if is_word(name, 10, "xlink:href", 10):
            keep(&into.xlink, at, length)
        elif is_word(name, 10, "http-equiv", 10):
            keep(&into.http_equiv, at, length)
    elif size == 14 and is_word(name, 14, "shadowrootmode", 14):
        keep(&into.shadow, at, length)


cdef bytes_t read_attributes(bytes_t p, bytes_t end, Attributes* into) noexcept nogil:
    """From behind a tag's name to behind its ">"; NULL if the page ends before. `into` may be NULL."""
    cdef bytes_t name
    cdef bytes_t value
    cdef Py_ssize_t size
    cdef unsigned char quote
    while True:
        while p < end and CLASS[p[0]] & (SPACE | SLASH):
            p += 1
        if p >= end:
            return NULL
        if p[0] == c">":
            if into != NULL:
                into.is_closed = (p - 1)[0] == c"/"
            return p + 1
        name = p
        p += 1  # a name may begin with "="
        while p < end and not CLASS[p[0]] & (SPACE | SLASH | GREATER | EQUALS):
            p += 1
        size = p - name
        while p < end and CLASS[p[0]] & SPACE:
            p += 1
        if p >= end:
            return NULL
        value = p
        if p[0] != c"=":
            if into != NULL:
                keep_attribute(into, name, size, value, 0)
            continue
        p += 1
        while p < end and CLASS[p[0]] & SPACE:
            p += 1
        if p >= end:
            return NULL
        quote = p[0]
        if quote == c'"' or quote == c"'":
            value = p + 1
            p = <bytes_t>memchr(value, quote, end - value)
            if p == NULL:
                return NULL
            if into != NULL:
                keep_attribute(into, name, size, value, p - value)
            p += 1
        else:
            value = p
            while p < end and not CLASS[p[0]] & (SPACE | GREATER):
                p += 1
            if into != NULL:
                keep_attribute(into, name, size, value, p - value)


cdef inline bint is_end_tag(bytes_t p, bytes_t end, bytes_t name, Py_ssize_t length) noexcept nogil:
    """Whether "</name" and what ends a name is at p."""
    cdef Py_ssize_t i
    if end - p < length + 3 or p[0] != c"<" or p[1] != c"/":
        return False
    for i in range(length):
        if LOWER[p[2 + i]] != LOWER[name[i]]:
            return False
    return (CLASS[p[2 + length]] & (SPACE | SLASH | GREATER)) != 0


cdef bytes_t skip_raw(bytes_t p, bytes_t end, bytes_t name, Py_ssize_t length) noexcept nogil:
    """The end tag of a raw text element; `end` if there is none."""
    while True:
        p = <bytes_t>memchr(p, c"<", end - p)
        if p == NULL:
            return end
        if is_end_tag(p, end, name, length):
            return p
        p += 1


cdef bytes_t skip_script(bytes_t p, bytes_t end) noexcept nogil:
    """The end tag of a script; `end` if there is none. In "<!-- <script>" it takes two (script data escaped)."""
    cdef int escaped = 0  # 1: in a comment; 2: and in a script in it
    cdef bytes_t dash = p  # where "--" of a comment's end may begin
    while p < end:
        if not escaped:
            p = <bytes_t>memchr(p, c"<", end - p)
            if p == NULL:
                return end
        if p[0] == c"<":
            if is_end_tag(p, end, <bytes_t><const char*>b"script", 6):
                if escaped < 2:
                    return p
                escaped = 1
            elif not escaped:
                if end - p >= 4 and p[1] == c"!" and p[2] == c"-" and p[3] == c"-":
                    escaped = 1
                    p += 1
                    dash = p + 1
                    continue
            elif end - p > 7 and is_word(p + 1, 6, "script", 6) and CLASS[p[7]] & (SPACE | SLASH | GREATER):
                escaped = 2
        elif p[0] == c">" and p - dash >= 2 and (p - 1)[0] == c"-" and (p - 2)[0] == c"-":
            escaped = 0
        p += 1
    return end


cdef bytes_t skip_declaration(bytes_t p, bytes_t end, bint is_foreign) noexcept nogil:
    """From "<!" to behind a comment, document type or CDATA section; NULL if the page ends before."""
    cdef bytes_t start
    if end - p >= 4 and p[2] == c"-" and p[3] == c"-":
        start = p + 4
        if start < end and start[0] == c">":
            return start + 1
        if end - start >= 2 and start[0] == c"-" and start[1] == c">":
            return start + 2
        p = start
        while True:
            p = <bytes_t>memchr(p, c">", end - p)
            if p == NULL:
                return NULL
            if p - start >= 2 and (p - 1)[0] == c"-" and (p - 2)[0] == c"-":
                return p + 1
            if p - start >= 3 and (p - 1)[0] == c"!" and (p - 2)[0] == c"-" and (p - 3)[0] == c"-":
                return p + 1
            p += 1
    if is_foreign and end - p >= 9 and memcmp(p + 2, <const char*>b"[CDATA[", 7) == 0:
        start = p + 9
        p = start
        while True:
            p = <bytes_t>memchr(p, c">", end - p)
            if p == NULL:
                return NULL
            if p - start >= 2 and (p - 1)[0] == c"]" and (p - 2)[0] == c"]":
                return p + 1
            p += 1
    p = <bytes_t>memchr(p, c">", end - p)
    return NULL if p == NULL else p + 1


cdef int relations(Slice rel) noexcept nogil:
    cdef bytes_t p = rel.at
    cdef bytes_t end = rel.at + rel.length
    cdef bytes_t word
    cdef Py_ssize_t size
    cdef int found = 0
    while p < end:
        while p < end and CLASS[p[0]] & SPACE:
            p += 1
        word = p
        while p < end and not CLASS[p[0]] & SPACE:
            p += 1
        size = p - word
        if is_word(word, size, "nofollow", 8) or is_word(word, size, "ugc", 3) or is_word(word, size, "sponsored", 9):
            found |= MARKED
        elif is_word(word, size, "canonical", 9):
            found |= CANONICAL | PAGE
        elif is_word(word, size, "alternate", 9) or is_word(word, size, "next", 4) or is_word(word, size, "prev", 4):
            found |= PAGE
        elif is_word(word, size, "stylesheet", 10):
            found |= STYLESHEET
    return found


cdef inline bint is_other_scheme(bytes_t p, Py_ssize_t length) noexcept nogil:
    """Whether it begins with a scheme that is neither http nor https."""
    cdef Py_ssize_t i = 0
    cdef unsigned char c
    if not length or not CLASS[p[0]] & LETTER:
        return False
    while i < length:
        c = p[i]
        if not (CLASS[c] & LETTER or 48 <= c <= 57 or c == c"+" or c == c"." or c == c"-"):
            break
        i += 1
    if i >= length or p[i] != c":":
        return False
    return not is_word(p, i, "http", 4) and not is_word(p, i, "https", 5)


cdef inline bint is_mode(Slice mode) noexcept nogil:
    """Whether it is a mode of a shadow root."""
    return mode.at != NULL and (is_word(mode.at, mode.length, "open", 4) or is_word(mode.at, mode.length, "closed", 6))


cdef inline bint is_ascii(bytes_t p, Py_ssize_t length) noexcept nogil:
    """Whether all of it is ASCII, and none of it NUL, which is read as another character."""
    cdef Py_ssize_t i
    for i in range(length):
        if not 0 < p[i] < 128:
            return False
    return True


cdef class Page:
    cdef bytes_t end
    cdef str table  # the 256 characters of a single-byte encoding; "": UTF-8
    cdef bytes agent
    cdef Py_ssize_t max_links
    cdef object tokens
    cdef References hrefs
    cdef bint has_title
    cdef bint in_noscript
    cdef int templates  # open ones that hide what is in them
    cdef int shadows  # open ones that are part of the page (declarative shadow DOM)
    cdef int depth  # of the images, formulas and islands of HTML in them
    cdef unsigned char[32] foreign

    cdef bint is_foreign(self) noexcept:
        return self.depth > 0 and (self.foreign[self.depth - 1] == SVG or self.foreign[self.depth - 1] == MATH)

    cdef str text(self, bytes_t at, Py_ssize_t length):
        """A value as text, its character references not replaced."""
        cdef str value
        if not self.table:
            value = PyUnicode_DecodeUTF8(<const char*>at, length, "replace")
        else:
            value = PyUnicode_DecodeCharmap(<char*>at, length, self.table, "replace")
        if length and memchr(at, 0, length) != NULL:
            value = value.replace("\0", "\ufffd")
        return value

    cdef str value(self, Slice found):
        cdef str text = self.text(found.at, found.length)
        return unescape(text) if found.length and memchr(found.at, c"&", found.length) != NULL else text

    cdef int run(self, bytes_t p) except -1:
        while p < self.end:
            p = <bytes_t>memchr(p, c"<", self.end - p)
            if p == NULL or self.end - p < 2:
                return 0
            if CLASS[p[1]] & LETTER:
                p = self.start_tag(p + 1)
            elif p[1] == c"/":
                if self.end - p < 3:
                    return 0
                if CLASS[p[2]] & LETTER:
                    p = self.end_tag(p + 2)
                else:  # "</>" is nothing, "</!" a comment of the short kind
                    p = <bytes_t>memchr(p, c">", self.end - p)
            elif p[1] == c"!":
                p = skip_declaration(p, self.end, self.is_foreign())
            elif p[1] == c"?":
                p = <bytes_t>memchr(p, c">", self.end - p)
            else:
                p += 1
            if p == NULL:
                return 0
        return 0

    cdef bytes_t start_tag(self, bytes_t name) except? NULL:
        """From a tag's name to behind the tag, and behind its content if that is raw text."""
        cdef Attributes attributes
        cdef bytes_t p = name
        cdef Py_ssize_t length
        cdef Tag tag
        while p < self.end and not CLASS[p[0]] & (SPACE | SLASH | GREATER):
            p += 1
        length = p - name
        if not self.depth and not may_matter(name, length):
            return p + 1 if p < self.end and p[0] == c">" else read_attributes(p, self.end, NULL)
        tag = tag_of(name, length)
        if tag == OTHER or (tag == BREAKOUT and not self.depth):
            return read_attributes(p, self.end, NULL)
        memset(&attributes, 0, sizeof(Attributes))
        p = read_attributes(p, self.end, &attributes)
        if p == NULL:
            return NULL
        if self.is_foreign():
            tag = self.foreign_tag(tag, attributes.is_closed)
        if tag == TITLE or tag == SCRIPT or tag == STYLE or tag == RAW or tag == IFRAME or tag == PLAINTEXT:
            if tag == IFRAME:
                self.link(tag, attributes)
                self.frame(attributes.srcdoc)
            return self.raw_text(tag, name, length, p)
        if tag == SVG or tag == MATH:
            if not attributes.is_closed:
                self.push(tag)
        elif tag == NOSCRIPT:
            self.in_noscript = True
        elif tag == TEMPLATE:
            if self.templates or not is_mode(attributes.shadow):
                self.templates += 1
            else:
                self.shadows += 1
        elif not self.templates:
            self.element(tag, attributes)
        return p

    cdef Tag foreign_tag(self, Tag tag, bint is_closed) noexcept:
        """What a tag is in an image or formula."""
        cdef unsigned char inside = self.foreign[self.depth - 1]
        if tag == BREAKOUT or tag == META:
            while self.is_foreign():
                self.depth -= 1
        elif (inside == SVG and (tag == SVG_ISLAND or tag == TITLE)) or (inside == MATH and tag == MATH_ISLAND):
            if not is_closed:
                self.push(SVG_ISLAND if inside == SVG else MATH_ISLAND)
            return OTHER
        elif tag == IFRAME:
            return FRAME  # its content is no raw text
        elif tag == TITLE or tag == PLAINTEXT or tag == TEMPLATE or tag == NOSCRIPT or tag == RAW or tag == HTML:
            return OTHER
        elif is_closed and (tag == SCRIPT or tag == STYLE):
            return OTHER
        # Scripts and styles count as raw text here too, unlike in the standard: no link is in them, and should
        # we have missed the end of the image, none of the page's scripts is taken for markup.
        return tag

    cdef void push(self, unsigned char what) noexcept:
        if self.depth < MAX_FOREIGN:
            self.foreign[self.depth] = what
            self.depth += 1

    cdef void pop(self, unsigned char what) noexcept:
        cdef int i = self.depth
        while i > 0:
            i -= 1
            if self.foreign[i] == what:
                self.depth = i
                return

    cdef bytes_t end_tag(self, bytes_t name) noexcept:
        cdef bytes_t p = name
        cdef Tag tag
        while p < self.end and not CLASS[p[0]] & (SPACE | SLASH | GREATER):
            p += 1
        if not self.depth and not may_matter(name, p - name):
            return p + 1 if p < self.end and p[0] == c">" else read_attributes(p, self.end, NULL)
        tag = tag_of(name, p - name)
        if tag == NOSCRIPT:
            self.in_noscript = False
        elif tag == TEMPLATE:
            if self.templates:
                self.templates -= 1
            else:
                self.shadows -= self.shadows > 0
        elif self.depth:
            if tag == SVG or tag == MATH or tag == SVG_ISLAND or tag == MATH_ISLAND:
                self.pop(tag)
            elif tag == TITLE:
                self.pop(SVG_ISLAND)
            elif tag == BREAKOUT:
                while self.is_foreign():
                    self.depth -= 1
        return read_attributes(p, self.end, NULL)

    cdef bytes_t raw_text(self, Tag tag, bytes_t name, Py_ssize_t length, bytes_t p) except? NULL:
        cdef bytes_t close
        if tag == PLAINTEXT:
            return NULL
        close = skip_script(p, self.end) if tag == SCRIPT else skip_raw(p, self.end, name, length)
        if tag == TITLE and not self.has_title and not self.templates and not self.shadows:
            self.has_title = True
            self.tokens.title = _tokens.title(unescape_text(self.text(p, min(close - p, TITLE_BYTES))))
        return close

    cdef bint counts(self) noexcept:
        """Whether a base or refresh is the document's own: not so for readers without scripts and in a shadow tree."""
        return not self.in_noscript and not self.shadows

    cdef int element(self, Tag tag, Attributes attributes) except -1:
        if tag == META:
            if attributes.content.length:
                self.meta(attributes)
        elif tag == BASE:
            if attributes.href.at != NULL and self.counts() and self.tokens.base is None:
                self.tokens.base = self.value(attributes.href)
        elif tag == HTML:
            if not self.tokens.language and not self.shadows:
                if attributes.lang.length:
                    self.tokens.language = self.value(attributes.lang)[:LANGUAGE_CHARS]
                elif attributes.xml_lang.length:
                    self.tokens.language = self.value(attributes.xml_lang)[:LANGUAGE_CHARS]
        elif tag == A or tag == AREA or tag == LINK or tag == FRAME:
            self.link(tag, attributes)
        return 0

    cdef int meta(self, Attributes attributes) except -1:
        cdef Slice name = attributes.name
        if name.at != NULL:
            while name.length and CLASS[name.at[0]] & SPACE:
                name.at += 1
                name.length -= 1
            while name.length and CLASS[name.at[name.length - 1]] & SPACE:
                name.length -= 1
            if is_word(name.at, name.length, "robots", 6) or is_word(
                name.at, name.length, <const char*>self.agent, len(self.agent)
            ):
                self.tokens.robots.append(self.value(attributes.content))
            elif is_word(name.at, name.length, "tdm-reservation", 15) and not self.tokens.reservation:
                self.tokens.reservation = self.value(attributes.content)[:RESERVATION_CHARS]
        name = attributes.http_equiv
        if name.at != NULL and self.counts() and is_word(name.at, name.length, "refresh", 7):
            if self.tokens.refresh is None:
                self.tokens.refresh = self.value(attributes.content)
        return 0

    cdef int link(self, Tag tag, Attributes attributes) except -1:
        cdef Slice href = attributes.href
        cdef int rel = 0
        if tag == FRAME or tag == IFRAME:
            href = attributes.src
        elif tag == A and href.at == NULL:
            href = attributes.xlink
        if href.at == NULL or self.templates or self.hrefs.texts.count >= self.max_links:
            return 0
        if attributes.rel.length:
            rel = relations(attributes.rel)
        if tag == LINK and (rel & STYLESHEET or not rel & PAGE):
            return 0
        return self.target(href, NOFOLLOW if rel & MARKED else FOLLOW, tag == LINK and rel & CANONICAL)

    cdef int frame(self, Slice document) except -1:
        if document.length and not self.templates and len(self.tokens.frames) < self.max_links:
            self.tokens.frames.append(self.value(document))
        return 0

    cdef int target(self, Slice href, int flag, bint is_canonical) except -1:
        """As `tokens.reference`. What is ASCII and has no character references is taken as it is; the rest as text."""
        cdef bytes_t at = href.at
        cdef Py_ssize_t length = href.length
        cdef bytes_t mark
        cdef object text
        cdef bytes encoded
        while length and 0 < at[0] <= 32:
            at += 1
            length -= 1
        if length and memchr(at, c"&", length) != NULL:
            if length > 8 * REFERENCE_CHARS or is_other_scheme(at, length):
                return 0
            text = reference(unescape(self.text(at, length)))
            if text is None:
                return 0
        else:
            mark = <bytes_t>memchr(at, c"#", length) if length else NULL
            if mark != NULL:
                length = mark - at
            else:
                while length and 0 < at[length - 1] <= 32:
                    length -= 1
            if length > 4 * REFERENCE_CHARS or is_other_scheme(at, length):
                return 0
            if length <= REFERENCE_CHARS and not is_canonical and is_ascii(at, length):
                return self.hrefs.add(at, length, flag)
            text = self.text(at, length)
            if len(text) > REFERENCE_CHARS:
                return 0
        if is_canonical and self.tokens.canonical is None:
            self.tokens.canonical = text
        encoded = text.encode()
        return self.hrefs.add(encoded, len(encoded), flag)


def scan(bytes body not None, str table not None, str agent not None, Py_ssize_t max_links):
    """The Tokens of a page in UTF-8 (table "") or in a single-byte encoding, by the table of its 256 characters."""
    cdef Page page = Page.__new__(Page)
    cdef bytes_t start = body
    page.end = start + len(body)
    page.table = table
    page.agent = agent.encode()
    page.max_links = max_links
    page.hrefs = References()
    page.tokens = Tokens(hrefs=page.hrefs)
    page.run(start)
    return page.tokens


cdef inline bytes_t skip_spaces(bytes_t p, bytes_t end) noexcept nogil:
    while p < end and CLASS[p[0]] & SPACE:
        p += 1
    return p


cdef inline bytes_t skip_close(bytes_t p, bytes_t end) noexcept nogil:
    """Behind the ">" of a tag; NULL if something else comes first."""
    p = skip_spaces(p, end)
    if p < end and p[0] == c"/":
        p += 1
    return p + 1 if p < end and p[0] == c">" else NULL


cdef bytes_t plain_attribute(bytes_t p, bytes_t end, Slice* name, Slice* value) noexcept nogil:
    """Behind an attribute like `name="value"` and the spaces before it; NULL if it is not like that."""
    cdef bytes_t start = p
    p = skip_spaces(p, end)
    if p == start:
        return NULL
    name.at = p
    while p < end and (CLASS[p[0]] & LETTER or p[0] == c":" or p[0] == c"-"):
        p += 1
    name.length = p - name.at
    if not name.length or end - p < 3 or p[0] != c"=" or p[1] != c'"':
        return NULL
    value.at = p + 2
    p = <bytes_t>memchr(value.at, c'"', end - value.at)
    if p == NULL:
        return NULL
    value.length = p - value.at
    return p + 1


cdef inline bint is_label(Slice text) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(text.length):
        if not (CLASS[text.at[i]] & LETTER or c"0" <= text.at[i] <= c"9" or text.at[i] == c"-" or text.at[i] == c"_"):
            return False
    return text.length > 0


cdef bytes_t plain_meta(bytes_t p, bytes_t end, Slice* label) noexcept nogil:
    """Behind a meta element; sets the label if that is what it declares. NULL if it is not plain."""
    cdef Slice name, value
    cdef int others = 0
    while True:
        p = plain_attribute(p, end, &name, &value)
        if p == NULL:
            return NULL
        if is_word(name.at, name.length, "charset", 7) and not others:
            label[0] = value
            break
        if is_word(name.at, name.length, "http-equiv", 10) and not others:
            p = plain_attribute(p, end, &name, &label[0]) if is_word(value.at, value.length, "content-type", 12) else NULL
            if p == NULL or not is_word(name.at, name.length, "content", 7) or label.length < 18:
                return NULL
            if not is_word(label.at, 10, "text/html;", 10):
                return NULL
            value.at = label.at + 10 + (label.at[10] == c" ")
            value.length = label.at + label.length - value.at
            if value.length < 8 or not is_word(value.at, 8, "charset=", 8):
                return NULL
            label.at = value.at + 8
            label.length = value.length - 8
            break
        if not (
            is_word(name.at, name.length, "name", 4)
            or is_word(name.at, name.length, "property", 8)
            or is_word(name.at, name.length, "content", 7)
        ):
            return NULL
        others += 1
        if skip_close(p, end) != NULL:
            return skip_close(p, end)
    return skip_close(p, end) if is_label(label[0]) else NULL


def declared(bytes body not None, Py_ssize_t limit):
    """The label of the encoding that a meta element among the first bytes declares, if the way there is plain: no comments,
    and all attributes in double quotes. "" means that `charset._prescanned` has to look."""
    cdef bytes_t p = body
    cdef bytes_t end = p + min(<Py_ssize_t>len(body), limit)
    cdef bytes_t name
    cdef Slice label, some, other
    cdef bint is_end
    label.at = NULL
    label.length = 0
    while p < end:
        p = <bytes_t>memchr(p, c"<", end - p)
        if p == NULL or end - p < 2:
            return ""
        p += 1
        if p[0] == c"!" or p[0] == c"?":
            if p[0] == c"!" and end - p > 2 and p[1] == c"-" and p[2] == c"-":
                return ""
            p = <bytes_t>memchr(p, c">", end - p)
            if p == NULL:
                return ""
            p += 1
            continue
        is_end = p[0] == c"/"
        p += is_end
        name = p
        while p < end and (CLASS[p[0]] & LETTER or (p > name and c"0" <= p[0] <= c"9")):
            p += 1
        if p == name:
            return ""
        if p - name >= 4 and is_word(name, 4, "meta", 4):
            p = plain_meta(p, end, &label) if p - name == 4 and not is_end else NULL
            if p != NULL and label.at != NULL:
                return PyUnicode_DecodeUTF8(<const char*>label.at, label.length, NULL)
        else:
            name = p
            while name != NULL:
                p = name
                name = plain_attribute(p, end, &some, &other)
            p = skip_close(p, end)
        if p == NULL:
            return ""
    return ""
