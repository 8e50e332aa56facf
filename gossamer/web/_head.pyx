# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Header blocks in compiled code: the fields of an answer are found in one pass, and become text when somebody asks.

Most blocks are plain: no folded lines, no NUL, not many fields. The others are left to `http.Headers`, which gives the same
(tests/unit/test_http.py).
"""

from libc.string cimport memchr, memset

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    str PyUnicode_DecodeLatin1(const char* at, Py_ssize_t size, const char* errors)

ctypedef const unsigned char* bytes_t

cdef enum:
    MOST = 48  # fields of a plain block

cdef struct Field:
    bytes_t name
    bytes_t value
    Py_ssize_t name_length
    Py_ssize_t value_length

cdef unsigned char[256] LOWER  # of the characters that a name may have (RFC 9110 section 5.6.2); 0: of no others


cdef void prepare():
    cdef int c
    memset(LOWER, 0, 256)
    for c in b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz":
        LOWER[c] = c
    for c in b"ABCDEFGHIJKLMNOPQRSTUVWXYZ":
        LOWER[c] = c + 32


prepare()


cdef inline bint is_space(unsigned char c) noexcept nogil:
    return c == c" " or c == c"\t" or c == c"\r"


cdef class PlainHeaders:
    """The same as `http.Headers`, of a block that `is_plain`; of others nothing."""

    cdef bytes raw  # which the fields point into
    cdef Field[MOST] fields
    cdef Py_ssize_t count
    cdef readonly bint is_plain

    def __cinit__(self, bytes raw not None):
        cdef bytes_t start = raw
        self.raw = raw
        self.is_plain = self.read(start, len(raw))

    cdef bint read(self, bytes_t p, Py_ssize_t size) noexcept:
        cdef bytes_t end = p + size
        cdef bytes_t line_end
        cdef bytes_t name
        cdef bytes_t last
        cdef Field* field
        if size and memchr(p, 0, size) != NULL:
            return False
        while p < end:
            line_end = <bytes_t>memchr(p, c"\n", end - p)
            if line_end == NULL:
                line_end = end
            if p[0] == c" " or p[0] == c"\t":
                return False
            name = p
            while p < line_end and LOWER[p[0]]:
                p += 1
            last = p
            while p < line_end and is_space(p[0]):
                p += 1
            if last > name and p < line_end and p[0] == c":":
                if self.count == MOST:
                    return False
                field = &self.fields[self.count]
                self.count += 1
                field.name = name
                field.name_length = last - name
                p += 1
                while p < line_end and is_space(p[0]):
                    p += 1
                last = line_end
                while last > p and is_space((last - 1)[0]):
                    last -= 1
                field.value = p
                field.value_length = last - p
            p = line_end + 1
        return True

    cdef bint is_called(self, Py_ssize_t place, bytes_t name, Py_ssize_t length) noexcept:
        cdef Field* field = &self.fields[place]
        cdef Py_ssize_t i
        if field.name_length != length:
            return False
        for i in range(length):
            if LOWER[field.name[i]] != name[i]:
                return False
        return True

    cdef str value(self, Py_ssize_t place):
        cdef Field* field = &self.fields[place]
        cdef str text = PyUnicode_DecodeLatin1(<const char*>field.value, field.value_length, NULL)
        return text.replace("\r", " ") if "\r" in text else text

    def get(self, str name not None, str default=""):
        cdef Py_ssize_t length = 0, place
        cdef bytes_t wanted = <bytes_t>PyUnicode_AsUTF8AndSize(name, &length)
        for place in range(self.count):
            if self.is_called(place, wanted, length):
                return self.value(place)
        return default

    def get_all(self, str name not None):
        cdef Py_ssize_t length = 0, place
        cdef bytes_t wanted = <bytes_t>PyUnicode_AsUTF8AndSize(name, &length)
        cdef list found = []
        for place in range(self.count):
            if self.is_called(place, wanted, length):
                found.append(self.value(place))
        return found

    def __iter__(self):
        cdef Py_ssize_t place
        cdef list found = []
        for place in range(self.count):
            name = PyUnicode_DecodeLatin1(<const char*>self.fields[place].name, self.fields[place].name_length, NULL)
            found.append((name.lower(), self.value(place)))
        return iter(found)

    def __len__(self):
        return self.count
