"""The models of bench/models.h: their weights in NumPy, in torch.nn, and as functions for JAX and TensorFlow.

The weights of a model are a dictionary by PyTorch's names and in its layout, from which every system starts."""
from types import SimpleNamespace

import numpy as np

CHARACTERS, WIDTH, HEADS, LAYERS, CONTEXT = 65, 256, 4, 4, 128
BLOCKS = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1),
          (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]


# ---- weights ----------------------------------------------------------------------

def with_biases(layers):
    shapes = {}
    for name, shape in layers.items():
        shapes[name + ".weight"], shapes[name + ".bias"] = shape, shape[:1]
    return shapes


def resnet_shapes():
    shapes = {}

    def conv_norm(name, out, inputs, kernel):
        shapes[name + ".conv.weight"] = (out, inputs, kernel, kernel)
        for part in ("weight", "bias"):
            shapes["%s.norm.%s" % (name, part)] = (out,)
    conv_norm("stem", 64, 3, 3)
    for i, (inputs, out, _) in enumerate(BLOCKS):
        conv_norm("blocks.%d.first" % i, out, inputs, 3)
        conv_norm("blocks.%d.second" % i, out, out, 3)
        if inputs != out:
            conv_norm("blocks.%d.around" % i, out, inputs, 1)
    return dict(shapes, **with_biases({"head": (10, 512)}))


def gpt_shapes():
    shapes = {"tokens.weight": (CHARACTERS, WIDTH), "places.weight": (CONTEXT, WIDTH)}
    for i in range(LAYERS):
        shapes.update({"layers.%d.%s" % (i, k): v for k, v in with_biases(
            {"norm1": (WIDTH,), "norm2": (WIDTH,), "qkv": (3 * WIDTH, WIDTH), "proj": (WIDTH, WIDTH),
             "up": (4 * WIDTH, WIDTH), "down": (WIDTH, 4 * WIDTH)}).items()})
    return dict(shapes, **with_biases({"norm": (WIDTH,), "head": (CHARACTERS, WIDTH)}))


SHAPES = {
    "mlp": with_biases({"l1": (512, 784), "l2": (512, 512), "l3": (10, 512)}),
    "demo": with_biases({"conv1": (16, 1, 3, 3), "conv2": (32, 16, 3, 3), "fc1": (64, 6272), "fc2": (10, 64)}),
    "example": with_biases({"conv1": (32, 1, 3, 3), "conv2": (64, 32, 3, 3), "fc1": (128, 9216),
                            "fc2": (10, 128)}),
    "resnet": resnet_shapes(),
    "gpt": gpt_shapes(),
    "lstm": {"embedding.weight": (CHARACTERS, 128), "lstm.weight_ih_l0": (1024, 128),
             "lstm.weight_hh_l0": (1024, 256), "lstm.bias_ih_l0": (1024,), "lstm.bias_hh_l0": (1024,),
             **with_biases({"head": (CHARACTERS, 256)})},
}
PADDING = {"demo": 1, "example": 0}     # of the CNNs' convolutions


def initial(model):
    """Uniform in +-1/sqrt(inputs); normalisations start as 1 and 0. The same for every system."""
    random = np.random.default_rng(2)
    weights = {}
    for name, shape in SHAPES[model].items():
        inputs = np.prod(shape[1:]) if len(shape) > 1 else shape[0]
        drawn = (random.uniform(-1, 1, shape) / np.sqrt(inputs)).astype(np.float32)
        if "norm" in name:
            drawn = np.full(shape, name.endswith("weight"), np.float32)
        weights[name] = drawn
    return weights


def batches(model, batch, sample):
    """Eight batches of random data: what a step costs does not depend on the values."""
    random = np.random.default_rng(1)
    if model in ("gpt", "lstm"):
        return [tuple(random.integers(0, CHARACTERS, (batch, *sample)) for _ in range(2)) for _ in range(8)]
    return [(random.uniform(0, 1, (batch, *sample)).astype(np.float32), random.integers(0, 10, batch))
            for _ in range(8)]


# ---- PyTorch ----------------------------------------------------------------------

