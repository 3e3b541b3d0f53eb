#!/usr/bin/env python3
"""Makes the .safetensors files beside it: what PyTorch computes for layers and optimizers, in f32 (trajectories of
optimizers in f64). Names of functions below make only theirs.

Needs the packages torch and safetensors. Names are case/what: state/..., in/..., out/..., grad/...
(the derivatives of sum(out * weights)).
"""

import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch import nn, optim

HERE = pathlib.Path(__file__).parent / "fixtures"


def put(into, prefix, tensors):
    for name, tensor in tensors.items():
        into[f"{prefix}/{name}"] = tensor.detach().clone().contiguous()


def layer_cases(made):
    """What writes cases of layers into `made`."""

    def case(name, layer, *inputs, after=False, call=None):
        put(made, f"{name}/state", dict(layer.state_dict()))
        put(made, f"{name}/in", {str(i): x for i, x in enumerate(inputs)})
        inputs = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
        out = call(*inputs) if call else layer(*inputs)
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

    return case


def layers():
    torch.manual_seed(0)
    made = {}
    case = layer_cases(made)
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
    lstm_cell = nn.LSTMCell(3, 4)
    case("lstm_cell", lstm_cell, torch.randn(2, 3), torch.randn(2, 4), torch.randn(2, 4),
         call=lambda x, h, c: lstm_cell(x, (h, c)))
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
    case("rnn_cell", nn.RNNCell(3, 4), torch.randn(2, 3), torch.randn(2, 4))
    case("rnn_cell_relu", nn.RNNCell(3, 4, bias=False, nonlinearity="relu"), torch.randn(3), torch.randn(4))
    case("rnn_cell_zeros", nn.RNNCell(3, 4), torch.randn(2, 3))
    case("lstm_cell_zeros", nn.LSTMCell(3, 4), torch.randn(3))
    case("gru_cell_zeros", nn.GRUCell(3, 4), torch.randn(2, 3))
    save_file(made, HERE / "layers.safetensors")


