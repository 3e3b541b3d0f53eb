"""Writes trigonometry.txt, which scalar_trigonometry_test.cpp reads: sines, cosines and tangents of numbers so large that
most of what reduces them modulo pi/2 is bits of pi far behind the point, by mpmath. A line: f32 or f64 (which format
holds the argument), the argument, its sine, cosine and tangent, hexadecimal and of 64 bits.

python tests/ir/data/make_trigonometry.py (needs mpmath)
"""

import pathlib
import random

import mpmath

mpmath.mp.prec = 2400
FORMATS = {"f32": (24, 127), "f64": (53, 1023)}  # bits of a significand, largest exponent


def text(value):
    """Of the nearest number of 64 bits."""
    sign, mantissa, exponent, bits = value._mpf_
    if mantissa == 0:
        return "0x0p+0"
    if bits > 64:
        mantissa = (mantissa + (1 << (bits - 65))) >> (bits - 64)
        exponent += bits - 64
    return f"{'-' if sign else ''}0x{mantissa:x}p{exponent:+d}"


def nearest_to_multiple(exponent, bits):
    """The significand below 2^bits that comes about as close to a multiple of pi/2 as one of them can, times
    2^exponent: a multiple of the denominator of a convergent of 2^exponent 2/pi."""
    ratio = mpmath.ldexp(2 / mpmath.pi, exponent)
    rest, before, q = ratio - mpmath.floor(ratio), 0, 1
    best = None
    while q < 1 << bits:
        m = q * -(-(1 << (bits - 1)) // q)
        if m < 1 << bits:
            error = abs(m * ratio - mpmath.nint(m * ratio))
            if best is None or error < best[0]:
                best = error, m
        rest = 1 / rest
        whole = int(mpmath.floor(rest))
        rest -= whole
        before, q = q, whole * q + before
    return best[1]


def arguments(name):
    bits, top = FORMATS[name]
    choose = random.Random(bits)
    yield (1 << bits) - 1, top - bits + 1  # the largest
    yield from (((1 << bits) - 1, 40 - bits), (1, 40), ((1 << (bits - 1)) + 1, 41 - bits))  # around 2^40
    if name == "f64":
        yield 6381956970095103, 797  # closest of all to a multiple of pi/2 (Kahan)
        yield int(mpmath.floor(mpmath.mpf(2) ** mpmath.mpf("52.99"))), 971
    step = 1 if name == "f32" else 7
    for exponent in range(39, top + 1, step):
        yield 1, exponent
        yield choose.randrange(1 << (bits - 1), 1 << bits), exponent - bits + 1
        yield -nearest_to_multiple(exponent - bits + 1, bits), exponent - bits + 1


def main():
    lines = []
    for name in FORMATS:
        for mantissa, exponent in arguments(name):
            x = mpmath.ldexp(mantissa, exponent)
            lines.append(" ".join([name] + [text(v) for v in (x, mpmath.sin(x), mpmath.cos(x), mpmath.tan(x))]))
    pathlib.Path(__file__).with_name("trigonometry.txt").write_text("\n".join(lines) + "\n")


main()