def torch_model(model):
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.l1, self.l2, self.l3 = nn.Linear(784, 512), nn.Linear(512, 512), nn.Linear(512, 10)

        def forward(self, x):
            return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))

    class Cnn(nn.Module):
        def __init__(self):
            super().__init__()
            for name in ("conv1", "conv2", "fc1", "fc2"):
                shape = SHAPES[model][name + ".weight"]
                setattr(self, name, nn.Conv2d(shape[1], shape[0], 3, padding=PADDING[model])
                        if len(shape) == 4 else nn.Linear(shape[1], shape[0]))

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
            return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))

    class ConvNorm(nn.Module):
        def __init__(self, inputs, out, kernel, stride):
            super().__init__()
            self.conv = nn.Conv2d(inputs, out, kernel, stride, kernel // 2, bias=False)
            self.norm = nn.BatchNorm2d(out)

        def forward(self, x):
            return self.norm(self.conv(x))

    class Block(nn.Module):
        def __init__(self, inputs, out, stride):
            super().__init__()
            self.first, self.second = ConvNorm(inputs, out, 3, stride), ConvNorm(out, out, 3, 1)
            self.around = ConvNorm(inputs, out, 1, stride) if inputs != out else nn.Identity()

        def forward(self, x):
            return F.relu(self.second(F.relu(self.first(x))) + self.around(x))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.head = ConvNorm(3, 64, 3, 1), nn.Linear(512, 10)
            self.blocks = nn.Sequential(*(Block(*block) for block in BLOCKS))

        def forward(self, x):
            return self.head(self.blocks(F.relu(self.stem(x))).mean((2, 3)))

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            n, t, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).reshape(n, t, WIDTH))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(CHARACTERS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
            self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CHARACTERS)

        def forward(self, x):
            x = self.tokens(x) + self.places.weight[:x.shape[1]]
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x)).flatten(0, 1)

    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(CHARACTERS, 128), nn.Linear(256, CHARACTERS)
            self.lstm = nn.LSTM(128, 256, batch_first=True)

        def forward(self, x):
            return self.head(self.lstm(self.embedding(x))[0]).flatten(0, 1)

    made = {"mlp": Mlp, "demo": Cnn, "example": Cnn, "resnet": ResNet, "gpt": Gpt, "lstm": Lstm}[model]()
    missing = made.load_state_dict({k: torch.from_numpy(v) for k, v in initial(model).items()}, strict=False)
    assert not missing.unexpected_keys and all("running" in k or "tracked" in k for k in missing.missing_keys)
    return made.train()


# ---- JAX and TensorFlow -----------------------------------------------------------

