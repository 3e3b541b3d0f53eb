"""Random numbers: a function of seed and offset."""

from common import *


def philox(key, counter):
    """Philox 4x32-10 (Salmon et al., 2011) of 64-bit key and counter."""
    m = 0xFFFFFFFF
    c = [counter & m, (counter >> 32) & m, 0, 0]
    k = [key & m, (key >> 32) & m]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & m, (p0 >> 32) ^ c[3] ^ k[1], p0 & m]
        k = [(k[0] + 0x9E3779B9) & m, (k[1] + 0xBB67AE85) & m]
    return c


def uniforms(seed, offset, n, dtype):
    out = []
    for i in range(n):
        w = philox(seed, (offset + i) & ((1 << 64) - 1))
        if dtype == "f64":
            out.append(((w[0] << 21) | (w[1] >> 11)) * 2.0 ** -53)
        else:
            bits = {"f32": 24, "f16": 11, "bf16": 8}[dtype]
            out.append((w[0] >> (32 - bits)) * 2.0 ** -bits)
    return torch.tensor(out)


def random():
    set_floor(1)
    for dtype in FLOATS:
        for seed, offset in [(0, 0), (42, 7), (1 << 40, (1 << 33) + 5)]:
            out = uniforms(seed, offset, 12, dtype)
            case("uniform", [torch.tensor(seed), torch.tensor(offset)], [cast(out.reshape(3, 4), dtype)],
                 {"shape": [3, 4], "dtype": dtype}, 0)
            exact = "f64" if dtype == "f64" else "f32"
            u = uniforms(seed, offset, 24, exact)
            z = torch.sqrt(-2 * torch.log(1 - u[:12])) * torch.cos(2 * math.pi * u[12:])
            case("normal", [torch.tensor(seed), torch.tensor(offset)], [cast(z.reshape(3, 4), dtype)],
                 {"shape": [3, 4], "dtype": dtype}, 256)
    u = uniforms(3, 100, 12, "f32")
    for dtype in FLOATS:
        x = rand((3, 4), dtype)
        y = torch.where(u.reshape(3, 4) >= 0.25, wide(x) / 0.75, 0.0)
        case("dropout", [x, torch.tensor(3), torch.tensor(100)], [cast(y, dtype)], {"p": 0.25}, 4,
             dtype == "f64")


def probability(n, rate):
    return math.exp(n * math.log(rate) - rate - math.lgamma(n + 1)) if rate > 0 else float(n == 0)


def poisson(rate, u):
    """The number at u when they are ranged from the most probable one outwards, larger ones first."""
    middle = math.floor(rate)
    u -= probability(middle, rate)
    for step in range(1, 10000):
        if u < 0:
            return middle if step == 1 else last
        for n in (middle + step, middle - step):
            if n >= 0 and u >= 0:
                u -= probability(n, rate)
                last = n
    return middle


def counts():
    for dtype in FLOATS:
        for seed, offset in [(0, 0), (42, 7)]:
            rate = cast(torch.tensor([[0.0, 0.3, 2.5, 7.0], [16.0, 31.25, 100.0, 1000.0]]), dtype)
            u = uniforms(seed, offset, 8, "f64").tolist()
            want = torch.tensor([float(poisson(r, v)) for r, v in zip(rate.double().reshape(-1).tolist(), u)])
            case("poisson", [rate, torch.tensor(seed), torch.tensor(offset)], [cast(want.reshape(2, 4), dtype)], {}, 0, onnx=NEVER)
    rate = torch.tensor([0.3, 2.5, 31.25])
    want = [float(poisson(r, v)) for r, v in zip(rate.tolist(), uniforms(3, 1, 3, "f64").tolist())]
    case("poisson", [rate, torch.tensor(3), torch.tensor(1)], [torch.tensor(want)], {}, 0, True, onnx=NEVER)
    none = torch.zeros(0)
    case("poisson", [none, torch.tensor(1), torch.tensor(2)], [none], {}, 0, onnx=NEVER)


def gamma_number(alpha, seed, place, logarithm):
    """Marsaglia and Tsang, 2000."""
    inner = lambda word: (word + 0.5) * 2.0 ** -32
    shape = alpha + 1 if alpha < 1 else alpha
    d = shape - 1 / 3
    c = 1 / math.sqrt(9 * d)
    for attempt in range(16):
        w = philox(seed, place + attempt)
        z = math.sqrt(-2 * math.log(inner(w[0]))) * math.cos(2 * math.pi * w[1] * 2.0 ** -32)
        v = (1 + c * z) ** 3
        if v > 0 and math.log(inner(w[2])) < z * z / 2 + d - d * v + d * math.log(v):
            break
    log = math.log(d * v) + (math.log(inner(w[3])) / alpha if alpha < 1 else 0)
    return log if logarithm else math.exp(log)


def binomial_number(n, p, u):
    """The number at u when they are ranged from the most probable one outwards, larger ones first."""
    if p > 0.5:
        return n - binomial_number(n, 1 - p, u)
    chance = lambda k: math.comb(n, k) * p ** k * (1 - p) ** (n - k)
    middle = math.floor((n + 1) * p)
    u -= chance(middle)
    last = middle
    for step in range(1, n + 1):
        for k in (middle + step, middle - step):
            if u >= 0 and 0 <= k <= n:
                u -= chance(k)
                last = k
    return last


def variates():
    alphas = torch.tensor([[0.01, 0.5, 1.0], [2.5, 30.0, 1e6]])
    for dtype in FLOATS:
        for logarithm in [False, True]:
            x = cast(torch.clamp(alphas, max=6e4), dtype)
            want = [gamma_number(a, 42, 7 + 16 * i, logarithm) for i, a in enumerate(wide(x).reshape(-1).tolist())]
            case("standard_gamma", [x, torch.tensor(42), torch.tensor(7)], [cast(torch.tensor(want).reshape(2, 3), dtype)],
                 {"logarithm": logarithm}, 256, onnx=NEVER)
        n = cast(torch.tensor([[0, 1, 10, 20], [100, 100, 50, 7]]).double(), dtype)
        p = cast(torch.tensor([[0.5, 0.25, 0.0, 0.75], [0.03125, 0.5, 0.875, 1.0]]), dtype)
        want = [binomial_number(int(a), b, u) for a, b, u in zip(wide(n).reshape(-1).tolist(), wide(p).reshape(-1).tolist(),
                                                                  uniforms(42, 7, 8, "f64").tolist())]
        case("binomial", [n, p, torch.tensor(42), torch.tensor(7)], [cast(torch.tensor(want).double().reshape(2, 4), dtype)], {}, 0,
             onnx=NEVER)
    none = torch.zeros(0)
    case("standard_gamma", [none, torch.tensor(1), torch.tensor(2)], [none], {"logarithm": False}, 0, onnx=NEVER)
    case("binomial", [none, none, torch.tensor(1), torch.tensor(2)], [none], {}, 0, onnx=NEVER)


FAMILIES = [random, counts, variates]
