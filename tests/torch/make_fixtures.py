#!/usr/bin/env python3
"""Makes the .safetensors files beside it: what PyTorch computes for layers and optimizers, in f32.

Needs the packages torch and safetensors. Names are case/what: state/..., in/..., out/..., grad/...
(the derivatives of sum(out * weights)).
"""

import pathlib

import torch
from safetensors.torch import save_file
from torch import nn, optim

HERE = pathlib.Path(__file__).parent / "fixtures"


def put(into, prefix, tensors):
    for name, tensor in tensors.items():
        into[f"{prefix}/{name}"] = tensor.detach().clone().contiguous()


def layers():
    torch.manual_seed(0)
    made = {}

    def case(name, layer, *inputs, after=False):
        put(made, f"{name}/state", dict(layer.state_dict()))
        put(made, f"{name}/in", {str(i): x for i, x in enumerate(inputs)})
        inputs = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
        out = layer(*inputs) if len(inputs) < 3 else layer(inputs[0], tuple(inputs[1:]))
        outs = out if isinstance(out, tuple) else (out,)
        weights = [torch.randn_like(o) for o in outs]
        sum((o * w).sum() for o, w in zip(outs, weights)).backward()
        put(made, f"{name}/out", {str(i): o for i, o in enumerate(outs)})
        put(made, f"{name}/weights", {str(i): w for i, w in enumerate(weights)})
        grads = {n: p.grad for n, p in layer.named_parameters()}
        grads |= {f"in{i}": x.grad for i, x in enumerate(inputs) if x.is_floating_point()}
        put(made, f"{name}/grad", grads)
        if after:
            put(made, f"{name}/after", dict(layer.state_dict()))

    case("linear", nn.Linear(5, 3), torch.randn(2, 4, 5))
    case("linear_no_bias", nn.Linear(5, 3, bias=False), torch.randn(4, 5))
    case("conv", nn.Conv2d(2, 4, (3, 2)), torch.randn(2, 2, 7, 6))
    case("conv_grouped", nn.Conv2d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2),
         torch.randn(2, 4, 9, 8))
    case("batch_norm", nn.BatchNorm2d(3), torch.randn(4, 3, 5, 2) * 2 + 1, after=True)
    trained = nn.BatchNorm2d(3)
    trained(torch.randn(4, 3, 5, 2) * 2 + 1)
    nn.init.normal_(trained.weight)
    nn.init.normal_(trained.bias)
    case("batch_norm_eval", trained.eval(), torch.randn(2, 3, 5, 2))
    norm = nn.LayerNorm((3, 4))
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    case("layer_norm", norm, torch.randn(2, 3, 4))
    case("embedding", nn.Embedding(7, 3), torch.tensor([[0, 6, 2], [2, 2, 5]]))
    case("lstm_cell", nn.LSTMCell(3, 4), torch.randn(2, 3), torch.randn(2, 4), torch.randn(2, 4))
    case("gru_cell", nn.GRUCell(3, 4), torch.randn(2, 3), torch.randn(2, 4))
    case("relu", nn.ReLU(), torch.randn(3, 4))
    case("tanh", nn.Tanh(), torch.randn(3, 4))
    case("sigmoid", nn.Sigmoid(), torch.randn(3, 4))
    case("gelu", nn.GELU(), torch.randn(3, 4))
    case("gelu_tanh", nn.GELU(approximate="tanh"), torch.randn(3, 4))
    case("silu", nn.SiLU(), torch.randn(3, 4))
    case("softmax", nn.Softmax(dim=-1), torch.randn(3, 4))
    case("log_softmax", nn.LogSoftmax(dim=1), torch.randn(3, 4, 2))
    case("flatten", nn.Flatten(), torch.randn(2, 3, 4))
    case("max_pool", nn.MaxPool2d(3, stride=2, padding=1), torch.randn(2, 3, 7, 6))
    case("avg_pool", nn.AvgPool2d(2), torch.randn(2, 3, 6, 4))
    case("sequential", nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)),
         torch.randn(3, 4))
    save_file(made, HERE / "layers.safetensors")


STEPS = 6


def optimizers():
    torch.manual_seed(1)
    made = {}
    start = {"a": torch.randn(3, 2), "b": torch.randn(4)}
    grads = [{n: torch.randn_like(p) for n, p in start.items()} for _ in range(STEPS)]
    put(made, "start", start)
    for t, step in enumerate(grads):
        put(made, f"grad/{t}", step)
    cases = {
        "sgd": lambda p: optim.SGD(p, lr=0.1),
        "sgd_momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
        "sgd_nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True,
                                            weight_decay=0.01),
        "adam": lambda p: optim.Adam(p, lr=0.01),
        "adam_decay": lambda p: optim.Adam(p, lr=0.01, betas=(0.8, 0.99), eps=1e-6,
                                           weight_decay=0.1),
        "adamw": lambda p: optim.AdamW(p, lr=0.01, weight_decay=0.1),
    }
    for name, make in cases.items():
        parameters = {n: p.clone().requires_grad_() for n, p in start.items()}
        optimizer = make(list(parameters.values()))
        for t, step in enumerate(grads):
            for n, p in parameters.items():
                p.grad = step[n].clone()
            optimizer.step()
            put(made, f"{name}/{t}", parameters)

    for name, limit in {"clip_norm": 1.5, "clip_norm_above": 100.0}.items():
        parameters = {n: p.clone().requires_grad_() for n, p in start.items()}
        for n, p in parameters.items():
            p.grad = grads[0][n].clone()
        norm = nn.utils.clip_grad_norm_(list(parameters.values()), limit)
        put(made, name, {"norm": norm} | {n: p.grad for n, p in parameters.items()})

    schedules = {
        "step": lambda o: optim.lr_scheduler.StepLR(o, 3, gamma=0.5),
        "exponential": lambda o: optim.lr_scheduler.ExponentialLR(o, 0.9),
        "cosine": lambda o: optim.lr_scheduler.CosineAnnealingLR(o, 10, eta_min=0.02),
        "warmup": lambda o: optim.lr_scheduler.LinearLR(o, start_factor=0.25, end_factor=1.0,
                                                        total_iters=4),
    }
    for name, make in schedules.items():
        optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.2)
        schedule = make(optimizer)
        rates = []
        for _ in range(11):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        made[f"schedule/{name}"] = torch.tensor(rates, dtype=torch.float64)
    save_file(made, HERE / "optimizers.safetensors")


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    layers()
    optimizers()
