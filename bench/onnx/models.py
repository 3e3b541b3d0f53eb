"""The models that inference is measured on: random weights (seed 0), exported by PyTorch at fixed
batches, with inputs and the results that PyTorch gives.

    python models.py FOLDER        ->  FOLDER/NAME-bN/model.onnx, x0.npy..., y.npy, work.json
"""
import argparse
import json
import os
import warnings

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCHES = (1, 16)


class CNN(nn.Module):
    """PyTorch's MNIST example without dropout."""
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout)
        self.conv2, self.bn2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout)
        self.down = stride != 1 or cin != cout
        if self.down:
            self.convd, self.bnd = nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout)

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.bnd(self.convd(x)) if self.down else x))


class ResNet18(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        blocks, cin = [], 64
        for i, cout in enumerate([64, 128, 256, 512]):
            blocks += [Block(cin, cout, 1 if i == 0 else 2), Block(cout, cout, 1)]
            cin = cout
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(512, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.stem(x))), 3, 2, 1)
        return self.fc(self.blocks(x).mean((2, 3)))


class Inverted(nn.Module):
    def __init__(self, cin, cout, stride, expand):
        super().__init__()
        hidden = cin * expand
        layers = []
        if expand != 1:
            layers += [nn.Conv2d(cin, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6()]
        layers += [nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
                   nn.BatchNorm2d(hidden), nn.ReLU6(),
                   nn.Conv2d(hidden, cout, 1, bias=False), nn.BatchNorm2d(cout)]
        self.body, self.skip = nn.Sequential(*layers), stride == 1 and cin == cout

    def forward(self, x):
        return x + self.body(x) if self.skip else self.body(x)


class MobileNetV2(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        layers = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
        cin = 32
        for t, c, n, s in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                           (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
            for i in range(n):
                layers.append(Inverted(cin, c, s if i == 0 else 1, t))
                cin = c
        layers += [nn.Conv2d(cin, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()]
        self.features, self.fc = nn.Sequential(*layers), nn.Linear(1280, classes)

    def forward(self, x):
        return self.fc(self.features(x).mean((2, 3)))


class EncoderLayer(nn.Module):
    """Normalises first; GELU by tanh; attention as scaled_dot_product_attention exports it."""
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class Encoder(nn.Module):
    def __init__(self, layers=6, d=384, heads=6, context=128, vocabulary=8192):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocabulary, d), nn.Embedding(context, d)
        self.layers, self.ln = nn.Sequential(*(EncoderLayer(d, heads) for _ in range(layers))), nn.LayerNorm(d)

    def forward(self, tokens):
        return self.ln(self.layers(self.tok(tokens) + self.pos.weight[:tokens.shape[1]]))


class LstmStep(nn.Module):
    """One character of a language model, with the state handed in and out."""
    def __init__(self, vocabulary=65, embed=128, hidden=256):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(vocabulary, embed), nn.LSTM(embed, hidden, batch_first=True)
        self.out = nn.Linear(hidden, vocabulary)

    def forward(self, token, h, c):
        y, (h, c) = self.lstm(self.embed(token), (h, c))
        return self.out(y), h, c


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


# name -> model, inputs of a batch
MODELS = {
    "mlp": (mlp, lambda b: (torch.randn(b, 784),)),
    "cnn": (CNN, lambda b: (torch.randn(b, 1, 28, 28),)),
    "resnet18": (ResNet18, lambda b: (torch.randn(b, 3, 224, 224),)),
    "mobilenetv2": (MobileNetV2, lambda b: (torch.randn(b, 3, 224, 224),)),
    "bert": (Encoder, lambda b: (torch.randint(0, 8192, (b, 128)),)),
    "lstm-step": (LstmStep, lambda b: (torch.randint(0, 65, (b, 1)), torch.randn(1, b, 256),
                                       torch.randn(1, b, 256))),
}


def shift_statistics(model):
    """Running statistics that are not 0 and 1, so that folding them changes weights."""
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            nn.init.normal_(m.running_mean, 0, 0.1)
            nn.init.uniform_(m.running_var, 0.5, 1.5)
            nn.init.uniform_(m.weight, 0.5, 1.5)


def work(model, inputs):
    """The result, and beside it what a run cannot do without: operations of products and (of the direct way) of
    convolutions of 3 x 3 that may take fewer, and bytes of the weights. Of a table of embeddings few rows are read."""
    needed = {"products": 0, "convolutions": 0, "bytes": 0}

    def count(module, given, result):
        kind = "products"
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            if isinstance(module, nn.Conv2d) and module.kernel_size == (3, 3) and module.stride == (1, 1) \
                    and module.groups == 1:
                kind = "convolutions"
            weights, flops = module.weight.numel(), 2 * result.numel() * module.weight[0].numel()
        elif isinstance(module, nn.LSTM):
            weights = module.weight_ih_l0.numel() + module.weight_hh_l0.numel()
            flops = 2 * given[0].shape[0] * given[0].shape[1] * weights
        elif isinstance(module, EncoderLayer):      # its attention
            batch, length, width = given[0].shape
            weights, flops = 0, 4 * batch * length * length * width
        else:
            return
        needed[kind] += flops
        needed["bytes"] += 4 * weights
    hooks = [module.register_forward_hook(count) for module in model.modules()]
    with torch.no_grad():
        result = model(*inputs)
    for hook in hooks:
        hook.remove()
    return result, needed


def export(name, batch, folder):
    build, inputs_of = MODELS[name]
    torch.manual_seed(0)
    model = build().eval()
    shift_statistics(model)
    torch.manual_seed(batch)
    inputs = inputs_of(batch)
    folder = os.path.join(folder, "%s-b%d" % (name, batch))
    os.makedirs(folder, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, inputs, os.path.join(folder, "model.onnx"), dynamo=False, opset_version=17,
                          input_names=["x%d" % i for i in range(len(inputs))])
    result, needed = work(model, inputs)
    with open(os.path.join(folder, "work.json"), "w") as out:
        json.dump(needed, out)
    np.save(os.path.join(folder, "y.npy"), (result[0] if isinstance(result, tuple) else result).numpy())
    for i, x in enumerate(inputs):
        np.save(os.path.join(folder, "x%d.npy" % i), x.numpy())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Exports the models, with inputs and results, into folders of their own.")
    parser.add_argument("folder", help="where those are made")
    folder = parser.parse_args().folder
    for name in MODELS:
        for batch in BATCHES:
            export(name, batch, folder)
