"""The fused step in Triton: a block keeps the states of some streams over all samples.

Not yet run: it needs a GPU. gpu_peers.py compares it with float64 before it is timed.
"""
import triton
import triton.language as tl


@triton.jit
def advance(h_in, h_out, z, m, streams, steps, units, eps, ROWS: tl.constexpr, UNITS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    unit = tl.arange(0, UNITS)
    here = (row[:, None] < streams) & (unit[None, :] < units)
    at = row[:, None] * units + unit[None, :]
    h = tl.load(h_in + at, mask=here, other=0.0)
    # m's transpose: column i holds the weights of unit i
    w = tl.load(m + unit[None, :] * units + unit[:, None], mask=(unit[:, None] < units) & (unit[None, :] < units), other=0.0)
    for t in range(steps):
        s = tl.load(z + t * streams * units + at, mask=here, other=0.0)
        s += tl.dot(h, w, input_precision="ieee")
        h += eps * (2.0 * tl.sigmoid(2.0 * s) - 1.0)  # tanh; units beyond the last stay 0
    tl.store(h_out + at, h, mask=here)


def make(torch, m, u, b, h, x, eps):
    units = h.shape[1]
    padded = max(16, triton.next_power_of_2(units))
    if padded > 256:
        raise SystemExit("the weights do not fit a block: more than 256 units")
    out = torch.empty_like(h)
    rows = 16 if padded > 128 else 32

    def call():
        z = torch.addmm(b, x.reshape(-1, x.shape[2]), u.T)  # steps x streams x units
        advance[(triton.cdiv(h.shape[0], rows),)](h, out, z, m, h.shape[0], x.shape[0], units, eps, ROWS=rows, UNITS=padded)
        return out

    return call
