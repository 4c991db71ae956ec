"""A bank of kind mixed (docs/mixed-bank.md) in NumPy and PyTorch, for forms.py.

Streams are columns: an array is members x units x streams. A block of streams goes
through all samples of a call. Counts are in bytes, so a call has at most 255 samples.
Inputs come already transformed; their lags are read from them, as the engine does.
"""
import json
import subprocess

TOLERANCE = 1e-3  # rounding may change the sign of an argument near 0: one count of 96 is 3e-4 here, a small mistake .005 or more
BOUND, CUBE = 1.5, -4 / 27  # the cubic


def load(np, program, recipe, inputs):
    """The bank as tools/peers/recipe draws it, with zeros where a member does not see an input."""
    bank = json.loads(subprocess.run([program, recipe, str(inputs // 2)], check=True, capture_output=True, text=True).stdout)
    if bank["Activation"] != "cubic":
        raise SystemExit(f"{recipe} has the activation {bank['Activation']}, the forms have cubic alone")
    taps, rest = bank["Members"][:bank["Taps"]], bank["Members"][bank["Taps"]:]

    def all(members, key, *shape, kind=np.float32):
        return np.array([m[key] for m in members], kind).reshape(len(members), *shape)
    u = np.zeros((len(rest), 16, inputs + 1), np.float32)  # the last column is the bias
    for r, m in enumerate(rest):
        u[r][:, m["Inputs"]] = np.reshape(m["Input"], (16, -1))
        u[r][:, -1] = m["Bias"]
    return {
        "lag": bank["MaxLag"], "inputs": all(taps, "Inputs", -1, kind=np.int64), "lags": all(taps, "Lags", -1, kind=np.int64),
        "taps": np.concatenate([all(taps, "Input", 16, -1), all(taps, "Bias", 16, 1)], 2), "leak": all(taps, "Recurrent", 16, 1),
        "matrix": all(rest, "Recurrent", 16, 16), "input": u.reshape(len(rest) * 16, -1),
        "series": np.array(bank["Inputs"], np.float32).transpose(1, 0, 2),  # samples x streams x inputs
        "features": np.array(bank["Features"]),
    }


def columns(np, net, x):
    """A block's inputs as rows to take, each of all streams: of input i the sample t is row i * length + lag + t;
    then a row of ones. And which rows the taps take at each sample, the ones last."""
    samples, streams, inputs = x.shape
    length = net["lag"] + samples
    rows = np.zeros((inputs, length, streams), np.float32)
    rows[:, net["lag"]:] = x.transpose(2, 0, 1)
    rows = np.concatenate([rows.reshape(-1, streams), np.ones((1, streams), np.float32)])
    first = net["inputs"] * length + net["lag"] - net["lags"]
    ones = np.full((len(first), 1), len(rows) - 1)
    takes = np.stack([np.concatenate([first + t, ones], 1) for t in range(samples)])
    now = np.concatenate([x.transpose(0, 2, 1), np.ones((samples, 1, streams), np.float32)], 1)
    return rows, takes, np.ascontiguousarray(now)


def numpy_mixed(np, net, x, block):
    """Every operation into an array that is there already."""
    if len(x) > 255:
        raise SystemExit(f"{len(x)} samples a call, want at most 255")
    parts = [columns(np, net, x[:, k:k + block]) for k in range(0, x.shape[1], block)]
    taps, members = len(net["taps"]), len(net["taps"]) + len(net["matrix"])
    cube, one = np.float32(CUBE), np.float32(1)

    def call():
        last = []
        for rows, takes, now in parts:
            shape = (members, 16, rows.shape[1])
            groups = (members * 2, 8, rows.shape[1])
            h, total, square, z, t = (np.zeros(shape, np.float32) for _ in range(5))
            top, below, above = (np.full(shape, v, np.float32) for v in (np.finfo(np.float32).min, -BOUND, BOUND))
            ppv, sc, win, lose = counts = [np.zeros(shape, np.uint8) for _ in range(4)]
            was, sign, flag = (np.zeros(shape, bool) for _ in range(3))
            seen = np.empty((*takes.shape[1:], rows.shape[1]), np.float32)
            four, two, best = (np.empty((groups[0], n, groups[2]), np.float32) for n in (4, 2, 1))
            zg, fg, bits = z.reshape(groups), flag.reshape(groups), flag.view(np.uint8)
            z0, z1, h0, h1, t0 = z[:taps], z[taps:], h[:taps], h[taps:], t[:taps]
            t1 = t[taps:].reshape(-1, shape[2])
            for take, sample in zip(takes, now):
                np.take(rows, take, axis=0, out=seen, mode="clip")
                np.matmul(net["taps"], seen, out=z0)
                np.multiply(net["leak"], h0, out=t0)
                z0 += t0
                np.matmul(net["matrix"], h1, out=z1)
                np.matmul(net["input"], sample, out=t1)
                z1 += t[taps:]
                np.maximum(top, z, out=top)
                np.greater(z, 0, out=sign)
                ppv += sign.view(np.uint8)
                np.not_equal(sign, was, out=flag)
                sc += bits
                was, sign = sign, was
                for extreme, count in ((np.maximum, win), (np.minimum, lose)):
                    extreme(zg[:, :4], zg[:, 4:], out=four)  # quicker than its reduce
                    extreme(four[:, :2], four[:, 2:], out=two)
                    extreme(two[:, :1], two[:, 1:], out=best)
                    np.equal(zg, best, out=fg)
                    count += bits
                np.minimum(z, above, out=z)  # three times as quick as with one number
                np.maximum(z, below, out=z)
                np.multiply(z, z, out=t)
                t *= cube
                t += one
                t *= z
                h += t
                total += h
                np.multiply(h, h, out=t)
                square += t
            last.append([h, total, square, top, *counts])
        return [np.concatenate(one, 2) for one in zip(*last)]
    return call


def torch_mixed(torch, np, net, x, block):
    """As numpy_mixed, with the products and sums that PyTorch has in one, and counts in float32: its comparisons
    are slow where they give bytes."""
    parts = [[torch.from_numpy(a) for a in columns(np, net, x[:, k:k + block])] for k in range(0, x.shape[1], block)]
    weights, leak, matrix, input = (torch.from_numpy(net[k]) for k in ("taps", "leak", "matrix", "input"))
    taps, members = len(weights), len(weights) + len(matrix)

    @torch.no_grad()
    def call():
        last = []
        for rows, takes, now in parts:
            shape = (members, 16, rows.shape[1])
            groups = (members * 2, 8, rows.shape[1])
            h, total, square, z, t, was, sign, flag = (torch.zeros(shape) for _ in range(8))
            top = torch.full(shape, torch.finfo(torch.float32).min)
            ppv, sc, win, lose = counts = [torch.zeros(shape) for _ in range(4)]
            seen = torch.empty(takes[0].numel(), rows.shape[1])
            four, two, best = (torch.empty(groups[0], n, groups[2]) for n in (4, 2, 1))
            zg, fg = z.view(groups), flag.view(groups)
            z0, z1, h0, h1, t1 = z[:taps], z[taps:], h[:taps], h[taps:], t[taps:]
            for take, sample in zip(takes, now):
                torch.index_select(rows, 0, take.view(-1), out=seen)
                torch.bmm(weights, seen.view(taps, -1, shape[2]), out=z0)
                z0.addcmul_(leak, h0)
                torch.mm(input, sample, out=t1.view(-1, shape[2]))
                torch.baddbmm(t1, matrix, h1, out=z1)
                torch.maximum(top, z, out=top)
                torch.gt(z, 0, out=sign)
                ppv.add_(sign)
                torch.ne(sign, was, out=flag)
                sc.add_(flag)
                was, sign = sign, was
                for extreme, count in ((torch.maximum, win), (torch.minimum, lose)):
                    extreme(zg[:, :4], zg[:, 4:], out=four)
                    extreme(four[:, :2], four[:, 2:], out=two)
                    extreme(two[:, :1], two[:, 1:], out=best)
                    torch.eq(zg, best, out=fg)
                    count.add_(flag)
                z.clamp_(-BOUND, BOUND)
                torch.mul(z, z, out=t)
                h.add_(z).addcmul_(t, z, value=CUBE)
                total.add_(h)
                square.addcmul_(h, h)
            last.append([h, total, square, top, *counts])
        return [torch.cat(one, 2).numpy() for one in zip(*last)]
    return call


def features(np, state, samples):
    """What the engine reports of each stream: of each member the eight features of its units."""
    h, total, square, top, ppv, sc, win, lose = (a.astype(np.float64) for a in state)
    mean = total / samples
    std = np.sqrt(np.maximum(square / samples - mean * mean, 0))
    c = np.clip(top, -BOUND, BOUND)
    all = [h, mean, ppv / samples, c + CUBE * c ** 3, std, sc / samples, win / samples, lose / samples]
    return np.stack(all, 1).reshape(-1, h.shape[2]).T


def forms(np, name, program, inputs, streams, samples):
    """Forms of a peer: its name, the call to time, and the features of a few short series, of the form and of the engine.
    Each of the eight features has the same weight in the comparison."""
    net = load(np, program, "standard", inputs)
    x = np.random.default_rng(3).standard_normal((samples, streams, inputs)).astype(np.float32)
    if name == "torch-mixed":
        import torch
        form, of = torch_mixed, (torch, np)
    else:
        form, of = numpy_mixed, (np,)
    short = net["series"]
    for k in sorted({min(streams, k) for k in (8, 16, 32, 64, 128)}):
        got = features(np, form(*of, net, short, 2)(), len(short))  # two blocks
        got, want = (f.reshape(len(f), -1, 8, 16) for f in (got, net["features"]))
        scale = np.sqrt((want ** 2).sum((0, 1, 3), keepdims=True))
        yield f"{k} streams a block", form(*of, net, x, k), got / scale, want / scale
