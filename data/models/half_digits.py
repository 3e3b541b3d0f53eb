"""Writes half_digits.onnx (`python data/models/half_digits.py`, needs torch and onnx): a small network, trained by PyTorch
to tell the digits 0 to 4 of data/digits apart (the first 1,400 images, without those of 5 to 9), as PyTorch exports it."""

import gzip
import pathlib
import warnings

import numpy as np
import onnx
import torch
from torch import nn

DIGITS = pathlib.Path(__file__).parent.parent / "digits"
TRAINED_ON = 1400


def idx(name, header):
    return np.frombuffer(gzip.decompress((DIGITS / name).read_bytes())[header:], np.uint8)


def main():
    torch.manual_seed(1)
    images = torch.tensor(idx("images-idx3-ubyte.gz", 16).reshape(-1, 1, 8, 8)[:TRAINED_ON] / 16, dtype=torch.float32)
    labels = torch.tensor(idx("labels-idx1-ubyte.gz", 8)[:TRAINED_ON].astype(np.int64))
    images, labels = images[labels < 5], labels[labels < 5]
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Dropout2d(0.2), nn.Flatten(), nn.Linear(32 * 4 * 4, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(20):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    model.eval()
    print("accuracy", (model(images).argmax(1) == labels).float().mean().item())
    path = pathlib.Path(__file__).with_suffix(".onnx")
    warnings.simplefilter("ignore")
    torch.onnx.export(model, images[:2], path, dynamo=False, opset_version=17, input_names=["image"], output_names=["logits"],
                      dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}}, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.PRESERVE)  # normalisations stay nodes of their own
    saved = onnx.load(path)
    for node in saved.graph.node:
        node.doc_string = ""
        print(node.op_type, list(node.input), list(node.output))
    onnx.save(saved, path)
    print(path.stat().st_size, "bytes")


main()
