# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""References on a page become columns of links here, in compiled code: normal form, key, traps; each link once.

Most references are plain: ASCII, nothing to decode, no session id, an ordinary host name. What the URL standard makes of
them is copying, but for dot segments. `join` does it, and refuses whatever it is not sure of; that takes the way through
`url.resolve`. Both ways give the same on every reference (tests/unit/test_links.py, scripts/fuzz_links.py).
No Python object is made for a link until somebody wants its text.
"""

import os

import numpy as np

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from xxhash import xxh3_64_intdigest

from gossamer.web.guard import BAD_PORTS
from gossamer.web.tokens import FOLLOW as _FOLLOW
from gossamer.web.url import KEY_LOW, TRAPS, host_part, trap

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef int FOLLOW = _FOLLOW
cdef uint8_t LENGTH = TRAPS.index("length")
cdef uint8_t PORT = TRAPS.index("port")
cdef uint8_t TRAP = TRAPS.index("trap")
cdef bytes PLACES = bytes(range(len(TRAPS)))
cdef uint64_t LOW = KEY_LOW
cdef uint64_t SEED = int.from_bytes(os.urandom(8), "little")  # nobody can choose texts that collide
cdef Py_ssize_t MOST_SEGMENTS = 32  # that are compared with each other here; more are counted in Python
cdef Py_ssize_t LONGEST_NAME = 253
cdef Py_ssize_t LONGEST_LABEL = 63

# Characters that the URL standard leaves as they are; those that some rule of ours looks at are not among them.
cdef enum:
    IN_PATH = 1, IN_QUERY = 2, IN_NAME = 4, DIGIT = 8
cdef uint8_t[256] PLAIN


cdef void prepare():
    cdef int c
    memset(PLAIN, 0, 256)
    for c in b"-._~!$&*+,=:@%()ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789":
        PLAIN[c] = IN_PATH | IN_QUERY
    PLAIN[c"'"] = IN_PATH
    for c in b"/?;":
        PLAIN[c] = IN_QUERY
    for c in b"-_abcdefghijklmnopqrstuvwxyz0123456789":
        PLAIN[c] |= IN_NAME
    for c in b"0123456789":
        PLAIN[c] |= DIGIT


prepare()


cdef inline uint64_t mixed(bytes_t at, Py_ssize_t length) noexcept nogil:
    """A hash, for the tables of this module only. The product of two halves that depend on the seed keeps it secret which
    texts collide; a multiplication by a constant alone would not."""
    cdef uint64_t word, found = SEED ^ <uint64_t>length
    while length > 0:
        word = 0
        memcpy(&word, at, 8 if length >= 8 else length)
        word ^= found
        found = (word & <uint64_t>0xFFFFFFFF) * (word >> 32) ^ word * <uint64_t>0x9E3779B97F4A7C15
        found ^= found >> 32
        at += 8
        length -= 8
    return found


cdef class Texts:
    """Distinct texts in order of first appearance, one after another in one buffer. An empty one counts too."""

    def __cinit__(self):
        self.most = 32
        self.mask = 63
        self.ends = <Py_ssize_t*>PyMem_Malloc(self.most * sizeof(Py_ssize_t))
        self.hashes = <uint64_t*>PyMem_Malloc(self.most * sizeof(uint64_t))
        self.slots = <int32_t*>PyMem_Malloc((self.mask + 1) * sizeof(int32_t))
        if self.ends == NULL or self.hashes == NULL or self.slots == NULL:
            raise MemoryError
        memset(self.slots, 0, (self.mask + 1) * sizeof(int32_t))

    def __dealloc__(self):
        PyMem_Free(self.buffer)
        PyMem_Free(self.ends)
        PyMem_Free(self.hashes)
        PyMem_Free(self.slots)

    cdef bytes_t start(self, Py_ssize_t index) noexcept:
        return self.buffer + (self.ends[index - 1] if index else 0)

    cdef Py_ssize_t length(self, Py_ssize_t index) noexcept:
        return self.ends[index] - (self.ends[index - 1] if index else 0)

    cdef str text(self, Py_ssize_t index):
        return PyUnicode_DecodeUTF8(<const char*>self.start(index), self.length(index), NULL)

    cdef int reserve(self, Py_ssize_t more) except -1:
        """Makes room for so many bytes behind the last text."""
        cdef Py_ssize_t room = self.used + more
        cdef unsigned char* buffer
        if room <= self.room:
            return 0
        room += room // 2 + 1024
        buffer = <unsigned char*>PyMem_Realloc(self.buffer, room)
        if buffer == NULL:
            raise MemoryError
        self.buffer = buffer
        self.room = room
        return 0

    cdef Py_ssize_t settle(self, Py_ssize_t length) except -1:
        """Adds the text of this length that was written behind the last one, unless it is known. Returns its index."""
        cdef bytes_t at = self.buffer + self.used
        cdef uint64_t found = mixed(at, length)
        cdef Py_ssize_t slot = found & self.mask
        cdef Py_ssize_t index
        while self.slots[slot]:
            index = self.slots[slot] - 1
            if self.hashes[index] == found and self.length(index) == length:
                if not length or memcmp(self.start(index), at, length) == 0:
                    return index
            slot = (slot + 1) & self.mask
        if self.count == self.most:
            self.grow()
            slot = found & self.mask
            while self.slots[slot]:
                slot = (slot + 1) & self.mask
        index = self.count
        self.used += length
        self.ends[index] = self.used
        self.hashes[index] = found
        self.slots[slot] = <int32_t>(index + 1)
        self.count += 1
        return index

    cdef Py_ssize_t add(self, bytes_t at, Py_ssize_t length) except -1:
        self.reserve(length + 1)
        if length:
            memcpy(self.buffer + self.used, at, length)
        return self.settle(length)

    cdef int grow(self) except -1:
        cdef Py_ssize_t most = 2 * self.most, size = 2 * (self.mask + 1), index, slot
        cdef void* moved
        if most >= 1 << 30:
            raise MemoryError
        moved = PyMem_Realloc(self.ends, most * sizeof(Py_ssize_t))
        if moved == NULL:
            raise MemoryError
        self.ends = <Py_ssize_t*>moved
        moved = PyMem_Realloc(self.hashes, most * sizeof(uint64_t))
        if moved == NULL:
            raise MemoryError
        self.hashes = <uint64_t*>moved
        moved = PyMem_Realloc(self.slots, size * sizeof(int32_t))
        if moved == NULL:
            raise MemoryError
        self.slots = <int32_t*>moved
        self.most = most
        self.mask = size - 1
        memset(self.slots, 0, size * sizeof(int32_t))
        for index in range(self.count):
            slot = self.hashes[index] & self.mask
            while self.slots[slot]:
                slot = (slot + 1) & self.mask
            self.slots[slot] = <int32_t>(index + 1)
        return 0


cdef struct Base:  # what references are relative to, if it is plain
    bytes_t at
    Py_ssize_t scheme  # with its colon
    Py_ssize_t origin
    Py_ssize_t directory  # with the last slash
    Py_ssize_t path


cdef inline uint8_t lower(uint8_t c) noexcept nogil:
    return c | 32


cdef Py_ssize_t join(bytes_t p, bytes_t end, const Base* base, unsigned char* out) noexcept nogil:
    """Writes the normal form of a reference to `out`, where its length and the base's fit, and 8 more bytes.

    Returns its length; -1 if the reference is not plain. `base` may be NULL: then only absolute ones are.
    """
    cdef Py_ssize_t length = end - p, copied, scheme = 0
    cdef bytes_t colon
    if length >= 7 and memcmp(p, "http://", 7) == 0:
        scheme = 5
    elif length >= 8 and memcmp(p, "https://", 8) == 0:
        scheme = 6
    if scheme:
        memcpy(out, p, scheme + 2)
        return authority(p + scheme + 2, end, scheme, out)
    if base == NULL or not length:
        return -1
    if p[0] == c"?":
        memcpy(out, base.at, base.path)
        return query(p, end, out, out + base.path)
    if p[0] == c"/":
        if length > 1 and p[1] == c"/":
            memcpy(out, base.at, base.scheme + 2)
            return authority(p + 2, end, base.scheme, out)
        copied = base.origin + 1
        p += 1
    else:
        copied = base.directory
        colon = p
        while colon < end and colon[0] != c"/" and colon[0] != c"?":
            if colon[0] == c":":  # what is before it may be a scheme
                return -1
            colon += 1
    memcpy(out, base.at, copied)
    return path(p, end, out, out + base.origin, out + copied)


cdef Py_ssize_t authority(bytes_t p, bytes_t end, Py_ssize_t scheme, unsigned char* out) noexcept nogil:
    """From behind "http://", which is in `out` already."""
    cdef unsigned char* q = out + scheme + 2
    cdef unsigned char* name = q
    cdef unsigned char* label = q
    cdef bytes_t digits
    cdef int port = 0
    while p < end:
        if PLAIN[p[0]] & IN_NAME:
            q[0] = p[0]
        elif p[0] == c"." and is_label(label, q - label):
            q[0] = c"."
            label = q + 1
        else:
            break
        p += 1
        q += 1
    # A name whose last label is a number is an address.
    if not is_label(label, q - label) or q - name > LONGEST_NAME or not c"a" <= label[0] <= c"z":
        return -1
    if p < end and p[0] == c":":
        digits = p + 1
        q[0] = c":"
        q += 1
        p += 1
        while p < end and PLAIN[p[0]] & DIGIT and p - digits < 6:
            port = 10 * port + p[0] - c"0"
            q[0] = p[0]
            p += 1
            q += 1
        if p == digits or digits[0] == c"0" or port > 65535 or port == (80 if scheme == 5 else 443):
            return -1
    q[0] = c"/"
    if p == end:
        return q + 1 - out
    if p[0] == c"/":
        return path(p + 1, end, out, q, q + 1)
    return query(p, end, out, q + 1) if p[0] == c"?" else -1


cdef inline bint is_label(const unsigned char* at, Py_ssize_t length) noexcept nogil:
    """Whether it can be a part of a host name, and is no Punycode."""
    return 0 < length <= LONGEST_LABEL and not (length >= 4 and memcmp(at, "xn--", 4) == 0)


cdef Py_ssize_t path(
    bytes_t p, bytes_t end, unsigned char* out, unsigned char* root, unsigned char* q
) noexcept nogil:
    """`q` is behind a slash of the path, `root` the first of them."""
    cdef unsigned char* segment = q
    cdef Py_ssize_t size
    while True:
        while p < end and PLAIN[p[0]] & IN_PATH:
            if p[0] == c"%" and end - p >= 3 and p[1] == c"2" and lower(p[2]) == c"e":
                return -1  # a dot
            if p[0] == c"(" and q == segment:
                return -1  # of a session id, perhaps
            q[0] = p[0]
            p += 1
            q += 1
        if p < end and p[0] != c"/" and p[0] != c"?":
            return -1
        size = q - segment
        if size == 1 and segment[0] == c".":
            q = segment
        elif size == 2 and segment[0] == c"." and segment[1] == c".":
            q = segment
            if q - 1 > root:
                q -= 1
                while (q - 1)[0] != c"/":
                    q -= 1
                # The URL library does not go up from what looks like a drive of Windows, whatever the scheme.
                if q[1] == c":" and q[2] == c"/" and c"a" <= lower(q[0]) <= c"z":
                    return -1
        elif p < end and p[0] == c"/":
            q[0] = c"/"
            q += 1
        if p == end:
            return q - out
        if p[0] == c"?":
            return query(p, end, out, q)
        p += 1
        segment = q


cdef Py_ssize_t query(bytes_t p, bytes_t end, unsigned char* out, unsigned char* q) noexcept nogil:
    """From the question mark to the end."""
    while p < end:
        if not PLAIN[p[0]] & IN_QUERY:
            return -1
        # "sid=" and "sessionid="; before them is at least "http://".
        if p[0] == c"=" and lower((q - 1)[0]) == c"d" and lower((q - 2)[0]) == c"i":
            if lower((q - 3)[0]) == c"s" or lower((q - 3)[0]) == c"n":
                return -1
        q[0] = p[0]
        p += 1
        q += 1
    return q - out


cdef class References:
    """The references of a page, without fragments, each with its flags (`tokens.FOLLOW`, `NOFOLLOW`)."""

    def __cinit__(self):
        self.texts = Texts()
        self.flags = bytearray()

    cdef int add(self, bytes_t at, Py_ssize_t length, int flag) except -1:
        cdef Py_ssize_t index = self.texts.add(at, length)
        if index == len(self.flags):
            self.flags.append(flag)
        else:
            (<unsigned char*><char*>self.flags)[index] |= flag
        return 0

    def __len__(self):
        return self.texts.count

    def __iter__(self):
        return (self.texts.text(index) for index in range(self.texts.count))

    def items(self):
        return zip(self, self.flags)

    def values(self):
        return list(self.flags)

    def __eq__(self, other):
        return dict(self.items()) == dict(other.items())

    def __repr__(self):
        return repr(dict(self.items()))

    def resolved(self, str base not None, bint is_own, slow not None, str first=None):
        """The links: what of them is to be followed, then what is marked. `first` comes before all others.

        `is_own`: the base is the page, so that the empty reference leads nowhere else. `slow` resolves a text.
        """
        cdef LinkColumns links = LinkColumns.__new__(LinkColumns)
        cdef Base found
        cdef Base* known = NULL
        cdef Py_ssize_t index
        if links.take_base(base, &found):
            known = &found
        if first is not None:
            links.take(first)
        for index in range(self.texts.count):
            if self.flags[index] & FOLLOW and not (is_own and self.texts.length(index) == 0):
                links.resolve(self.texts.start(index), self.texts.length(index), known, slow)
        links.followed = links.texts.count
        for index in range(self.texts.count):
            if not self.flags[index] & FOLLOW and not (is_own and self.texts.length(index) == 0):
                links.resolve(self.texts.start(index), self.texts.length(index), known, slow)
        return links


cdef class LinkColumns:
    """The links of a page: distinct normal forms in one buffer, and columns beside them. A sequence of their texts.

    `links.Listed` is the same for a list of texts.
    """

    cdef Texts texts
    cdef Texts origins_
    cdef int32_t* origin  # of each link, its index in origins_
    cdef Py_ssize_t most
    cdef readonly Py_ssize_t followed  # so many come first that the page does not mark

    def __cinit__(self):
        self.texts = Texts()
        self.origins_ = Texts()

    def __dealloc__(self):
        PyMem_Free(self.origin)

    cdef bint take_base(self, str base, Base* found) except -1:
        """Whether the base is plain. `found` is good for as long as the base itself."""
        cdef Py_ssize_t length, size, end = 0
        cdef bytes_t at
        if not base.isascii():
            return False
        at = <bytes_t>PyUnicode_AsUTF8AndSize(base, &length)
        while end < length and at[end] != c"?" and at[end] != c"#":
            end += 1
        self.texts.reserve(end + 16)
        size = join(at, at + end, NULL, self.texts.buffer)
        if size != end or memcmp(self.texts.buffer, at, end) != 0:
            return False
        found.at = at
        found.scheme = 5 if at[4] == c":" else 6
        found.origin = found.scheme + 2
        while at[found.origin] != c"/":
            found.origin += 1
        found.path = found.directory = end
        while at[found.directory - 1] != c"/":
            found.directory -= 1
        return True

    cdef int resolve(self, bytes_t at, Py_ssize_t length, const Base* base, slow) except -1:
        cdef Py_ssize_t size
        self.texts.reserve(length + (base.path if base != NULL else 0) + 16)
        size = join(at, at + length, base, self.texts.buffer + self.texts.used)
        if size >= 0:
            return self.settle(size)
        found = slow(PyUnicode_DecodeUTF8(<const char*>at, length, NULL))
        return 0 if found is None else self.take(found)

    cdef int take(self, str url) except -1:
        cdef Py_ssize_t length
        cdef bytes_t at = <bytes_t>PyUnicode_AsUTF8AndSize(url, &length)
        self.texts.reserve(length)
        memcpy(self.texts.buffer + self.texts.used, at, length)
        return self.settle(length)

    cdef int settle(self, Py_ssize_t length) except -1:
        """Adds the link that was written behind the last text, unless it is known."""
        cdef Py_ssize_t before = self.texts.count
        cdef Py_ssize_t index = self.texts.settle(length), last
        cdef bytes_t at = self.texts.start(index)
        cdef bytes_t end
        cdef void* moved
        if index < before:
            return 0
        if index >= self.most:
            moved = PyMem_Realloc(self.origin, (2 * self.most + 32) * sizeof(int32_t))
            if moved == NULL:
                raise MemoryError
            self.origin = <int32_t*>moved
            self.most = 2 * self.most + 32
        end = <bytes_t>memchr(at + 8, c"/", length - 8) if length > 8 else NULL
        if end == NULL:
            raise ValueError("not the normal form of a URL")
        if index:  # most links lead to where the one before does
            last = self.origin[index - 1]
            if self.origins_.length(last) == end - at and memcmp(self.origins_.start(last), at, end - at) == 0:
                self.origin[index] = <int32_t>last
                return 0
        self.origin[index] = <int32_t>self.origins_.add(at, end - at)
        return 0

    def __len__(self):
        return self.texts.count

    def __getitem__(self, Py_ssize_t index):
        if not 0 <= index < self.texts.count:
            raise IndexError(index)
        return self.texts.text(index)

    def __iter__(self):
        return (self.texts.text(index) for index in range(self.texts.count))

    @property
    def chars(self):
        """The length of all texts."""
        return self.texts.used

    @property
    def origins(self):
        """Distinct origins."""
        return [self.origins_.text(index) for index in range(self.origins_.count)]

    @property
    def origin_of(self):
        """The index of each link's origin."""
        return column(self.origin, self.texts.count * sizeof(int32_t), np.int32)

    def keys(self):
        cdef Py_ssize_t index, count = self.texts.count
        cdef uint64_t key
        cdef list high = [host_part(self.origins_.text(index)) for index in range(self.origins_.count)]
        cdef bytearray found = bytearray(count * sizeof(uint64_t))
        cdef uint64_t* into = <uint64_t*><char*>found
        for index in range(count):
            key = xxh3_64_intdigest(PyBytes_FromStringAndSize(<char*>self.texts.start(index), self.texts.length(index)))
            key = (key & LOW) | <uint64_t>high[self.origin[index]]
            into[index] = key if key else 1
        return np.frombuffer(found, np.uint64)

    def traps(self, limits not None):
        """For each link why we do not follow it, as `url.trap`: its place in `url.TRAPS`."""
        return self.judged(limits, PLACES, bytes(self.origins_.count))

    def judged(self, limits not None, bytes codes not None, bytes outside not None):
        """For each link the code that `outside` has for its origin, or where that is 0 the code of its trap."""
        cdef Py_ssize_t index, count = self.texts.count
        cdef Py_ssize_t longest = limits.url_bytes, segments = limits.path_segments, repeats = limits.path_repeats
        cdef bytearray found = bytearray(count)
        cdef uint8_t* into = <uint8_t*><char*>found
        cdef bytes ports = bytes([is_bad_port(self.origins_.text(index)) for index in range(self.origins_.count)])
        cdef Py_ssize_t origin, length
        cdef int judged
        if <Py_ssize_t>len(codes) <= max(LENGTH, PORT, TRAP) or <Py_ssize_t>len(outside) < self.origins_.count:
            raise ValueError("a code is missing")
        for index in range(count):
            origin = self.origin[index]
            length = self.texts.length(index)
            if outside[origin]:
                into[index] = outside[origin]
            elif length > longest:
                into[index] = codes[LENGTH]
            elif ports[origin]:
                into[index] = codes[PORT]
            else:
                judged = is_trap(
                    self.texts.start(index) + self.origins_.length(origin), length - self.origins_.length(origin),
                    segments, repeats,
                )
                if judged < 0:
                    judged = trap(self.texts.text(index), limits) == "trap"
                into[index] = codes[TRAP if judged else 0]
        return np.frombuffer(found, np.uint8)

    def enter(self, dict into not None, keys not None):
        """Adds texts by their keys, of those keys that are new. Returns how many are, and their length."""
        cdef Py_ssize_t index = 0, new = 0, chars = 0
        for key in keys.tolist():
            if key not in into:
                into[key] = self.texts.text(index)
                new += 1
                chars += self.texts.length(index)
            index += 1
        return new, chars