def modules():
    """Layers that move, resample, pad, drop and compare, losses with weights, parametrized layers."""
    torch.manual_seed(4)
    made = {}
    case = layer_cases(made)
    line, image, volume = torch.randn(2, 4, 7), torch.randn(2, 4, 6, 5), torch.randn(1, 4, 3, 4, 2)
    case("pixel_shuffle", nn.PixelShuffle(2), image)
    case("pixel_unshuffle", nn.PixelUnshuffle(3), torch.randn(1, 2, 6, 3))
    case("channel_shuffle", nn.ChannelShuffle(2), image)
    case("upsample", nn.Upsample(scale_factor=2, mode="bicubic"), image)
    case("upsample_size", nn.Upsample(size=9, mode="linear", align_corners=True), line)
    case("upsampling_nearest", nn.UpsamplingNearest2d(size=(9, 4)), image)
    case("upsampling_bilinear", nn.UpsamplingBilinear2d(scale_factor=2), image)
    case("unfold", nn.Unfold((3, 2), dilation=(1, 2), padding=1, stride=2), image)
    case("fold", nn.Fold((5, 4), 2, padding=1, stride=2), torch.randn(2, 8, 9))
    for axes, x in [(1, line), (2, image), (3, volume)]:
        sides = (1, 0, 2, 1, 1, 2)[:2 * axes]
        case(f"constant_pad{axes}", getattr(nn, f"ConstantPad{axes}d")(sides, 0.5), x)
        case(f"zero_pad{axes}", getattr(nn, f"ZeroPad{axes}d")(1), x)
        case(f"reflection_pad{axes}", getattr(nn, f"ReflectionPad{axes}d")(1), x)
        case(f"replication_pad{axes}", getattr(nn, f"ReplicationPad{axes}d")(sides), x)
        case(f"circular_pad{axes}", getattr(nn, f"CircularPad{axes}d")(sides), x)
        case(f"lp_pool{axes}", getattr(nn, f"LPPool{axes}d")(3, 2), x.abs())
        even = x[(slice(None), slice(None), *[slice(n // 2 * 2) for n in x.shape[2:]])]
        pooled, indices = getattr(nn, f"MaxPool{axes}d")(2, return_indices=True)(even)
        case(f"max_unpool{axes}", getattr(nn, f"MaxUnpool{axes}d")(2), pooled, indices)
        case(f"conv{axes}", getattr(nn, f"Conv{axes}d")(4, 6, 2, stride=2, padding=1, groups=2), x)
        case(f"conv_transpose{axes}", getattr(nn, f"ConvTranspose{axes}d")(4, 6, 2, stride=2, padding=1, output_padding=1,
                                                                          groups=2), x)
    for mode in ["reflect", "replicate", "circular"]:
        case(f"conv_{mode}", nn.Conv2d(4, 3, 3, padding=(1, 2), padding_mode=mode), image)
    case("softmax2d", nn.Softmax2d(), image)
    case("softmin", nn.Softmin(dim=1), line)
    case("threshold", nn.Threshold(0.3, -2.0), line)
    case("rrelu", nn.RReLU(0.1, 0.4).eval(), line)
    case("unflatten", nn.Unflatten(1, (2, 2)), line)
    case("dropout2d", nn.Dropout2d(0.4).eval(), image)
    case("alpha_dropout", nn.AlphaDropout(0.4).eval(), line)
    a, b = torch.randn(3, 5), torch.randn(3, 5)
    case("bilinear", nn.Bilinear(5, 4, 3), torch.randn(2, 3, 5), torch.randn(2, 3, 4))
    case("bilinear_no_bias", nn.Bilinear(5, 4, 3, bias=False), torch.randn(3, 5), torch.randn(3, 4))
    case("cosine_similarity", nn.CosineSimilarity(dim=1), a, b)
    case("pairwise_distance", nn.PairwiseDistance(p=3, keepdim=True), a, b)
    case("embedding_max_norm", nn.Embedding(6, 4, max_norm=1.5, norm_type=2), torch.tensor([[0, 2, 2], [5, 0, 1]]),
         after=True)

    target, soft = torch.tensor([4, 0, 2]), torch.rand(3, 5)
    weight, pos_weight = torch.rand(5) + 0.5, torch.rand(5) + 0.5
    sign = torch.where(torch.rand(3, 5) < 0.5, -1.0, 1.0)
    for reduction in ["mean", "sum", "none"]:
        r = {"reduction": reduction}

        def loss(name, layer, x, *rest):
            case(f"{name}/{reduction}", layer, x, call=lambda x: layer(x, *rest))
            put(made, f"{name}/{reduction}/rest", {str(i): t for i, t in enumerate(rest)})

        loss("cross_entropy", nn.CrossEntropyLoss(weight, ignore_index=2, label_smoothing=0.1, **r), a, target)
        loss("cross_entropy_soft", nn.CrossEntropyLoss(weight, **r), a, soft)
        loss("nll", nn.NLLLoss(weight, ignore_index=0, **r), torch.log_softmax(a, 1), target)
        loss("bce", nn.BCELoss(weight, **r), torch.sigmoid(a), soft)
        loss("bce_logits", nn.BCEWithLogitsLoss(weight, pos_weight=pos_weight, **r), a, soft)
        loss("multi_margin", nn.MultiMarginLoss(p=2, margin=0.7, weight=weight, **r), a, target)
        loss("multilabel_margin", nn.MultiLabelMarginLoss(**r), a,
             torch.tensor([[3, 0, -1, 0, 0], [1, 2, 3, -1, 0], [-1, 0, 0, 0, 0]]))
        loss("multilabel_soft_margin", nn.MultiLabelSoftMarginLoss(weight, **r), a, soft)
        loss("triplet_distance", nn.TripletMarginWithDistanceLoss(margin=0.5, swap=True, **r), a, b, soft)
        loss("mse", nn.MSELoss(**r), a, b)
        loss("l1", nn.L1Loss(**r), a, b)
        loss("smooth_l1", nn.SmoothL1Loss(beta=0.7, **r), a, b)
        loss("huber", nn.HuberLoss(delta=0.7, **r), a, b)
        loss("kl_div", nn.KLDivLoss(**r), torch.log_softmax(a, 1), soft)
        loss("poisson_nll", nn.PoissonNLLLoss(full=True, **r), a, soft * 4)
        loss("gaussian_nll", nn.GaussianNLLLoss(full=True, **r), a, b, soft + 0.1)
        loss("hinge_embedding", nn.HingeEmbeddingLoss(margin=0.8, **r), a, sign)
        loss("soft_margin", nn.SoftMarginLoss(**r), a, sign)
        loss("margin_ranking", nn.MarginRankingLoss(margin=0.3, **r), a, b, sign)
        loss("triplet", nn.TripletMarginLoss(margin=0.5, p=3, swap=True, **r), a, b, soft)
        loss("cosine_embedding", nn.CosineEmbeddingLoss(margin=0.2, **r), a, b, sign[:, 0].contiguous())
        loss("ctc", nn.CTCLoss(blank=1, **r), torch.log_softmax(torch.randn(6, 2, 4), 2),
             torch.tensor([[0, 2, 2], [3, 0, 0]]), torch.tensor([6, 5]), torch.tensor([3, 1]))
        # The gradient of the logarithms themselves: PyTorch's is that of what log_softmax was given.
        del made[f"ctc/{reduction}/grad/in0"]

    P = nn.utils.parametrizations
    case("weight_norm", P.weight_norm(nn.Linear(5, 3)), a)
    case("weight_norm_conv", P.weight_norm(nn.Conv2d(4, 3, 2), dim=1), image)
    case("spectral_norm", P.spectral_norm(nn.Linear(5, 3)), a, after=True)
    case("spectral_norm_conv", P.spectral_norm(nn.ConvTranspose2d(4, 3, 2), n_power_iterations=2, dim=1), image, after=True)
    case("spectral_norm_eval", P.spectral_norm(nn.Linear(5, 3)).eval(), a, after=True)
    save_file(made, HERE / "modules.safetensors")


def sequences():
    """Layers of sequences: inputs and outputs by name of the argument."""
    torch.manual_seed(2)
    made = {}

    def case(name, layer, call, **inputs):
        for p in layer.parameters():  # zeros and ones would hide mistakes
            nn.init.normal_(p, std=0.4)
        put(made, f"{name}/state", dict(layer.state_dict()))
        put(made, f"{name}/in", inputs)
        inputs = {n: x.clone().requires_grad_() if x.is_floating_point() else x for n, x in inputs.items()}
        outs = {n: o for n, o in call(layer, **inputs).items() if o is not None}
        weights = {n: torch.randn_like(o) for n, o in outs.items()}
        sum((o * weights[n]).sum() for n, o in outs.items()).backward()
        put(made, f"{name}/out", outs)
        put(made, f"{name}/weights", weights)
        grads = {n: p.grad for n, p in layer.named_parameters() if p.grad is not None}
        grads |= {f"in.{n}": x.grad for n, x in inputs.items() if x.is_floating_point()}
        put(made, f"{name}/grad", grads)

    def recurrent(layer, x, h=None, c=None, lengths=None):
        state = None if h is None else h if c is None else (h, c)
        if lengths is not None:
            x = nn.utils.rnn.pack_padded_sequence(x, lengths, layer.batch_first, enforce_sorted=False)
        y, last = layer(x, state)
        if lengths is not None:
            y = nn.utils.rnn.pad_packed_sequence(y, layer.batch_first)[0]
        return {"y": y, "h": last[0], "c": last[1]} if isinstance(last, tuple) else {"y": y, "h": last}

    lengths = torch.tensor([2, 4, 3])
    for name, kind in [("rnn", nn.RNN), ("lstm", nn.LSTM), ("gru", nn.GRU)]:
        c = {"c": torch.randn(4, 3, 5)} if name == "lstm" else {}
        case(name, kind(6, 5), recurrent, x=torch.randn(4, 3, 6))
        case(f"{name}_deep", kind(6, 5, 2, bidirectional=True, batch_first=True), recurrent,
             x=torch.randn(3, 4, 6), h=torch.randn(4, 3, 5), lengths=lengths, **c)
        case(f"{name}_one", kind(6, 5, bias=False), recurrent, x=torch.randn(4, 6))
    case("rnn_relu", nn.RNN(6, 5, nonlinearity="relu"), recurrent, x=torch.randn(4, 3, 6))
    case("embedding_bag", nn.EmbeddingBag(7, 3, mode="sum", padding_idx=2),
         lambda m, i, offsets, w: {"y": m(i, offsets, w)}, i=torch.tensor([0, 6, 2, 2, 5]),
         offsets=torch.tensor([0, 2, 2]), w=torch.randn(5))

    def attention(layer, q, k=None, v=None, padding=None, mask=None):
        k = q if k is None else k
        out, weights = layer(q, k, k if v is None else v, key_padding_mask=padding, attn_mask=mask,
                             need_weights=True)
        return {"out": out, "weights": weights}

    padding = torch.tensor([[False, False, False, True], [False, True, False, False]])
    case("attention", nn.MultiheadAttention(8, 2), attention, q=torch.randn(4, 2, 8))
    case("attention_masked", nn.MultiheadAttention(8, 2, batch_first=True), attention,
         q=torch.randn(2, 3, 8), k=torch.randn(2, 4, 8), padding=padding,
         mask=torch.tensor([[False, True, False, False]] * 3))
    case("attention_biased", nn.MultiheadAttention(8, 4, bias=False), attention, q=torch.randn(3, 2, 8),
         k=torch.randn(4, 2, 8), mask=torch.randn(8, 3, 4))
    case("attention_widths", nn.MultiheadAttention(8, 2, kdim=5, vdim=3), attention, q=torch.randn(3, 2, 8),
         k=torch.randn(4, 2, 5), v=torch.randn(4, 2, 3))
    case("attention_one", nn.MultiheadAttention(8, 2), attention, q=torch.randn(4, 8))

    causal = nn.Transformer.generate_square_subsequent_mask(4)
    encode = lambda m, x, padding=None: {"y": m(x, mask=causal, src_key_padding_mask=padding)}
    encode_layer = lambda m, x, padding=None: {"y": m(x, src_key_padding_mask=padding)}
    decode = lambda m, x, memory: {"y": m(x, memory, tgt_mask=causal)}
    case("encoder_layer", nn.TransformerEncoderLayer(8, 2, 16, 0.0), encode_layer, x=torch.randn(4, 2, 8))
    case("encoder_layer_first", nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True,
                                                           norm_first=True),
         encode_layer, x=torch.randn(2, 4, 8), padding=padding)
    case("decoder_layer", nn.TransformerDecoderLayer(8, 2, 16, 0.0), decode, x=torch.randn(4, 2, 8),
         memory=torch.randn(3, 2, 8))
    case("encoder", nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0), 2, nn.LayerNorm(8)), encode,
         x=torch.randn(4, 2, 8))
    case("decoder", nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, 0.0, norm_first=True), 2), decode,
         x=torch.randn(4, 2, 8), memory=torch.randn(3, 2, 8))

    def transform(m, x, y, padding=None, mask=None):
        return {"y": m(x, y, tgt_mask=causal, tgt_is_causal=True, src_key_padding_mask=padding,
                       memory_key_padding_mask=padding, src_mask=mask)}

    case("transformer", nn.Transformer(8, 2, 2, 1, 16, 0.0), transform, x=torch.randn(3, 2, 8), y=torch.randn(4, 2, 8),
         mask=torch.tensor([[False, True, False], [False] * 3, [True, False, False]]))
    case("transformer_first", nn.Transformer(8, 4, 1, 2, 16, 0.0, "gelu", batch_first=True, norm_first=True, bias=False),
         transform, x=torch.randn(2, 4, 8), y=torch.randn(2, 4, 8), padding=padding)
    case("transformer_one", nn.Transformer(8, 2, 1, 1, 16, 0.0), transform, x=torch.randn(3, 8), y=torch.randn(4, 8))
    save_file(made, HERE / "sequences.safetensors")


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


