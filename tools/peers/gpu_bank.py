"""A bank with all five features, for gpu_peers.py: members side by side, batched.

    v = (x, x - x before),  a = M h + U v + b,  y = tanh a,  h' = h + eps y

of each member, and per unit what the features are made of: the state, its sum,
the sum of its squares, how often a was positive, the largest y. Standardizing is
left out, as anybody can fold it into U and b. As in the engine a call begins from
states, sums and previous samples on the device and leaves the sums there.

Both peers have been run with --device cpu alone: torch-eager, and numpy, which is
the same loop.
"""
import numpy as np

import forms

ACCUMULATORS = ("state", "sum", "sum of squares", "positive", "largest")


class Bank:
    """Weights, states and inputs of a shape, the same for all peers."""

    def __init__(self, units, inputs, streams, steps, members):
        if inputs % 2:
            raise SystemExit(f"{inputs} inputs, want channels and as many differences")
        r = np.random.default_rng(1)
        self.m, self.u, self.b, self.eps = forms.draw_bank(np, members, units, inputs)  # as right factors
        self.h = r.random((members, streams, units), dtype="f4")
        self.x = r.standard_normal((steps, streams, inputs // 2), dtype="f4")
        self.last = r.standard_normal((streams, inputs // 2), dtype="f4")

    def part(self, got):
        """The streams that are checked."""
        return [a[:, :64] for a in got]

    def check(self, got):
        """got is a part of the accumulators after the first call."""
        m, u, b, eps, h, x, last = (a.astype("f8") for a in (self.m, self.u, self.b, self.eps, self.h[:, :64], self.x[:, :64], self.last[:64]))
        total, square, positive, largest = 0 * h, 0 * h, 0 * h, np.full_like(h, -1)
        for s in x:
            v, last = np.concatenate([s, s - last], 1), s
            a = np.einsum("rbn,rnk->rbk", h, m) + np.einsum("bi,rik->rbk", v, u) + b
            y = np.tanh(a)
            h = h + eps * y
            total, square, positive, largest = total + h, square + h * h, positive + (a > 0), np.maximum(largest, y)
        errors = []
        for name, g, w in zip(ACCUMULATORS, got, (h, total, square, positive, largest), strict=True):
            errors.append(float(np.linalg.norm(np.asarray(g, "f8") - w) / np.linalg.norm(w)))
            if g.shape != w.shape or not errors[-1] < 1e-3:
                raise SystemExit(f"{name}: differs from float64 by {errors[-1]:.2g} of its size")
        return max(errors)


def numpy_loop(p, device):
    def call():
        h, last = p.h, p.last
        total, square, positive, largest = (np.full_like(h, k) for k in (0, 0, 0, -1))
        for s in p.x:
            v, last = np.concatenate([s, s - last], 1), s
            a = np.matmul(h, p.m) + np.matmul(v, p.u) + p.b
            y = np.tanh(a)
            h = h + p.eps * y
            total += h
            square += h * h
            positive += a > 0
            np.maximum(largest, y, out=largest)
        return h, total, square, positive, largest

    return call, lambda: None


def torch_parts(p, device):
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    m, u, b, eps, h, x, last = (torch.from_numpy(a).to(device) for a in (p.m, p.u, p.b, p.eps, p.h, p.x, p.last))
    sums = [torch.full_like(h, k) for k in (0, 0, 0, -1)]
    sync = torch.cuda.synchronize if device == "cuda" else lambda: None
    return torch, sync, (m, u, b, eps), h, sums, x, last


def torch_step(torch, net, h, sums, s, last):
    m, u, b, eps = net
    total, square, positive, largest = sums
    v = torch.cat((s, s - last), 1).expand(m.shape[0], -1, -1)
    a = torch.baddbmm(b, v, u).baddbmm_(h, m)
    positive.add_(a > 0)
    y = a.tanh_()
    torch.maximum(largest, y, out=largest)
    h = torch.addcmul(h, eps, y)
    total.add_(h)
    square.addcmul_(h, h)
    return h


def torch_eager(p, device):
    torch, sync, net, h0, sums, x, before = torch_parts(p, device)

    def call():
        h, last = h0, before
        for s in x:
            h, last = torch_step(torch, net, h, sums, s, last), s
        return h, *sums

    return call, sync


PEERS = {"numpy": numpy_loop, "torch-eager": torch_eager}
