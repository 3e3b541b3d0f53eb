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


FAMILIES = [random, counts]
