"""Fourier transforms and spectra of frames (PyTorch), windows and mel weights (ONNX)."""

import numpy as np
import torch

from common import *

NORMS = ["backward", "ortho", "forward"]
def parts(x):
    return torch.view_as_real(x.resolve_conj())


def z(shape, dtype="f64"):
    return torch.view_as_complex(rand([*shape, 2]).contiguous())


def transforms():
    sizes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 30, 37]
    for n in sizes:
        for inverse in [False, True]:
            x = z((2, n))
            norm = NORMS[(n + inverse) % 3]
            out = (torch.fft.ifft if inverse else torch.fft.fft)(x, norm=norm)
            case("fft", [parts(x)], [parts(out)], {"axis": 1, "inverse": inverse, "norm": norm}, 16, n < 9, floor=4)
        x = rand((2, n))
        norm = NORMS[n % 3]
        out = torch.fft.rfft(x, norm=norm)
        case("rfft", [x], [parts(out)], {"axis": 1, "norm": norm}, 16, n < 9, floor=4)
        weights = torch.full((n // 2 + 1,), 2.0)
        weights[0] = 1
        if n % 2 == 0:
            weights[-1] = 1
        case("rfft", [x], [parts(out * weights)], {"axis": 1, "norm": norm, "adjoint": True}, 16, n < 5, floor=4)
        y = z((2, n // 2 + 1))
        attrs = {"axis": 1, "n": n, "norm": norm}
        case("irfft", [parts(y)], [torch.fft.irfft(y, n, norm=norm)], attrs, 16, n < 9, floor=4)
        case("irfft", [parts(y)], [torch.fft.irfft(y / weights, n, norm=norm)], {**attrs, "adjoint": True}, 16, n < 5, floor=4)
    # Axes, numbers of lines about those of a vector, f32.
    for shape, axis in [((6, 3), 0), ((4, 5, 3), 1), ((3, 17), 0), ((16, 4), 0), ((19, 6), 1), ((2, 0, 3), 2), ((0, 4), 1), ((5,), 0)]:
        for dtype in ["f64", "f32"]:
            x, r = z(shape), rand(shape)
            grad = dtype == "f64" and r.numel() in (18, 5)

            def narrow(t):
                return cast(t, dtype)

            # Runtimes of ONNX are less exact in f32.
            near = {"tol": 16, "floor": 4} if dtype == "f64" else {"tol": 4, "floor": 16}
            out = torch.from_numpy(np.fft.fft(x.numpy(), axis=axis))
            case("fft", [narrow(parts(x))], [narrow(parts(out))], {"axis": axis}, grad=grad, **near)
            out = torch.from_numpy(np.fft.rfft(r.numpy(), axis=axis))
            case("rfft", [narrow(r)], [narrow(parts(out))], {"axis": axis}, grad=grad, **near)
            n = shape[axis]
            case("irfft", [narrow(parts(out))], [narrow(r)], {"axis": axis, "n": n}, **near)
    # The imaginary parts that do not count.
    y = z((4,))
    case("irfft", [parts(y)], [torch.fft.irfft(y, 6)], {"axis": 0, "n": 6}, 16, True, floor=4)


def functions():
    fft = torch.fft
    for n, axis, norms in [(None, -1, NORMS), (3, 0, ["ortho"]), (6, 1, ["forward"]), (1, -1, ["backward"]), (4, -2, ["forward"])]:
        for norm in norms:
            attrs = {"n": n, "axis": axis, "norm": norm}
            x, r = z((3, 4)), rand((3, 4))
            grad = True
            for name in ["fft", "ifft"]:
                out = getattr(fft, name)(x, n, axis, norm)
                function_case(name + " fn", [parts(x)], [parts(out)], attrs, 32, grad, floor=4)
            for name in ["rfft", "ihfft"]:
                out = getattr(fft, name)(r, n, axis, norm)
                function_case(name + " fn", [r], [parts(out)], attrs, 32, grad, floor=4)
            for name in ["irfft", "hfft"]:
                if n == 1 and name == "hfft":
                    continue
                out = getattr(fft, name)(x, n, axis, norm)
                function_case(name + " fn", [parts(x)], [out], attrs, 32, grad, floor=4)
    for dtype in ["f16", "bf16", "i32", "bool", "u8", "f32"]:
        r = any_tensor((2, 6), dtype)
        x = r.double()
        case("fft real fn", [r], [parts(fft.fft(x)).float()], {}, 16, floor=8)
        case("rfft fn", [r], [parts(fft.rfft(x)).float()], {"n": None, "axis": -1, "norm": "backward"}, 16, floor=8)
        case("irfft real fn", [r], [fft.irfft(x).float()], {}, 16, floor=8)
    x, r = z((2, 3, 4)), rand((2, 3, 4))
    for sizes, axes in [([], []), ([2, 6], []), ([], [0, 2]), ([4, -1], [-1, 0]), ([3, 3], [1, 2]), ([], [1])]:
        for norm in (NORMS[1:2] if sizes else NORMS[:1]):
            attrs = {"sizes": sizes, "axes": axes, "norm": norm}
            given = (sizes or None, axes or None, norm)
            grad = len(axes) != 1
            for name in ["fftn", "ifftn"]:
                case(name + " fn", [parts(x)], [parts(getattr(fft, name)(x, *given))], attrs, 32, grad, floor=8)
            case("rfftn fn", [r], [parts(fft.rfftn(r, *given))], attrs, 32, grad, floor=8)
            case("irfftn fn", [parts(x)], [fft.irfftn(x, *given)], attrs, 32, grad, floor=8)
    for name in ["fft2", "ifft2"]:
        case(name + " fn", [parts(x)], [parts(getattr(fft, name)(x))], {}, 32, floor=8)
    case("rfft2 fn", [r], [parts(fft.rfft2(r))], {}, 32, floor=8)
    case("irfft2 fn", [parts(x)], [fft.irfft2(x)], {}, 32, floor=8)


def shifts():
    for shape, axes in [((5,), []), ((4, 3), []), ((4, 3), [1]), ((2, 3, 4), [0, -1]), ((0, 2), []), ((), []), ((1,), [0])]:
        for dtype in ["f64", "i32"]:
            x = any_tensor(shape, dtype)
            grad = dtype == "f64" and x.numel() > 0
            dims = axes if axes else None
            if shape != ():
                case("fftshift fn", [x], [torch.fft.fftshift(x, dims)], {"axes": axes}, 0, grad)
                case("ifftshift fn", [x], [torch.fft.ifftshift(x, dims)], {"axes": axes}, 0, grad)
    x = z((3, 4))
    case("complex fftshift fn", [parts(x)], [parts(torch.fft.fftshift(x, [-1]))], {"axes": [-1]}, 0, True)
    case("complex fftshift fn", [parts(x)], [parts(torch.fft.fftshift(x))], {"axes": []}, 0)
    for n in [1, 2, 5, 8]:
        for d in [1, 0.25]:
            for dtype in ["f64", "f32"]:
                case("fftfreq fn", [], [cast(torch.fft.fftfreq(n, d), dtype)], {"n": n, "d": d, "dtype": dtype}, 2)
                case("rfftfreq fn", [], [cast(torch.fft.rfftfreq(n, d), dtype)], {"n": n, "d": d, "dtype": dtype}, 2)


def frames():
    def attrs_of(n_fft, **more):
        return {"n_fft": n_fft, **{k: v for k, v in more.items() if v is not None}}

    x = rand((2, 23))
    window = torch.hann_window(8) + 0.1
    for n_fft, hop, win, center, mode, normalized, onesided in [
            (8, None, None, True, "reflect", False, None), (8, 3, None, False, "reflect", True, None),
            (8, 2, 6, True, "constant", False, False), (7, 3, 4, True, "replicate", False, True),
            (6, 6, None, True, "circular", True, False), (23, 1, None, False, "reflect", False, None)]:
        w = window[:win or n_fft] if n_fft <= 8 else None
        out = torch.stft(x, n_fft, hop, win, w, center, mode, normalized, onesided, return_complex=True)
        attrs = attrs_of(n_fft, hop=hop, win=win, center=center, mode=mode, normalized=normalized, onesided=onesided)
        function_case("stft fn", [x, w], [parts(out)], attrs, 64, n_fft < 9, floor=8 if n_fft < 9 else 40)
    out = torch.stft(x[0], 5, 2, window=torch.ones(5), return_complex=True)
    case("stft fn", [x[0], None], [parts(out)], attrs_of(5, hop=2), 32, True, floor=8)
    c = z((19,))
    w = z((6,))
    for given in [torch.ones(6), w]:
        out = torch.stft(c, 6, 2, window=given, return_complex=True)
        wide = torch.complex(given, torch.zeros(6)) if not given.is_complex() else given
        case("complex stft fn", [parts(c), parts(wide)], [parts(out)], attrs_of(6, hop=2), 64, True, floor=8)
    for n_fft, hop, win, center, normalized, onesided, length in [
            (8, None, None, True, False, None, None), (8, 3, None, False, True, None, None),
            (8, 2, 6, True, False, False, 12), (7, 3, 5, True, False, True, None), (6, 2, None, True, True, None, 9),
            (8, 2, None, True, False, None, 22)]:
        w = window[:win or n_fft]
        rows = n_fft if onesided is False else n_fft // 2 + 1
        y = z((2, rows, 6))
        out = torch.istft(y, n_fft, hop, win, w, center, normalized, onesided, length)
        attrs = attrs_of(n_fft, hop=hop, win=win, center=center, normalized=normalized, onesided=onesided, length=length)
        case("istft fn", [parts(y), w], [out], attrs, 256, n_fft < 8, floor=8)
    y = z((5, 4))
    case("istft fn", [parts(y), None], [torch.istft(y, 8, 3, window=torch.ones(8))], attrs_of(8, hop=3), 64, True, floor=8)
    y = z((2, 6, 5))
    out = torch.istft(y, 6, 2, window=torch.ones(6), onesided=False, return_complex=True, length=11)
    case("istft complex fn", [parts(y)], [parts(out)], attrs_of(6, hop=2, length=11), 64, True, floor=8)


def windows():
    for size in [0, 1, 2, 7]:
        for periodic in [True, False]:
            for beta in [12.0, 0.0, 3.5, 40.0]:
                out = torch.kaiser_window(size, periodic, beta)
                for dtype in ["f64", "f32"]:
                    case("kaiser fn", [], [cast(out, dtype)], {"size": size, "periodic": periodic, "beta": beta, "dtype": dtype}, 64, floor=1e-3)
    for bins, length, rate, low, high in [(4, 16, 8192, 0.0, 4096.0), (2, 16, 8000, 300.0, 2000.0), (6, 15, 8000, 0.0, 3900.0), (0, 8, 8000, 0.0, 100.0)]:
        for dtype in ["f32", "f64"]:
            out = evaluate("MelWeightMatrix", [np.int64(bins), np.int64(length), np.int64(rate), np.float64(low), np.float64(high)],
                           output_datatype=11)[0]
            case("mel fn", [], [cast(out, dtype)], {"bins": bins, "length": length, "rate": rate, "low": low, "high": high, "dtype": dtype}, 4)


FAMILIES = [transforms, functions, shifts, frames, windows]