def trajectories():
    """Optimizers in f64: parameters after each of 8 steps by the same gradients."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(2)
    made = {}
    start = {n: torch.randn(shape, dtype=torch.float64)
             for n, shape in {"a": (3, 2), "b": (4,), "c": (2, 3, 2)}.items()}
    grads = [{n: torch.randn_like(p) for n, p in start.items()} for _ in range(8)]
    put(made, "start", start)
    for t, step in enumerate(grads):
        put(made, f"grad/{t}", step)

    def lion(params):
        """Chen et al., 2023, algorithm 2."""
        class Lion(optim.Optimizer):
            @torch.no_grad()
            def step(self):
                for p in self.param_groups[0]["params"]:
                    m = self.state[p].setdefault("m", torch.zeros_like(p))
                    c = 0.9 * m + 0.1 * p.grad
                    p -= 0.01 * (torch.sign(c) + 0.1 * p)
                    m.mul_(0.99).add_(p.grad, alpha=0.01)
        return Lion(params, {})

    cases = {
        "sgd_decay": lambda p: optim.SGD(p, lr=0.1, weight_decay=0.01, maximize=True),
        "sgd_dampening": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3),
        "sgd_nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.01),
        "adam": lambda p: optim.Adam(p, lr=0.01),
        "adam_amsgrad": lambda p: optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1),
        "adam_maximize": lambda p: optim.Adam(p, lr=0.01, maximize=True, betas=(0.8, 0.99), eps=1e-3),
        "adamw": lambda p: optim.AdamW(p, lr=0.01, weight_decay=0.1),
        "adamw_amsgrad": lambda p: optim.AdamW(p, lr=0.01, weight_decay=0.1, amsgrad=True),
        "nadam": lambda p: optim.NAdam(p, lr=0.01, weight_decay=0.1),
        "nadam_decoupled": lambda p: optim.NAdam(p, lr=0.01, weight_decay=0.1, momentum_decay=0.1,
                                                 decoupled_weight_decay=True),
        "radam": lambda p: optim.RAdam(p, lr=0.01, weight_decay=0.1),
        "radam_decoupled": lambda p: optim.RAdam(p, lr=0.01, weight_decay=0.1, betas=(0.8, 0.9),
                                                 decoupled_weight_decay=True),
        "adamax": lambda p: optim.Adamax(p, lr=0.01, weight_decay=0.1),
        "adagrad": lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.1,
                                           initial_accumulator_value=0.2),
        "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, weight_decay=0.1),
        "rmsprop_centered": lambda p: optim.RMSprop(p, lr=0.01, alpha=0.9, centered=True),
        "rmsprop_momentum": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.8),
        "rmsprop_both": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.8, centered=True),
        "adadelta": lambda p: optim.Adadelta(p, lr=0.5, weight_decay=0.1),
        "adafactor": lambda p: optim.Adafactor(p, lr=0.05),
        "adafactor_decay": lambda p: optim.Adafactor(p, lr=0.5, weight_decay=0.1, d=2.0,
                                                     beta2_decay=-0.5, eps=(1e-4, 1e-2)),
        "lion": lion,
        "groups": lambda p: optim.AdamW([{"params": p[:1], "lr": 0.1},
                                         {"params": p[1:], "weight_decay": 0.5}], lr=0.01),
    }
    for name, make in cases.items():
        parameters = {n: p.clone().requires_grad_() for n, p in start.items()}
        optimizer = make(list(parameters.values()))
        for t, step in enumerate(grads):
            for n, p in parameters.items():
                p.grad = step[n].clone()
            optimizer.step()
            put(made, f"{name}/{t}", parameters)

    averages = {"ema": torch.optim.swa_utils.get_ema_avg_fn(0.9), "swa": None}
    for name, rule in averages.items():
        model = nn.Linear(2, 3).double()
        average = torch.optim.swa_utils.AveragedModel(model, avg_fn=rule)
        for t, step in enumerate(grads):
            with torch.no_grad():
                model.weight.copy_(step["a"])
            average.update_parameters(model)
            made[f"{name}/{t}/a"] = average.module.weight.detach().clone()

    def rosenbrock(x):
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    for name, options in {"lbfgs": {"lr": 0.001, "max_iter": 5, "history_size": 3},
                          "lbfgs_wolfe": {"max_iter": 4, "history_size": 5,
                                          "line_search_fn": "strong_wolfe"}}.items():
        x = torch.tensor([-1.2, 1.0, 0.5, -0.3], dtype=torch.float64, requires_grad=True)
        optimizer = optim.LBFGS([x], **options)
        made[f"{name}/start"] = x.detach().clone()
        for t in range(8):
            def closure():
                optimizer.zero_grad()
                loss = rosenbrock(x)
                loss.backward()
                return loss
            made[f"{name}/{t}/loss"] = optimizer.step(closure).detach().clone()
            made[f"{name}/{t}/x"] = x.detach().clone()

    S = optim.lr_scheduler
    schedules = {
        "multi_step": lambda o: S.MultiStepLR(o, [2, 5, 6], gamma=0.5),
        "restarts": lambda o: S.CosineAnnealingWarmRestarts(o, 3, eta_min=0.02),
        "restarts_growing": lambda o: S.CosineAnnealingWarmRestarts(o, 2, T_mult=2, eta_min=0.02),
        "polynomial": lambda o: S.PolynomialLR(o, total_iters=7, power=2.0),
        "linear": lambda o: S.LinearLR(o, start_factor=0.9, end_factor=0.2, total_iters=5),
        "one_cycle": lambda o: S.OneCycleLR(o, max_lr=0.2, total_steps=14),
        "one_cycle_linear": lambda o: S.OneCycleLR(o, max_lr=0.2, total_steps=14, pct_start=0.5,
                                                   anneal_strategy="linear", div_factor=10,
                                                   final_div_factor=100),
        "sequential": lambda o: S.SequentialLR(
            o, [S.ConstantLR(o, factor=0.1, total_iters=100), S.ExponentialLR(o, gamma=0.9)],
            milestones=[4]),
    }
    for name, make in schedules.items():
        optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.2)
        schedule = make(optimizer)
        rates = []
        for _ in range(13):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        made[f"schedule/{name}"] = torch.tensor(rates, dtype=torch.float64)
    measures = [3, 2, 2.5, 2.1, 2.0, 1.5, 1.6, 1.6, 1.6, 1.6, 1.7, 1.49995, 1.6, 1.6, 1.6, 0.1]
    made["plateau/measures"] = torch.tensor(measures, dtype=torch.float64)
    for name, options in {"plateau": {}, "plateau_max": {"mode": "max", "threshold_mode": "abs"}}.items():
        optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.2)
        schedule = S.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, cooldown=1, min_lr=0.02,
                                       **options)
        rates = []
        for m in measures:
            schedule.step(m)
            rates.append(optimizer.param_groups[0]["lr"])
        made[f"{name}/rates"] = torch.tensor(rates, dtype=torch.float64)
    save_file(made, HERE / "trajectories.safetensors")


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for make in [layers, modules, optimizers, sequences, trajectories]:
        if not sys.argv[1:] or make.__name__ in sys.argv[1:]:
            make()
