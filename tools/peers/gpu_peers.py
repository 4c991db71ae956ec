#!/usr/bin/env python3
"""What others reach on a GPU, beside `eusn-stream bench --engine gpu`.

    gpu_peers.py --ours PATH_OF_EUSN_STREAM [--engine gpu] [--device cuda] [--seconds 1]
                 [--limit 90] [--budget 470] [--peers NAME,...]
                 [--shapes UNITSxINPUTSxSTREAMSxSTEPS[xMEMBERS],...]

Every peer does the same steps, h' = h + eps tanh(M h + U x + b) in float32 with TF32
off, on inputs and states that stay on the device; eusn-stream's figures include the
copy of the inputs to it, which is to our disadvantage. Each peer runs in a process
of its own with a time limit, and its states are compared with float64 on 64 streams
before it is timed; the process ends if they differ by more than 1e-3 of their size.
Prints lines of JSON: the card's ceilings (gpu_ceilings.py), then millions of
stream-steps a second, median of the calls; ours with its energy and its share of
the bound that the ceilings set. After --budget seconds what is left is printed as
left out: give the next call those --shapes. A bank with all features (MEMBERS above
1) runs in the peers of gpu_bank.py.

It has been run with --device cpu alone.
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time

import gpu_bank
import gpu_ceilings

EPS = 0.01
NETWORKS = [(100, 6, 1), (200, 1, 1), (200, 61, 1), (512, 16, 1), (1024, 16, 1), (50, 4, 40)]  # units, inputs, members
# Every combination, those that tell most first, since the time may not be enough.
CALLS = [(100000, 8), (1000, 64), (10000, 64), (1000, 1), (1000000, 1), (1000, 512), (10000, 8), (100000, 64), (1000000, 8), (1000, 8), (10000, 1), (10000, 512), (100000, 1), (1000000, 64), (100000, 512), (1000000, 512)]
SHAPES = [(n, x, b, t, m) for b, t in CALLS for n, x, m in NETWORKS]
MOST = 1 << 28  # samples of one call


class Problem:
    """Weights, states and inputs of one shape, the same for all peers."""

    def __init__(self, units, inputs, streams, steps, members=1):
        import numpy as np

        r = np.random.default_rng(1)
        w = r.uniform(-0.1, 0.1, (units, units))
        self.m = (w - w.T - 0.001 * np.eye(units)).astype("f4")
        self.u = r.uniform(-1, 1, (units, inputs)).astype("f4")
        self.b = r.uniform(-1, 1, units).astype("f4")
        self.h = r.uniform(-1, 1, (streams, units)).astype("f4")
        self.x = r.standard_normal((steps, streams, inputs), dtype="f4")

    def part(self, got):
        """The streams that are checked."""
        return [got[:64]]

    def check(self, got):
        """got is a part of the states after one call from self.h."""
        import numpy as np

        n = min(64, self.h.shape[0])
        m, u, b, h = (a.astype("f8") for a in (self.m, self.u, self.b, self.h[:n]))
        for x in self.x[:, :n].astype("f8"):
            h = h + EPS * np.tanh(h @ m.T + x @ u.T + b)
        error = float(np.linalg.norm(np.asarray(got[0], "f8") - h) / np.linalg.norm(h))
        if not error < 1e-3:
            raise SystemExit(f"differs from float64 by {error:.2g} of the states' size")
        return error


def torch_parts(p, device):
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    on = [torch.from_numpy(a).to(device) for a in (p.m, p.u, p.b, p.h, p.x)]
    sync = torch.cuda.synchronize if device == "cuda" else lambda: None
    return torch, sync, on


def torch_loop(torch, m, u, b, h, x):
    z = torch.addmm(b, x.reshape(-1, x.shape[2]), u.T).reshape(x.shape[0], x.shape[1], -1)
    for t in range(x.shape[0]):
        h = torch.add(h, torch.tanh(torch.addmm(z[t], h, m.T)), alpha=EPS)
    return h


def torch_eager(p, device):
    torch, sync, (m, u, b, h, x) = torch_parts(p, device)
    return lambda: torch_loop(torch, m, u, b, h, x), sync


PEERS = {"torch-eager": torch_eager}
NEEDS = {"numpy": "numpy"}  # the others need torch


def measure(name, shape, device, seconds):
    """One peer in this process."""
    import contextlib

    import numpy as np

    bank = shape[4] > 1
    p = (gpu_bank.Bank if bank else Problem)(*shape)
    guard = contextlib.nullcontext()
    if name != "numpy":
        import torch

        guard = torch.inference_mode()
    with guard:
        call, sync = (gpu_bank.PEERS if bank else PEERS)[name](p, device)
        got = call()
        sync()
        error = p.check([a.cpu().numpy() if hasattr(a, "cpu") else np.asarray(a) for a in p.part(got)])
        times, end = [], time.perf_counter() + seconds
        while len(times) < 5 or time.perf_counter() < end:
            sync()
            start = time.perf_counter()
            call()
            sync()
            times.append(time.perf_counter() - start)
    rate = shape[2] * shape[3] / statistics.median(times) / 1e6
    print(json.dumps({"mstep_per_s": rate, "relative_error": error, "calls": len(times)}))


def ours(program, engine, shape, seconds):
    units, inputs, streams, steps, members = shape
    command = [program, "bench", "--engine", engine, "--only", "engine", "--json", "-q", "--time", f"{seconds}s", "--units", str(units), "--inputs", str(inputs), "--streams", str(streams), "--steps", str(steps), "--bank", str(members if members > 1 else 0)]
    r = subprocess.run(command, capture_output=True, text=True)
    rows = [json.loads(line) for line in r.stdout.splitlines() if '"bench":"engine"' in line]
    if not rows:
        return {"left_out": f"{' '.join(command)} ended with {r.returncode}: {r.stderr.strip()}"}
    best = max(rows, key=lambda row: row["mstep_per_s"])
    return {k: best[k] for k in ("mstep_per_s", "joules_per_mstep", "watts", "energy", "gflops") if k in best}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--ours", required=True)
    a.add_argument("--engine", default="gpu")
    a.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    a.add_argument("--seconds", type=float, default=1)
    a.add_argument("--limit", type=float, default=90, help="seconds for one peer at one shape, its compilation included")
    a.add_argument("--budget", type=float, default=470, help="seconds for everything")
    a.add_argument("--peers", default=",".join(PEERS))
    a.add_argument("--shapes", default=",".join("x".join(map(str, s)) for s in SHAPES))
    a.add_argument("--one", help=argparse.SUPPRESS)
    o = a.parse_args()
    shapes = [tuple(map(int, s.split("x"))) for s in o.shapes.split(",")]
    for i, s in enumerate(shapes):
        if len(s) not in (4, 5) or min(s) < 1:
            a.error(f"shape {'x'.join(map(str, s))}, want UNITSxINPUTSxSTREAMSxSTEPS[xMEMBERS]")
        shapes[i] = (*s, 1)[:5]
    if o.one == "ceilings":
        return print(json.dumps(gpu_ceilings.measure(o.device, min(o.seconds, 0.3))))
    if o.one:
        return measure(o.one, shapes[0], o.device, o.seconds)
    names = o.peers.split(",")
    for n in names:
        if n not in PEERS and n not in gpu_bank.PEERS:
            a.error(f"peer {n}, want some of {', '.join(dict.fromkeys([*PEERS, *gpu_bank.PEERS]))}")
    end = time.monotonic() + o.budget
    ceilings = {"left_out": "python has no torch"} if importlib.util.find_spec("torch") is None else one("ceilings", shapes[0], o, o.limit)
    print(json.dumps({"ceilings": ceilings}), flush=True)
    for shape in shapes:
        units, inputs, streams, steps, members = shape
        base = dict(zip(("units", "inputs", "streams", "steps", "members"), shape))
        # One step of ours takes the least; what the process may take beyond is the caller's margin.
        if end - time.monotonic() < 2 * o.seconds + 3:
            print(json.dumps({**base, "left_out": f"the budget of {o.budget:g} s is over"}), flush=True)
            continue
        if streams * steps * (inputs if members == 1 else inputs // 2) > MOST:
            print(json.dumps({**base, "left_out": "more than 1 GiB of samples in one call"}), flush=True)
            continue
        mine = ours(o.ours, o.engine, shape, o.seconds)
        limit = gpu_ceilings.bound(ceilings, *shape) if "left_out" not in ceilings else None
        if limit and "mstep_per_s" in mine:
            mine |= {"bound": limit[0], "bound_mstep_per_s": limit[1] / 1e6, "share_of_bound": mine["mstep_per_s"] * 1e6 / limit[1]}
        print(json.dumps({"peer": "eusn-stream", "engine": o.engine, **base, **mine}), flush=True)
        for n in names:
            row = {"peer": n, "device": o.device, **base}
            left = min(o.limit, end - time.monotonic())
            if n not in (gpu_bank.PEERS if members > 1 else PEERS):
                row["left_out"] = f"not written for {'a bank with features' if members > 1 else 'one network'}"
            elif members > 1 and streams * members * units > 1 << 30:
                row["left_out"] = "more than 4 GiB of states, and of each of four sums"
            elif members == 1 and streams * steps * units > 1 << 31:
                row["left_out"] = "more than 8 GiB of input products"
            elif left < 5:
                row["left_out"] = f"the budget of {o.budget:g} s is over"
            elif importlib.util.find_spec(NEEDS.get(n, "torch")) is None:
                row["left_out"] = f"python has no {NEEDS.get(n, 'torch')}"
            else:
                row |= one(n, shape, o, left)
                if "mstep_per_s" in row and "mstep_per_s" in mine:
                    row["ours_by_peer"] = mine["mstep_per_s"] / row["mstep_per_s"]
            print(json.dumps(row), flush=True)


def one(name, shape, o, limit):
    command = [sys.executable, os.path.abspath(__file__), "--ours", o.ours, "--one", name, "--device", o.device, "--seconds", str(o.seconds), "--shapes", "x".join(map(str, shape))]
    try:
        r = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"left_out": f"not done within {limit:.0f} s"}
    if r.returncode:
        return {"left_out": (r.stderr.strip().splitlines() or ["no reason given"])[-1][:300]}
    return json.loads(r.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
