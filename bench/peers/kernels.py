"""Matrix products, convolutions and row reductions, as in bench/kernels.cpp."""
from common import Case, main, median_seconds, row, threads

PRODUCTS = [(128, 512, 784), (1024, 1024, 1024)]
CONVOLUTIONS = [(64, 32, 64, 28), (32, 64, 64, 32)]


def torch_case(system, tuned):
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(threads())
    rows = []

    def add(workload, run, work, unit, expected=None):
        if expected is not None:
            assert abs(run().mean().item() - expected) <= 1e-3 * abs(expected) + 1e-6, workload

        def many(n):
            for _ in range(n):
                run()
        rows.append(row(workload, system, work / median_seconds(many) / 1e9, unit))
    with torch.no_grad():
        for m, n, k in PRODUCTS:
            a, b = torch.rand(m, k), torch.rand(k, n)
            add("matmul %dx%dx%d" % (m, n, k), lambda: a @ b, 2 * m * n * k, "GF/s",
                (a.mean(0) * b.mean(1)).sum().item())
        for batch, cin, out, size in CONVOLUTIONS:
            layout = torch.channels_last if tuned else torch.contiguous_format
            x = torch.ones(batch, cin, size, size).to(memory_format=layout)
            w = torch.full((out, cin, 3, 3), 0.5).to(memory_format=layout)
            assert F.conv2d(x, w, padding=1)[0, 0, size // 2, size // 2].item() == 4.5 * cin
            add("conv 3x3 %d->%d, %dx%d, batch %d" % (cin, out, size, size, batch),
                lambda: F.conv2d(x, w, padding=1), 18 * batch * cin * out * size * size, "GF/s")
        x = torch.rand(4096, 1024)
        weight, bias = torch.ones(1024), torch.zeros(1024)
        size = 4 * x.numel()
        add("softmax [4096,1024]", lambda: torch.softmax(x, -1), 2 * size, "GB/s", 1 / 1024)
        add("layer_norm [4096,1024]", lambda: F.layer_norm(x, (1024,), weight, bias), 2 * size, "GB/s", 0)
        add("sum [4096,1024]", lambda: x.sum(), size, "GB/s", x.double().sum().item())
    return {"rows": rows}


CASES = {
    "pytorch-eager": Case(lambda: torch_case("pytorch-eager", False)),
    "pytorch-eager-tuned": Case(lambda: torch_case("pytorch-eager-tuned", True), keep_memory=True),
}

if __name__ == "__main__":
    main(CASES)
