"""Updates of optimizers: one step of PyTorch's from states that the case gives (Lion from its paper)."""

from common import *
from torch import optim

STEP = 8  # the number of the step whose corrections the cases use
LR, DECAY = 0.05, 0.02


def lion(p, g, m, lr, decay, beta1=0.9, beta2=0.99):
    return p * (1 - lr * decay) - lr * torch.sign(beta1 * m + (1 - beta1) * g), beta2 * m + (1 - beta2) * g


def torch_step(make, names, p, g, states, extra=None):
    """p and the states after one step of `make`, PyTorch's names of the states given."""
    p = p.clone().requires_grad_()
    optimizer = make([p])
    kept = {n: s.clone() for n, s in zip(names, states)}
    optimizer.state[p] = {"step": torch.tensor(float(STEP - 1)), **kept,
                          **{n: x.clone() for n, x in (extra or {}).items()}}
    p.grad = g.clone()
    optimizer.step()
    return [p.detach()] + [optimizer.state[p][n] for n in names]


def steps(op, make, names, numbers, attrs=None, positive=(), extra=None, tol=8):
    """Cases of a row in every dtype; `positive` are the places of states that are mean squares."""
    for dtype in FLOATS:
        widest = "f64" if dtype == "f64" else "f32"
        for shape in [(3, 4), (), (0,)]:
            p, g = rand(shape, dtype), rand(shape, dtype)
            states = [rand(shape, dtype, 0.5, 2) if i in positive else rand(shape, dtype, -0.4, 0.4)
                      for i in range(len(names))]
            given = [cast(torch.tensor(float(n)), widest) for n in numbers]
            wides = [wide(s) for s in states]
            if make is None:
                out = lion(wide(p), wide(g), wides[0], LR, DECAY)
            else:
                out = torch_step(make, names, wide(p), wide(g), wides, extra)
            case(op, [p, g] + states + given, [cast(o, dtype) for o in out], attrs, tol, floor=1)


def optimizers():
    c1, c2 = 1 - 0.9**STEP, 1 - 0.999**STEP
    scale = c2**-0.5
    steps("sgd_step", lambda p: optim.SGD(p, LR, weight_decay=DECAY), [], [LR, DECAY])
    for nesterov in [False, True]:
        steps("sgd_momentum_step",
              lambda p: optim.SGD(p, LR, momentum=0.9, weight_decay=DECAY, nesterov=nesterov),
              ["momentum_buffer"], [LR, DECAY, 1], {"nesterov": nesterov})
    steps("sgd_momentum_step", lambda p: optim.SGD(p, LR, momentum=0.7, dampening=0.25),
          ["momentum_buffer"], [LR, 0, 0.75], {"momentum": 0.7})
    moments = ["exp_avg", "exp_avg_sq"]
    steps("adam_step", lambda p: optim.Adam(p, LR, weight_decay=DECAY), moments,
          [LR / c1, scale, DECAY, 1], positive=[1])
    steps("adam_step", lambda p: optim.AdamW(p, LR, betas=(0.8, 0.99), eps=1e-3, weight_decay=DECAY),
          moments, [LR / (1 - 0.8**STEP), (1 - 0.99**STEP) ** -0.5, 0, 1 - LR * DECAY],
          {"beta1": 0.8, "beta2": 0.99, "eps": 1e-3}, positive=[1])
    steps("adam_amsgrad_step", lambda p: optim.Adam(p, LR, weight_decay=DECAY, amsgrad=True),
          moments + ["max_exp_avg_sq"], [LR / c1, scale, DECAY, 1], positive=[1, 2])
    mu = 0.9 * (1 - 0.5 * 0.96 ** (STEP * 0.004))
    mu_next = 0.9 * (1 - 0.5 * 0.96 ** ((STEP + 1) * 0.004))
    product = 0.2  # of the steps before
    steps("nadam_step", lambda p: optim.NAdam(p, LR, weight_decay=DECAY), moments,
          [LR * (1 - mu) / (1 - product * mu), LR * mu_next / (1 - product * mu * mu_next), scale,
           DECAY, 1], positive=[1], extra={"mu_product": torch.tensor(product)})
    for beta2 in [0.5, 0.9, 0.999]:  # the first is not rectified
        steps("radam_step",
              lambda p: optim.RAdam(p, LR, betas=(0.9, beta2), weight_decay=DECAY), moments,
              [LR / c1, rectified(beta2), DECAY, 1], {"beta2": beta2}, positive=[1])
    steps("radam_step",
          lambda p: optim.RAdam(p, LR, weight_decay=DECAY, decoupled_weight_decay=True), moments,
          [LR / c1, rectified(0.999), 0, 1 - LR * DECAY], positive=[1])
    steps("adamax_step", lambda p: optim.Adamax(p, LR, weight_decay=DECAY), ["exp_avg", "exp_inf"],
          [LR / c1, DECAY], positive=[1])
    steps("adagrad_step", lambda p: optim.Adagrad(p, LR, lr_decay=0.1, weight_decay=DECAY), ["sum"],
          [LR / (1 + (STEP - 1) * 0.1), DECAY], positive=[0])
    rms = dict(lr=LR, weight_decay=DECAY)
    steps("rmsprop_step", lambda p: optim.RMSprop(p, **rms), ["square_avg"], [LR, DECAY], positive=[0])
    steps("rmsprop_centered_step", lambda p: optim.RMSprop(p, **rms, centered=True),
          ["square_avg", "grad_avg"], [LR, DECAY], positive=[0])
    steps("rmsprop_momentum_step", lambda p: optim.RMSprop(p, **rms, momentum=0.9),
          ["square_avg", "momentum_buffer"], [LR, DECAY], positive=[0])
    steps("rmsprop_centered_momentum_step",
          lambda p: optim.RMSprop(p, **rms, alpha=0.9, momentum=0.5, centered=True),
          ["square_avg", "grad_avg", "momentum_buffer"], [LR, DECAY],
          {"alpha": 0.9, "momentum": 0.5}, positive=[0])
    steps("adadelta_step", lambda p: optim.Adadelta(p, LR, weight_decay=DECAY),
          ["square_avg", "acc_delta"], [LR, DECAY], positive=[0, 1])
    steps("lion_step", None, ["exp_avg"], [LR, 1 - LR * DECAY])


def rectified(beta2):
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * STEP * beta2**STEP / (1 - beta2**STEP)
    if length <= 5:
        return 0.0
    rect = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    return (rect * (1 - beta2**STEP)) ** 0.5


FAMILIES = [optimizers]
