"""Trains recurrent networks of PyTorch from given weights, an epoch at a time.

Each line it reads is a command, answered by a line:

    a JSON object   a network and its data, which the commands after it are about: "ready"
    epoch           trains an epoch, batches in the given order: its seconds of CPU time
    loss            the mean loss over all series

The object has kind (rnn, arnn, gru), units, channels, classes, eps, gamma, rate,
batch, threads, labels (the class of each series), and as base64 of float32 series
(series x steps x channels), input (channels x gates*units), recurrent (units x
gates*units), output (units x scores). Gates are in the order z, r, y. Biases begin
as zero.
"""
import base64
import json
import sys
import time

import torch
import torch.nn.functional as F


@torch.jit.script
def unroll(u, w, eps: float, gamma: float):
    m = w - w.t() - gamma * torch.eye(w.shape[0])
    h = torch.zeros(u.shape[1], w.shape[0])
    for v in u.unbind(0):  # the gradient of u[t] would be as long as all of u
        h = h + eps * torch.tanh(torch.addmm(v, h, m))
    return h


class Antisymmetric(torch.nn.Module):
    def __init__(self, s, inputs, recurrent):
        super().__init__()
        self.eps, self.gamma = s["eps"], s["gamma"]
        self.input = torch.nn.Linear(s["channels"], s["units"])
        self.input.weight.data.copy_(inputs)
        self.input.bias.data.zero_()
        self.recurrent = torch.nn.Parameter(recurrent.t().contiguous())

    def forward(self, x):
        return unroll(self.input(x), self.recurrent, self.eps, self.gamma)


class Library(torch.nn.Module):
    def __init__(self, s, inputs, recurrent):
        super().__init__()
        units, gru = s["units"], s["kind"] == "gru"
        self.net = (torch.nn.GRU if gru else torch.nn.RNN)(s["channels"], units)
        order = [1, 0, 2] if gru else [0]  # PyTorch's order of the gates is r, z, y
        for to, w in ((self.net.weight_ih_l0, inputs), (self.net.weight_hh_l0, recurrent)):
            to.data.copy_(torch.cat([w[g * units:(g + 1) * units] for g in order]))
        for b in (self.net.bias_ih_l0, self.net.bias_hh_l0):
            b.data.zero_()
        self.net.bias_hh_l0.requires_grad = gru  # ours has one bias otherwise

    def forward(self, x):
        return self.net(x)[0][-1]


class Task:
    def __init__(self, s):
        def array(name, *shape):
            return torch.frombuffer(bytearray(base64.b64decode(s[name])), dtype=torch.float32).reshape(*shape).clone()

        torch.set_num_threads(s["threads"])
        units, channels = s["units"], s["channels"]
        wide = units * (3 if s["kind"] == "gru" else 1)
        scores = 1 if s["classes"] == 2 else s["classes"]
        self.labels, self.batch = torch.tensor(s["labels"]), s["batch"]
        self.series = array("series", len(self.labels), -1, channels).transpose(0, 1).contiguous()
        kind = Antisymmetric if s["kind"] == "arnn" else Library
        self.net = kind(s, array("input", channels, wide).t(), array("recurrent", units, wide).t())
        self.output = torch.nn.Linear(units, scores)
        self.output.weight.data.copy_(array("output", units, scores).t())
        self.output.bias.data.zero_()
        weights = [p for p in (*self.net.parameters(), *self.output.parameters()) if p.requires_grad]
        self.optimizer = torch.optim.Adam(weights, lr=s["rate"], eps=1e-7)

    def error(self, x, y):
        o = self.output(self.net(x))
        return F.cross_entropy(o, y) if o.shape[1] > 1 else F.binary_cross_entropy_with_logits(o[:, 0], y.float())

    def epoch(self):
        begin = time.process_time()
        for i in range(0, len(self.labels), self.batch):
            loss = self.error(self.series[:, i:i + self.batch], self.labels[i:i + self.batch])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return time.process_time() - begin

    def loss(self):
        with torch.no_grad():
            return self.error(self.series, self.labels).item()


task = None
for line in sys.stdin:
    if line.startswith("{"):
        task = Task(json.loads(line))
        print("ready", flush=True)
    else:
        print(task.epoch() if line == "epoch\n" else task.loss(), flush=True)