def transposed_weights(model):
    """The same weights in the layouts that suit JAX and TensorFlow: HWIO and [in, out]; the first linear layer
    after the convolutions reads pixels by height, width, channel."""
    weights = initial(model)
    for name, w in weights.items():
        if name in ("tokens.weight", "places.weight", "embedding.weight"):
            continue
        if w.ndim == 4:
            weights[name] = np.ascontiguousarray(w.transpose(2, 3, 1, 0))
        elif name == "fc1.weight":
            channels = SHAPES[model]["conv2.weight"][0]
            side = int(np.sqrt(w.shape[1] // channels))
            w = w.reshape(w.shape[0], channels, side, side).transpose(2, 3, 1, 0)
            weights[name] = np.ascontiguousarray(w.reshape(-1, w.shape[-1]))
        elif w.ndim == 2:
            weights[name] = np.ascontiguousarray(w.T)
    return weights


def statistics(model):
    """The running statistics of normalisations over a batch."""
    names = [k[:-len(".norm.weight")] for k in SHAPES[model] if k.endswith(".norm.weight")]
    return {name + part: np.full(SHAPES[model][name + ".norm.weight"], part == "var", np.float32)
            for name in names for part in ("mean", "var")}


def functional_model(model, lib):
    """A function of the weights, the running statistics and x that gives the logits, and what becomes of the
    statistics, by the functions of `lib`; images come as [batch, height, width, channel]. `lib.product` may give
    bf16, as PyTorch's autocast has it; `lib.wide` makes that f32."""
    def product(x, w):              # one flat product: those of batches are slower in TensorFlow
        flat = lib.product(lib.reshape(x, (-1, x.shape[-1])), w)
        return lib.reshape(flat, (*x.shape[:-1], w.shape[-1]))

    def linear(p, name, x):
        return lib.add_bias(product(x, p[name + ".weight"]), p[name + ".bias"])

    def mlp(p, s, x):
        return linear(p, "l3", lib.relu(linear(p, "l2", lib.relu(linear(p, "l1", x))))), s

    def cnn(p, s, x):
        for name in ("conv1", "conv2"):
            x = lib.relu(lib.add_bias(lib.conv(x, p[name + ".weight"], 1, PADDING[model]), p[name + ".bias"]))
        x = lib.reshape(lib.max_pool(x), (x.shape[0], -1))
        return linear(p, "fc2", lib.relu(linear(p, "fc1", x))), s

    def resnet(p, s, x):
        new = {}

        def conv_norm(x, name, stride):
            w = p[name + ".conv.weight"]
            x, mean, var = lib.batch_norm(lib.conv(x, w, stride, w.shape[0] // 2),
                                          p[name + ".norm.weight"], p[name + ".norm.bias"])
            for part, value in (("mean", mean), ("var", var)):
                new[name + part] = 0.9 * s[name + part] + 0.1 * value
            return x
        x = lib.relu(conv_norm(x, "stem", 1))
        for i, (inputs, out, stride) in enumerate(BLOCKS):
            name = "blocks.%d." % i
            y = conv_norm(lib.relu(conv_norm(x, name + "first", stride)), name + "second", 1)
            x = lib.relu(y + (conv_norm(x, name + "around", stride) if inputs != out else x))
        return linear(p, "head", lib.mean(x, (1, 2))), new

    def norm(p, name, x):
        x = x - lib.mean(x, -1, keepdims=True)
        return x * lib.rsqrt(lib.mean(x * x, -1, keepdims=True) + 1e-5) * p[name + ".weight"] + p[name + ".bias"]

    def gpt(p, s, x):
        n, t = x.shape
        unseen = np.triu(np.full((t, t), -np.inf, np.float32), 1)
        x = lib.rows(p["tokens.weight"], x) + p["places.weight"][:t]
        for i in range(LAYERS):
            name = "layers.%d." % i
            qkv = lib.reshape(linear(p, name + "qkv", norm(p, name + "norm1", x)), (n, t, 3, HEADS, WIDTH // HEADS))
            q, k, v = lib.unstack(lib.transpose(qkv, (2, 0, 3, 1, 4)))
            a = lib.wide(lib.product(q, lib.transpose(k, (0, 1, 3, 2)))) / np.float32(np.sqrt(WIDTH // HEADS))
            y = lib.transpose(lib.product(lib.softmax(a + unseen), v), (0, 2, 1, 3))
            x = x + lib.wide(linear(p, name + "proj", lib.reshape(y, (n, t, WIDTH))))
            h = lib.gelu(linear(p, name + "up", norm(p, name + "norm2", x)), approximate=True)
            x = x + lib.wide(linear(p, name + "down", h))
        return lib.reshape(linear(p, "head", norm(p, "norm", x)), (-1, CHARACTERS)), s

    def lstm(p, s, x):
        x = lib.rows(p["embedding.weight"], lib.transpose(x, (1, 0)))
        gates = product(x, p["lstm.weight_ih_l0"]) + (p["lstm.bias_ih_l0"] + p["lstm.bias_hh_l0"])

        def cell(carry, x):
            h, c = carry
            i, f, g, o = lib.split(x + lib.product(h, p["lstm.weight_hh_l0"]), 4, -1)
            c = lib.sigmoid(f) * c + lib.sigmoid(i) * lib.tanh(g)
            h = lib.sigmoid(o) * lib.tanh(c)
            return (h, c), h
        zero = np.zeros((x.shape[1], 256), np.float32)
        y = lib.loop(cell, (zero, zero), gates)
        return lib.reshape(linear(p, "head", lib.transpose(y, (1, 0, 2))), (-1, CHARACTERS)), s
    return {"mlp": mlp, "demo": cnn, "example": cnn, "resnet": resnet, "gpt": gpt, "lstm": lstm}[model]


def jax_model(model, narrow=False):
    """`narrow`: products in bf16; what lies between them is quicker in f32."""
    import jax
    import jax.numpy as jnp
    from jax import lax
    dtype = jnp.bfloat16 if narrow else jnp.float32

    def conv(x, w, stride, padding):
        return lax.conv_general_dilated(x, w, (stride, stride), [(padding, padding)] * 2,
                                        dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def batch_norm(x, weight, bias):
        count = x.size // x.shape[-1]
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        x = (x - mean) * (lax.rsqrt(var + 1e-5) * weight) + bias
        return x, lax.stop_gradient(mean), lax.stop_gradient(var * count / (count - 1))
    return functional_model(model, SimpleNamespace(
        product=lambda a, b: (a.astype(dtype) @ b.astype(dtype)).astype(jnp.float32), wide=lambda x: x,
        add_bias=jnp.add, conv=conv, batch_norm=batch_norm,
        max_pool=lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        rows=lambda table, x: table[x], loop=lambda cell, carry, x: lax.scan(cell, carry, x)[1],
        relu=jax.nn.relu, gelu=jax.nn.gelu, softmax=jax.nn.softmax, sigmoid=jax.nn.sigmoid, tanh=jnp.tanh,
        rsqrt=lax.rsqrt, mean=jnp.mean, reshape=jnp.reshape, transpose=jnp.transpose, split=jnp.split,
        unstack=jnp.unstack))


def tf_model(model, narrow=False):
    """`narrow`: products in bf16."""
    import tensorflow as tf
    dtype = tf.bfloat16 if narrow else tf.float32

    def conv(x, w, stride, padding):
        return tf.nn.conv2d(x, w, stride, [[0, 0], [padding, padding], [padding, padding], [0, 0]])

    def batch_norm(x, weight, bias):
        return tf.raw_ops.FusedBatchNormV3(x=x, scale=weight, offset=bias, mean=[], variance=[], epsilon=1e-5)[:3]

    def loop(cell, carry, x):       # unrolled: the fastest way at a fixed length
        steps = []
        for x in tf.unstack(x):
            carry, y = cell(carry, x)
            steps.append(y)
        return tf.stack(steps)
    return functional_model(model, SimpleNamespace(
        product=lambda a, b: tf.cast(a, dtype) @ tf.cast(b, dtype), wide=lambda x: tf.cast(x, tf.float32),
        add_bias=lambda x, b: tf.nn.bias_add(x, tf.cast(b, x.dtype)), conv=conv, batch_norm=batch_norm,
        max_pool=lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"), rows=tf.gather, loop=loop,
        relu=tf.nn.relu, gelu=tf.nn.gelu, softmax=tf.nn.softmax, sigmoid=tf.sigmoid, tanh=tf.tanh,
        rsqrt=tf.math.rsqrt, mean=tf.reduce_mean, reshape=tf.reshape, transpose=tf.transpose, split=tf.split,
        unstack=tf.unstack))
