"""Gradlab's codecs in this process, by its C library."""
import ctypes
import json
import os

ABI = 2
FILE = "libgradlab.so"  # not gradlab.so, which Python would take for this package
BUILD = "CGO_ENABLED=1 go build -buildmode=c-shared -o libgradlab.so ./compress/hook/clib"

_library = None


def library():
    """The C library: GRADLAB_LIBRARY, or libgradlab.so beside this file or where one is now."""
    global _library
    if _library is None:
        tried = [os.environ.get("GRADLAB_LIBRARY"), os.path.join(os.path.dirname(os.path.abspath(__file__)), FILE), os.path.abspath(FILE)]
        found = [path for path in tried if path and os.path.exists(path)]
        if not found:
            raise ImportError("gradlab's C library is not at %s. In a checkout of gradlab, build it with\n  %s\nand name it by GRADLAB_LIBRARY."
                              % (", ".join(path for path in tried if path), BUILD))
        lib = ctypes.CDLL(found[0])
        for name in ("gradlab_close", "gradlab_free"):
            getattr(lib, name).restype = None
        lib.gradlab_free.argtypes, lib.gradlab_close.argtypes = [ctypes.c_void_p], [ctypes.c_int64]
        lib.gradlab_abi.restype = ctypes.c_int64
        if lib.gradlab_abi() != ABI:
            raise ImportError("%s has version %d of the interface, this package wants %d: build it anew with\n  %s" % (found[0], lib.gradlab_abi(), ABI, BUILD))
        _library = lib
    return _library


I64, F64, PTR, TEXT = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p, ctypes.c_char_p


class Error(RuntimeError):
    """What the library refused."""


# What there is to do about a gradient that is not finite.
SKIPPED = ". Where a GradScaler skips such steps, tell of it: scaler="


class NotFinite(Error):
    """NaN or Inf in a gradient, or in a sum of them."""


def call(name, *args):
    """Calls a function whose last argument is the place for an error."""
    f, text = getattr(library(), name), PTR()
    f.restype = I64
    n = f(*args, ctypes.byref(text))
    if n < 0:
        raise (NotFinite if n == -2 else Error)(_taken(text, None))
    return n


def _taken(p, n):
    b = ctypes.string_at(p.value, n) if n is not None else ctypes.string_at(p.value)
    library().gradlab_free(p)
    return b if n is not None else b.decode()


def bytes_of(name, *args):
    """Calls a function that puts bytes to its last argument but one."""
    out = PTR()
    n = call(name, *args, ctypes.byref(out))
    return _taken(out, n)


def spec(codec):
    """A codec's spec text with all its options."""
    return bytes_of("gradlab_spec", TEXT(codec.encode())).decode()


def claims(codec, rows, cols):
    """What a codec guarantees on a tensor of so many elements."""
    return json.loads(bytes_of("gradlab_claims", TEXT(codec.encode()), I64(rows), I64(cols)))


class Codec:
    """A codec of one tensor of rows by cols float32 values (a vector is 1 by n)."""

    def __init__(self, codec, rows, cols, name="tensor", role="", rank=0, world=1, seed=0):
        self.size = rows * cols
        self.id = call("gradlab_codec", TEXT(codec.encode()), TEXT(name.encode()), TEXT(role.encode()), I64(rows), I64(cols),
                       I64(rank), I64(world), ctypes.c_uint64(seed))

    def encode(self, g, step=0, epoch=0.0, lr=0.0):
        """The payload of g, a contiguous float32 array; g is not changed."""
        return bytes_of("gradlab_encode", I64(self.id), _floats(g), I64(g.size), I64(step), F64(epoch), F64(lr))

    def add_to(self, dst, payload, scale=1.0, rank=0, step=0):
        """Adds scale times what a payload of a rank and step stands for to dst."""
        call("gradlab_decode", I64(self.id), _floats(dst), I64(dst.size), ctypes.c_float(scale), payload, I64(len(payload)), I64(rank), I64(step))

    def __del__(self):
        if _library is not None and hasattr(self, "id"):
            _library.gradlab_close(self.id)


def _floats(a):
    if a.dtype.str != "<f4" or not a.flags.c_contiguous:
        raise TypeError("a contiguous array of float32 is wanted, not %s" % (a.dtype,))
    return PTR(a.ctypes.data)
