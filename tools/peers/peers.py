#!/usr/bin/env python3
"""What others reach on the workloads of `eusn-stream bench`, in turn with it.

    peers.py --ours PATH_OF_EUSN_STREAM [--gonum PATH] [--recipe PATH] [--threads 1]
             [--rounds 7] [--seconds 0.5] [--only WORKLOAD,...] [--json]

Each peer is a process of its own that does the same steps,
h' = h + eps tanh(M h + U x + b) in float32, in the fastest of several forms; of the
workload standard those of the bank of that name (docs/mixed-bank.md), with all that
its features need. Its results are first compared with float64, of standard with the
features of our engine. Then every round lets each peer, and
eusn-stream, work for a while, one after another; a ratio is the median over the
rounds of (ours / peer in the same round).

OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE are removed from the peers' environment:
where they are set to an old core, OpenBLAS runs at half its speed. Where OpenBLAS
does not know the processor and takes itself for one without AVX, the peers are told
the newest core that has what this one has, and a message says so. PyTorch gets
ATEN_CPU_CAPABILITY=avx512 where the CPU has AVX-512. ReservoirPy takes part where
RESERVOIRPY names the folder that holds its package.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
import forms  # noqa: E402

# name: (units, inputs, streams, samples a call)
NETWORKS = {"A": (100, 6, 1024, 128), "B": (200, 1, 1024, 128), "C": (50, 3, 4096, 128)}
BANK = (40, 50, 4, 1024, 32)  # members, units, inputs, streams, samples
STANDARD = (120, 16, 2, 128, 32)  # as BANK, of the recipe standard
SLOW = {"gonum": 8, "reservoirpy": 16}  # samples a call, for those that would take seconds


class Peer:
    """A process that works when told to."""

    def __init__(self, name, command, env):
        self.name = name
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.note = self.process.stdout.readline().strip()
        if not self.note.startswith("ready"):
            raise SystemExit(f"peers: {name} did not start: {self.note or 'see its messages above'}")
        self.note = self.note.removeprefix("ready").strip()

    def rate(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"peers: {self.name} ended: see its messages above")
        return float(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Ours:
    """eusn-stream bench, run anew each round."""

    name = "eusn-stream"

    def __init__(self, program, engine, workload, shape, threads):
        members, units, inputs, streams, steps = shape
        self.command = [program, "bench", "--only", "engine", "--json", "-q", "--engine", engine]
        self.command += ["--bank", "standard"] if workload == "standard" else ["--members", str(members), "--units", str(units)]
        for flag, value in (("inputs", inputs), ("streams", streams), ("steps", steps), ("threads", threads)):
            self.command += [f"--{flag}", str(value)]
        self.note = ""

    def rate(self, seconds):
        out = subprocess.run(self.command + ["--time", f"{seconds}s"], check=True, capture_output=True, text=True).stdout
        rows = [json.loads(line) for line in out.splitlines()]
        row = next(r for r in rows if r["bench"] == "engine")
        self.note = f"{row['engine']}, {100 * row.get('peak_share', 0):.0f} % of the FMA peak"
        if "issue_share" in row:
            self.note += f", {100 * row['issue_share']:.0f} % of the issue bound"
        return row["mstep_per_s"] * 1e6

    def close(self):
        pass


# OpenBLAS's names of cores without AVX: an unknown processor is the first.
WITHOUT_AVX = ("Prescott", "Katmai", "Core2", "Penryn", "Dunnington", "Nehalem", "Generic")


def openblas_core(env):
    """The core that OpenBLAS takes this processor for, or "" where there is no OpenBLAS to ask."""
    ask = ("import ctypes; lib = ctypes.CDLL('libopenblas.so.0'); lib.openblas_get_corename.restype = ctypes.c_char_p; "
           "print(lib.openblas_get_corename().decode())")
    told = subprocess.run([sys.executable, "-c", ask], env=env, capture_output=True, text=True)
    return told.stdout.strip() if told.returncode == 0 else ""


def environment(threads):
    env = dict(os.environ)
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "ATEN_CPU_CAPABILITY"):
        env.pop(name, None)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "GOMAXPROCS"):
        env[name] = str(threads)
    flags = set(open("/proc/cpuinfo").read().split())
    if "avx512f" in flags:
        env["ATEN_CPU_CAPABILITY"] = "avx512"
    core = openblas_core(env)
    if "avx2" in flags and core in WITHOUT_AVX:
        newest = "SkylakeX" if {"avx512f", "avx512vl", "avx512dq", "avx512bw"} <= flags else "Haswell"
        print(f"!! OpenBLAS takes this processor for {core}: OPENBLAS_CORETYPE={newest} for the peers", file=sys.stderr)
        env["OPENBLAS_CORETYPE"] = newest
    return env


def start(workload, shape, args):
    """Every contender on one workload; says loudly who is missing."""
    members, units, inputs, streams, steps = shape
    env = environment(args.threads)
    names = forms.MIXED if workload == "standard" else forms.BANKS if members else forms.NETWORKS
    more = [args.recipe] if workload == "standard" else []
    all = []
    for name in names:
        missing = forms.missing(name)
        if missing:
            print(f"!! {name} does not take part: {missing}", file=sys.stderr)
            continue
        size = [members, units, inputs, streams, SLOW.get(name, steps)]
        all.append(Peer(name, [sys.executable, forms.__file__, name, *map(str, size), *more], env))
    if args.gonum and not members:
        size = [units, inputs, streams, SLOW["gonum"]]
        all.append(Peer("gonum", [args.gonum, *map(str, size)], env))
    elif not members:
        print("!! gonum does not take part: give its program with --gonum", file=sys.stderr)
    return all


def compare(name, shape, args):
    ours = Ours(args.ours, args.engine, name, shape, args.threads)
    peers = start(name, shape, args)
    rates = {p.name: [] for p in [ours] + peers}
    for _ in range(args.rounds):
        for p in [ours] + peers:
            rates[p.name].append(p.rate(args.seconds))
    for p in [ours] + peers:
        p.close()
        ratio = statistics.median(a / b for a, b in zip(rates[ours.name], rates[p.name]))
        row = {
            "workload": name, "members": shape[0], "units": shape[1], "inputs": shape[2], "streams": shape[3], "threads": args.threads,
            "who": p.name, "mstep_per_s": statistics.median(rates[p.name]) / 1e6, "ours_over_this": ratio, "note": p.note,
        }
        if args.json:
            print(json.dumps(row), flush=True)
        else:
            print(f"{name:8} {p.name:12} {row['mstep_per_s']:9.3f} Mstep/s   ours is {ratio:7.2f} x   {p.note}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", required=True, help="the eusn-stream program")
    p.add_argument("--engine", default="auto", help="its engine")
    p.add_argument("--gonum", help="program built from tools/peers/gonum")
    p.add_argument("--recipe", help="program built from tools/peers/recipe, for standard")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--seconds", type=float, default=0.5, help="of each contender in each round")
    p.add_argument("--only", default="A,B,C,bank,standard", help="workloads")
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    for name in args.only.split(","):
        if name == "standard" and not args.recipe:
            print("!! standard is left out: give the program that draws it with --recipe", file=sys.stderr)
        elif name in ("bank", "standard"):
            compare(name, BANK if name == "bank" else STANDARD, args)
        elif name in NETWORKS:
            compare(name, (0, *NETWORKS[name]), args)
        else:
            p.error(f"--only {name}: want some of {', '.join(NETWORKS)}, bank, standard")


if __name__ == "__main__":
    main()
