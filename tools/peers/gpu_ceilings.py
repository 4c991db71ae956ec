"""What the card itself can do, and the bound that follows for a shape.

Not yet run on a GPU.
"""
import statistics
import subprocess
import time


def nominal_ffma(torch):
    """float32 multiply-adds of all units at the highest clock, flop/s; None where no tool says the clock."""
    try:
        out = subprocess.run(["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=20).stdout
        lanes = 64 if torch.cuda.get_device_capability() == (8, 0) else 128  # of a multiprocessor: A100 has half
        return torch.cuda.get_device_properties(0).multi_processor_count * lanes * 2 * float(out.splitlines()[0]) * 1e6
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return None


def measure(device, seconds):
    """flop/s and bytes/s; each the median of calls."""
    import torch

    sync = torch.cuda.synchronize if device == "cuda" else lambda: None

    def rate(amount, call):
        call()
        times, end = [], time.perf_counter() + seconds
        while len(times) < 5 or time.perf_counter() < end:
            sync()
            start = time.perf_counter()
            call()
            sync()
            times.append(time.perf_counter() - start)
        return amount / statistics.median(times)

    n = 8192 if device == "cuda" else 512
    a, b = (torch.randn(n, n, device=device) for _ in range(2))
    c = torch.empty_like(a)
    out = {}
    for name, tf32 in (("fp32_matrix_flops", False), ("tf32_matrix_flops", True)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        out[name] = rate(2 * n**3, lambda: torch.mm(a, b, out=c))
    words = 1 << 28 if device == "cuda" else 1 << 22
    a = b = c = None
    x = torch.zeros(words, device=device)
    y = torch.empty_like(x)
    out["copy_bytes"] = rate(8 * words, lambda: y.copy_(x))  # read and written
    x = y = None
    if device == "cuda":
        out["ffma_nominal_flops"] = nominal_ffma(torch)
        for to_device in (True, False):
            for shift in range(12, 29, 4):  # 4 KiB to 256 MiB
                host = torch.empty(1 << shift, dtype=torch.uint8, pin_memory=True)
                card = torch.empty(1 << shift, dtype=torch.uint8, device=device)
                src, dst = (host, card) if to_device else (card, host)
                key = f"pcie_{'up' if to_device else 'down'}_{1 << shift}_bytes"
                out[key] = rate(1 << shift, lambda s=src, d=dst: d.copy_(s, non_blocking=True))
    return out


def bound(ceilings, units, inputs, streams, steps, members=1):
    """(name, stream-steps/s) of the tightest bound on our engine: multiply-adds, state rows, or samples over PCIe.

    A bank sends half of its inputs: the other half are differences. Of its
    rows only the states are counted here, so its bound is too high where rows
    are the bound.
    """
    sent = inputs if members == 1 else inputs // 2
    up = max((v for k, v in ceilings.items() if k.startswith("pcie_up")), default=None)
    limits = []
    flops = ceilings.get("ffma_nominal_flops") or ceilings.get("fp32_matrix_flops")
    if flops:
        limits.append((flops / (2 * members * units * (units + inputs)), "FFMA"))
    if ceilings.get("copy_bytes"):
        limits.append((ceilings["copy_bytes"] / (8 * members * units / steps), "memory"))
    if up:
        limits.append((up / (4 * sent), "PCIe"))
    return (lambda m: (m[1], m[0]))(min(limits)) if limits else None
