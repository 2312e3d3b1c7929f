"""What a cubin's code says, where nothing of CUDA's toolkit is there to read it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

WAIT = 0x82E  #: ACQBULK, in the low 12 bits of an instruction of sm_90 and newer
#: LD, LDG, LDGSTS, ST, STG, ATOM, ATOMG, RED, UBLKCP: what reaches global memory
ACCESSES = frozenset({0x980, 0x381, 0x981, 0xFAE, 0x385, 0x985, 0x386, 0x986, 0x38A, 0x98A, 0x3A8, 0x9A8, 0x98E, 0x3BA})


def waits_first(cubin: bytes) -> bool:
    """Whether every function in a cubin waits before it accesses global memory.

    Pointers are ``__restrict__``, so nothing in CUDA C++ keeps a compiler from moving loads of constant data in front
    of the wait: what it made is looked at.
    """
    codes = list(_texts(cubin))
    return bool(codes) and all(_waits_first(code) for code in codes)


def _waits_first(code: bytes) -> bool:
    for word, _ in struct.iter_unpack("<QQ", code):
        if word & 0xFFF == WAIT:
            return True
        if word & 0xFFF in ACCESSES:
            return False
    return False


def _texts(cubin: bytes) -> Iterator[bytes]:
    """The sections of code of a 64-bit ELF file."""
    (headers,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, headers + i * size) for i in range(count)]
    strings = sections[names][4]
    for name, _, _, _, offset, length in sections:
        if cubin.startswith(b".text.", strings + name):
            yield cubin[offset : offset + length]
