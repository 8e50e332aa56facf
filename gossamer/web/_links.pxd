# cython: language_level=3
"""What the scanner may use of `_links`."""

from libc.stdint cimport int32_t, uint64_t

ctypedef const unsigned char* bytes_t


cdef class Texts:
    cdef unsigned char* buffer  # all texts, one after another
    cdef Py_ssize_t used, room
    cdef Py_ssize_t* ends
    cdef uint64_t* hashes
    cdef Py_ssize_t count, most
    cdef int32_t* slots  # open addressing: index of a text + 1; 0: free
    cdef Py_ssize_t mask

    cdef bytes_t start(self, Py_ssize_t index) noexcept
    cdef Py_ssize_t length(self, Py_ssize_t index) noexcept
    cdef str text(self, Py_ssize_t index)
    cdef int reserve(self, Py_ssize_t more) except -1
    cdef Py_ssize_t settle(self, Py_ssize_t length) except -1
    cdef Py_ssize_t add(self, bytes_t at, Py_ssize_t length) except -1
    cdef int grow(self) except -1


cdef class References:
    cdef Texts texts
    cdef bytearray flags

    cdef int add(self, bytes_t at, Py_ssize_t length, int flag) except -1
