"""The models of bench/models.h: their weights in NumPy, in torch.nn, and as functions for JAX."""
import numpy as np

# name -> shape, in PyTorch's layout
MLP = {"l1": (512, 784), "l2": (512, 512), "l3": (10, 512)}
DEMO_CNN = {"conv1": (16, 1, 3, 3), "conv2": (32, 16, 3, 3), "fc1": (64, 6272), "fc2": (10, 64)}
EXAMPLE_CNN = {"conv1": (32, 1, 3, 3), "conv2": (64, 32, 3, 3), "fc1": (128, 9216), "fc2": (10, 128)}


def initial(layers):
    """Weights and biases, uniform in +-1/sqrt(inputs), the same for every system."""
    random = np.random.default_rng(2)
    weights = {}
    for name, shape in layers.items():
        bound = 1 / np.sqrt(np.prod(shape[1:]))
        weights[name + ".weight"] = random.uniform(-bound, bound, shape).astype(np.float32)
        weights[name + ".bias"] = random.uniform(-bound, bound, shape[0]).astype(np.float32)
    return weights


def batches(batch, sample):
    """Eight batches of random digits: what a step costs does not depend on the values."""
    random = np.random.default_rng(1)
    return [(random.uniform(0, 1, (batch, *sample)).astype(np.float32), random.integers(0, 10, batch))
            for _ in range(8)]


def torch_model(layers, padding):
    import torch
    import torch.nn.functional as F
    convolutional = "conv1" in layers

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, shape in layers.items():
                module = torch.nn.Conv2d(shape[1], shape[0], 3, padding=padding) if len(shape) == 4 else \
                    torch.nn.Linear(shape[1], shape[0])
                setattr(self, name, module)
            self.load_state_dict({k: torch.from_numpy(v) for k, v in initial(layers).items()})

        def forward(self, x):
            if not convolutional:
                return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))
            x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
            return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))
    return Model()


def jax_weights(layers):
    """The same weights in the layouts that suit XLA: HWIO and [in, out]; the first linear layer
    after the convolutions reads pixels by height, width, channel."""
    weights = initial(layers)
    for name, w in weights.items():
        if w.ndim == 4:
            weights[name] = np.ascontiguousarray(w.transpose(2, 3, 1, 0))
        elif name == "fc1.weight":
            channels = layers["conv2"][0]
            side = int(np.sqrt(w.shape[1] // channels))
            w = w.reshape(w.shape[0], channels, side, side).transpose(2, 3, 1, 0)
            weights[name] = np.ascontiguousarray(w.reshape(-1, w.shape[-1]))
        elif w.ndim == 2:
            weights[name] = np.ascontiguousarray(w.T)
    return weights


def jax_model(layers, padding):
    """A function of the weights and x; images come as [batch, height, width, channel]."""
    import jax
    from jax import lax
    if "conv1" not in layers:
        def mlp(p, x):
            h = jax.nn.relu(x @ p["l1.weight"] + p["l1.bias"])
            h = jax.nn.relu(h @ p["l2.weight"] + p["l2.bias"])
            return h @ p["l3.weight"] + p["l3.bias"]
        return mlp

    def conv(x, w, b):
        return jax.nn.relu(lax.conv_general_dilated(x, w, (1, 1), [(padding, padding)] * 2,
                                                    dimension_numbers=("NHWC", "HWIO", "NHWC")) + b)

    def cnn(p, x):
        x = conv(conv(x, p["conv1.weight"], p["conv1.bias"]), p["conv2.weight"], p["conv2.bias"])
        x = lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = jax.nn.relu(x.reshape(x.shape[0], -1) @ p["fc1.weight"] + p["fc1.bias"])
        return x @ p["fc2.weight"] + p["fc2.bias"]
    return cnn
