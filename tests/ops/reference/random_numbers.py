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


FAMILIES = [random]
