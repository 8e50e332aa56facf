"""This module names the types of NumPy arrays: the number is the width in bits of one element."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]
U16 = NDArray[np.uint16]
U8 = NDArray[np.uint8]
Bools = NDArray[np.bool_]
Indices = NDArray[np.intp]  # positions in another array
Integers = NDArray[np.integer]  # of any width
Unsigned = NDArray[np.unsignedinteger[Any]]
Strings = NDArray[np.str_]
Generic = NDArray[np.generic]
Rows = NDArray[np.void]  # of a table in `columns.py`

Keys = U64  # of pages: 24 bits of the host, then 40 of the URL
HostKeys = U32
AnyKeys = Unsigned  # of pages, hosts or domains: a table is sorted by them
