"""Roots, Bessel functions, signs, whole numbers, closeness."""

import math

import mpmath

from common import *
from pointwise import function, pair


def by_mpmath(f):
    def each(x):
        return torch.tensor([math.nan if math.isnan(v) else float(f(mpmath.mpf(v))) for v in x.reshape(-1).tolist()],
                            dtype=torch.float64).reshape(x.shape)
    return each


def cbrt(x):
    return torch.tensor(np.cbrt(x.numpy()))


def sinc(n):
    def f(x):
        # Moved away from multiples of 1/2 before sin() loses them.
        with mpmath.workdps(60):
            if n == 0:
                return mpmath.mpf(1) if x == 0 else mpmath.sinpi(x) / (mpmath.pi * x)
            if abs(x) < 1e-3:
                z, total = mpmath.pi * x, mpmath.mpf(0)
                for k in range((n + 1) // 2, 30):
                    total += (-1) ** k * z ** (2 * k - n) / (mpmath.factorial(2 * k - n) * (2 * k + 1))
                return total * mpmath.pi ** n
            z = mpmath.pi * x
            s = mpmath.sin(z) / z
            for k in range(1, n + 1):
                s = (mpmath.sin(z + k * mpmath.pi / 2) - k * s) / z
            return s * mpmath.pi ** n
    return by_mpmath(f)


def bessel(n, scaled):
    def f(x):
        if mpmath.isinf(x):
            return 0 if scaled else (x if n else abs(x))
        return mpmath.besseli(n, x) * (mpmath.exp(-abs(x)) if scaled else 1)
    return by_mpmath(f)


def functions():
    function("cbrt", cbrt, "0 -0 1 -1 8 -27 2 1e-30 -3e38 inf -inf nan", 0.2, 4, tol=4)
    x = floats_of("5e-324 -1e-310 1.7e308")
    case("cbrt", [x], [cbrt(x)], tol=4)
    x = rand((4,), low=-3, high=-0.2)
    case("cbrt", [x], [cbrt(x)], tol=4, grad=True)
    edges = "0 -0 1 -1 0.5 1e-9 0.3 -2.75 12.3 1e6 1234.625 nan"
    function("sinc", sinc(0), edges, tol=8, floor=0.01, ints=False)
    for n in [1, 2, 5]:
        before = len(cases)
        function("sinc", sinc(n), edges, attrs={"derivative": n}, tol=16, floor=math.pi ** n, ints=False, shapes=n == 1)
        for c in cases[before:]:
            c["onnx"] = NEVER
    x = torch.tensor([0.0, 1e-7, 0.5, 1.0])
    case("sinc fn", [x], [sinc(0)(x)], tol=8, floor=1, grad=True)
    case("sinc fn", [x], [sinc(3)(x)], {"n": 3}, tol=16, floor=31, grad=True, onnx=NEVER)
    edges = "0 -0 1e-8 0.5 -0.5 3 -7.9 8 8.1 20 -60 85 inf -inf nan"
    for n in [0, 1]:
        function(f"i{n}", bessel(n, False), edges, -3, 12, tol=16, floor=0.01)
        function(f"i{n}e", bessel(n, True), edges, -3, 12, tol=16, floor=0.02)
        x = floats_of("500 -700 712")
        case(f"i{n}", [x], [bessel(n, False)(x)], tol=16)
        x = rand((3,), low=7, high=9)
        case(f"i{n}", [x], [bessel(n, False)(x)], tol=16, grad=True)
    pair("copysign", torch.copysign, "0 -0 1 -1 2.5 -3.75 1e-20 3e38 inf -inf", tol=0)
    for dtype in ["f64", "f32"]:
        e = cast(floats_of("0 -0 1 -1 2.5 1e-20 3e38 inf -inf nan"), dtype)
        a, b = e[:, None], e[None, :]
        case("nextafter", [a, b], [torch.nextafter(a, b)], tol=0)
        a, b = rand((3, 1), dtype), rand((4,), dtype)
        case("nextafter", [a, b], [torch.nextafter(a, b)], tol=0, grad=dtype == "f64")
        case("nextafter", [a[:0], b], [torch.nextafter(a[:0], b)], tol=0)
    for dtype in INTS:
        a, b = randint((3, 4), dtype, -100, 100), randint((3, 4), dtype, -100, 100)
        a[0, 0] = b[0, 0] = 0
        a[0, 1] = 0
        case("gcd", [a, b], [torch.gcd(a, b)], tol=0)
        a, b = randint((3, 1), dtype, -11, 11), randint((4,), dtype, -11, 11)
        a[0] = 0
        case("gcd fn", [a, b], [torch.gcd(a, b)], tol=0, onnx=NEVER)
        case("lcm fn", [a, b], [torch.lcm(a, b)], tol=0, onnx=NEVER)
    a, b = torch.tensor([1 << 62, -(1 << 63), 0]), torch.tensor([3 << 40, 6, -(1 << 63)])
    case("gcd", [a, b], [torch.tensor([1 << 40, 2, -(1 << 63)])], tol=0)
    a, b = randint((2,), "i8"), randint((2,), "i32")
    case("gcd fn", [a, b], [torch.gcd(a, b)], tol=0, onnx=NEVER)
    case("gcd", [a[:0], a[:0]], [a[:0]], tol=0)


def of_others():
    e = floats_of("0 -0 1 -1 2.5 -3.75 inf -inf nan")
    for dtype in ["f64", "f32"]:
        x, v = cast(e, dtype), cast(torch.tensor(0.5), dtype)
        case("heaviside fn", [x, v], [cast(torch.tensor([0.5, 0.5, 1, 0, 1, 0, 1, 0, math.nan]), dtype)], tol=0)
    x = torch.tensor([-2, 0, 3])
    case("heaviside fn", [x, torch.tensor(7)], [torch.tensor([0, 7, 1])], tol=0)
    x, v = rand((3, 4)), rand((4,))
    case("heaviside fn", [x, v], [torch.heaviside(x, v)], tol=0, grad=True)
    p = rand((3, 4), low=0.1, high=0.9)
    function_case("logit fn", [p], [torch.logit(p)], {"eps": 0}, 16, True, floor=1)
    function_case("logit fn", [floats_of("0 1 0.5 -0.1 1.2 0.95")],
                  [torch.logit(floats_of("0 1 0.5 -0.1 1.2 0.95"), 0.1)], {"eps": 0.1}, 16, floor=1)
    a, b = rand((3, 1)), rand((4,))
    function_case("logaddexp2 fn", [a, b], [torch.logaddexp2(a, b)], {}, 16, True, floor=1)
    far = floats_of("1000 -1000 inf")
    case("logaddexp2 fn", [far, far], [torch.logaddexp2(far, far)], {}, 16)
    x, y = rand((3, 1)), rand((4,), low=-0.9, high=2)
    function_case("xlog1py fn", [x, y], [torch.special.xlog1py(x, y)], {}, 16, True)
    x, y = floats_of("0 0 0 0 1 2"), floats_of("-1 -2 inf nan 1e-20 -3")
    case("xlog1py fn", [x, y], [torch.special.xlog1py(x, y)], {}, 4)
    p = rand((3, 4), low=0.1, high=2)
    function_case("entr fn", [p], [torch.special.entr(p)], {}, 16, True, floor=1)
    x = floats_of("0 -1 inf nan")
    case("entr fn", [x], [torch.special.entr(x)], {}, 4)
    x = rand((3, 4))
    function_case("ndtr fn", [x], [torch.special.ndtr(x)], {}, 16, True, floor=1)
    x = floats_of("-30 -5 0 9 inf -inf nan")
    case("ndtr fn", [x], [torch.special.ndtr(x)], {}, 64, floor=1)
    x = rand((3, 4), low=-6, high=3)
    function_case("log_ndtr fn", [x], [torch.special.log_ndtr(x)], {}, 64, True, floor=1)
    x = floats_of("-1000 -40 -1 1 9 40 inf nan")
    case("log_ndtr fn", [x], [torch.special.log_ndtr(x)], {}, 64)
    x = rand((3, 4), low=3.1, high=3.9)
    case("frexp fn", [x], [*torch.frexp(x)], {}, 0, True)
    for dtype, tiny in [("f64", 5e-324), ("f32", 1e-45), ("f16", 6e-8), ("bf16", 1e-40)]:
        x = cast(torch.tensor([0.0, -0.0, 1.0, -2.0, 0.75, 1e-3, -300.5, tiny, -3 * tiny, math.inf, -math.inf, math.nan]), dtype)
        y = wide(x)
        mantissa, exponent = torch.frexp(y)
        plain = ~(torch.isfinite(y) & (y != 0))
        case("frexp fn", [x], [torch.where(plain, y, mantissa).to(x.dtype), torch.where(plain, 0, exponent).to(torch.int32)], {}, 0)
    x = rand((3, 4), low=-400, high=400)
    function_case("deg2rad fn", [x], [torch.deg2rad(x)], {}, 4, True)
    function_case("rad2deg fn", [x], [torch.rad2deg(x)], {}, 4, True)
    x, n = rand((3, 1)), torch.tensor([-3, 0, 1, 5])
    function_case("ldexp fn", [x, n], [x * torch.pow(2.0, n)], {}, 4, True)
    a, b = rand((3,), low=0.5, high=3), rand((3,))
    case("float_power fn", [a.float(), b.float()], [torch.float_power(a.float(), b.float())], {}, 16)
    case("float_power fn", [a, b], [torch.float_power(a, b)], {}, 16, True)
    x, a, b = rand((3, 4)), rand((3, 1)), rand((4,), low=0.5, high=2)
    function_case("addcmul fn", [x, a, b], [torch.addcmul(x, a, b, value=1.5)], {"value": 1.5}, 8, True, floor=1)
    function_case("addcdiv fn", [x, a, b], [torch.addcdiv(x, a, b, value=-0.5)], {"value": -0.5}, 8, True, floor=1)
    for dtype in FLOATS:
        x = cast(floats_of("0 -0 1 -1 inf -inf"), dtype)
        case("signbit fn", [x], [torch.signbit(x)], tol=0)
        case("isposinf fn", [x], [torch.isposinf(x)], tol=0)
        case("isneginf fn", [x], [torch.isneginf(x)], tol=0)
    x = torch.tensor([-1, 0, 2])
    case("signbit fn", [x], [torch.signbit(x)], tol=0)
    a, b = floats_of("1 1 1 0 inf inf nan nan 1e9"), floats_of("1 1.00000001 1.1 1e-9 inf -inf nan 1 1e9")
    for equal_nan in [False, True]:
        attrs = {"rtol": 1e-5, "atol": 1e-8, "equal_nan": equal_nan}
        case("isclose fn", [a, b], [torch.isclose(a, b, equal_nan=equal_nan)], attrs, 0)
    attrs = {"rtol": 0.1, "atol": 1, "equal_nan": False}
    a, b = torch.tensor([1, 5, 100]), torch.tensor([[1], [2], [109]])
    case("isclose fn", [a, b], [torch.tensor(np.isclose(a.numpy(), b.numpy(), 0.1, 1))], attrs, 0)
    case("allclose fn", [a, a], [torch.tensor(True)], attrs, 0)
    case("allclose fn", [a, b], [torch.tensor(False)], attrs, 0)
    case("equal fn", [a, a], [torch.tensor(True)], tol=0)
    case("equal fn", [a, a + 1], [torch.tensor(False)], tol=0)
    case("equal fn", [a, a[:2]], [torch.tensor(False)], tol=0)


def bessel_ratios():
    def ratio(n, scaled):
        def f(x):
            if mpmath.isinf(x):
                return 0 if scaled else abs(x)
            value = mpmath.besseli(n, x) / x ** n if x else 1 / (mpmath.mpf(2) ** n * mpmath.factorial(n))
            return value * (mpmath.exp(-abs(x)) if scaled else 1)
        return by_mpmath(f)

    edges = "0 -0 1e-8 1e-3 0.5 -0.5 3 -7.9 8 8.1 20 -60 85 inf -inf nan"
    for n in [1, 2, 3]:
        for scaled in [False, True]:
            function("bessel_ratio", ratio(n, scaled), edges, -3, 12, {"n": n, "scaled": scaled}, tol=32, floor=0.01,
                     ints=False, shapes=n == 1)
    x = torch.tensor([0.0, 1e-6, -0.01, 0.5])
    for n in [0, 1]:
        case(f"i{n}", [x], [bessel(n, False)(x)], tol=16, grad=True)


def bounds():
    """clamp() between tensors; x twice as far as the bounds, and bounds that cross."""
    x, low, high = 2 * rand((3, 4)), rand((3, 4)) - 0.5, rand((4,)) + 0.5
    for a, b in [(low, high), (low, None), (None, high), (high.clone(), low - 1)]:
        function_case("clamp of tensors", [x, a, b], [torch.clamp(x, a, b)], {}, 0, True)
    x, low, high = floats_of("1 nan 2 -inf inf 0.5"), floats_of("0 0 nan -1 1 0.5"), floats_of("0.5 1 3 nan inf 0.5")
    case("clamp of tensors", [x, low, high], [torch.clamp(x, low, high)], {}, 0)
    x, low, high = torch.arange(6), torch.tensor(2), torch.tensor([4, 4, 1, 1, 9, 3])
    case("clamp of tensors", [x, low, high], [torch.clamp(x, low, high)], {}, 0)


def quantiles():
    def ndtri(p):
        if p < 0 or p > 1:
            return mpmath.nan
        if p in (0, 1):
            return mpmath.inf if p else -mpmath.inf
        with mpmath.workdps(40):
            # The nearer end, where logarithms are exact.
            tail = min(p, 1 - p)
            start = -math.sqrt(max(-2 * float(mpmath.log(2 * tail)), 0))
            root = mpmath.findroot(lambda z: mpmath.log(mpmath.ncdf(z)) - mpmath.log(tail), start)
            return root if tail == p else -root

    function("ndtri", by_mpmath(ndtri), "0 -0 1e-300 1e-20 0.075 0.5 0.925 0.9999 1 -1 1.5 nan", 0.02, 0.98, tol=8, floor=0.1,
             ints=False)


FAMILIES = [functions, of_others, bessel_ratios, bounds, quantiles]