cdef column(void* at, Py_ssize_t size, dtype):
    return np.frombuffer(PyBytes_FromStringAndSize(<char*>at, size), dtype)


cdef bint is_bad_port(str origin):
    colon = origin.rfind(":", 8)
    return colon >= 0 and not origin.endswith("]") and int(origin[colon + 1 :]) in BAD_PORTS


cdef int is_trap(bytes_t p, Py_ssize_t length, Py_ssize_t most, Py_ssize_t repeats) noexcept nogil:
    """Whether a path has too many segments, or too many that are the same; -1 if they are too many to compare here."""
    cdef bytes_t[33] starts
    cdef uint16_t[33] sizes
    cdef bytes_t end = <bytes_t>memchr(p, c"?", length)
    cdef Py_ssize_t slashes = 0, i, k, same
    if end == NULL:
        end = p + length
    while p < end:
        if p[0] == c"/":
            slashes += 1
            if slashes <= MOST_SEGMENTS:
                starts[slashes - 1] = p + 1
        p += 1
    if slashes > most:
        return 1
    if slashes <= repeats + 1:
        return 0
    if slashes > MOST_SEGMENTS:
        return -1
    for i in range(slashes):
        same = (starts[i + 1] - 1 if i + 1 < slashes else end) - starts[i]
        if same > 65535:
            return -1
        sizes[i] = <uint16_t>same
    for i in range(slashes - repeats - 1):
        same = 1
        for k in range(i + 1, slashes):
            if sizes[k] == sizes[i] and memcmp(starts[k], starts[i], sizes[i]) == 0:
                same += 1
        if same > repeats + 1:
            return 1
    return 0
