package kernels

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/clang"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/ptx"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// mutant is a bug planted in a source file. old must be there; the first is
// replaced. Some shape must then fail.
type mutant struct {
	name, file, old, new string
}

var mutants = []mutant{
	{"ragged lengths ignored", "resident.h", "const bool has = t < count[q];", "const bool has = count[q] > 0;"},
	{"one sample too many", "resident.h", "const bool has = t < count[q];", "const bool has = t <= count[q];"},
	{"resets ignored", "resident.h", "s < live && !(run_of(a, first + s).flags & RUN_RESET)", "s < live"},
	{"tail of a tile read past the runs", "resident.h", "const u32 has = s < live ? run_of", "const u32 has = s <= live ? run_of"},
	{"slot not used on the way back", "resident.h", "float *to = (float *)member_words(run_of(a, first + s).slot)", "float *to = (float *)member_words(first + s)"},
	{"products with the neighbor's weights", "resident.h", "const float *w = weights + p.stride;", "const float *w = weights + p.stride + 1;"},
	{"states before inputs", "resident.h", "w += m.count * p.stride;\n    if (!(p.flags & SHAPE_RING)) {\n      products<UNITS, STREAMS>(z, w, p.stride, ug, ugs, states, TILE, sg, SGS, p.units);",
		"w += m.count * p.stride;\n    if (!(p.flags & SHAPE_RING)) {\n      products<UNITS, STREAMS>(z, w + p.stride, p.stride, ug, ugs, states + TILE, TILE, sg, SGS, p.units - 1);\n      products<UNITS, STREAMS>(z, w, p.stride, ug, ugs, states, TILE, sg, SGS, 1);"},
	{"ring turned the other way", "resident.h", "u == 0 ? p.units - 1 : u - 1", "u + 1 == p.units ? 0 : u + 1"},
	{"keep forgotten", "resident.h", "m.keep * h[q]", "h[q]"},
	{"fold one sample late", "resident.h", "run_of(a, first + s).steps + 1 & 255", "run_of(a, first + s).steps & 255"},
	{"low sum kept after folding", "resident.h", "        low[i][q] = 0.f;\n", ""},
	{"high sum survives a reset", "resident.h", "member_words(run.slot)[at + u] = 0", ";"},
	{"maximum starts at 0", "resident.h", "move<LOAD>(p.maximum, acc.most, -1.f)", "move<LOAD>(p.maximum, acc.most, 0.f)"},
	{"zero counts as positive", "resident.h", "has && z > 0.f", "has && z >= 0.f"},
	{"first staged sample only", "resident.h", "arguments(z, t);", "arguments(z, 0);"},
	{"product and sum rounded apart", "device.h", "sum[i][q] = FMA(w[i], x[q], sum[i][q])", "sum[i][q] = w[i] * x[q] + sum[i][q]"},
	{"tanh one interval off", "device.h", "table + (v >> 21 & 15)", "table + (v >> 21 & 14)"},
	{"tanh without its sign", "device.h", "FLOAT_OF(BITS_OF(r) | (bits & 0x80000000u))", "r"},
	{"tanh unbounded", "device.h", "a = MIN(a, 9.015625f);", ""},
	{"a difference at the first sample", "device.h", "if (run.steps + t == 0) return 0.f;", ""},
	{"difference with the wrong sample", "device.h", "*(sample - p.channels)", "*sample"},
	{"transform's product first", "device.h", "(*sample - norm[0]) * norm[p.channels]", "*sample * norm[p.channels] - norm[0] * norm[p.channels]"},
	{"streamed: same place for old and new", "streamed.h", "if ((a.step + after & 1) == 0)", "if (true)"},
	{"streamed: reset ignored", "streamed.h", "return a.step == 0 && (run.flags & RUN_RESET);", "return false;"},
	{"streamed: reset at every sample", "streamed.h", "return a.step == 0 && (run.flags & RUN_RESET);", "return run.flags & RUN_RESET;"},
	{"streamed: unit tiles overlap", "streamed.h", "unit0 = BLOCK_Y * UNIT_TILE", "unit0 = BLOCK_Y * (UNIT_TILE - 4)"},
	{"streamed: stale buffer", "streamed.h", "put(j + 1 & 1)", "put(j & 1)"},
	{"streamed: last chunk full", "streamed.h", "const u32 depth = MIN((inputs ? m.count : p.units) - from, (u32)DEPTH);", "const u32 depth = DEPTH;"},
	{"streamed: sum before fold lost", "streamed.h", "if (fold) f[high + u] += v;", "if (fold) f[high + u] += f[low + u];"},
	{"finish: count not advanced", "finish.h", "run.steps + run.count;", "run.steps;"},
	{"finish: first sample kept as previous", "finish.h", "(run.from + run.count - 1)", "run.from"},
	{"finish: empty reset leaves the row", "finish.h", "const bool clear = run.count == 0 && (run.flags & RUN_RESET);", "const bool clear = false;"},
	{"finish: streamed states left in Work", "finish.h", "(run.count & 1)", "!(run.count & 1)"},
	{"finish: maximum cleared to 0", "finish.h", "maximum ? BITS_OF(-1.f) : 0", "0"},
	{"scores: mean without the high sum", "scores.h", "const float mean = (f[p.sum_high + u] + f[p.sum_low + u]) / n;", "const float mean = f[p.sum_low + u] / n;"},
	{"scores: count before the run", "scores.h", "const u32 n = run.steps + run.count;", "const u32 n = run.steps;"},
	{"scores: square root of a negative", "scores.h", "v > 0.f ? __builtin_sqrtf(v) : 0.f", "__builtin_sqrtf(v)"},
	{"scores: not centered", "scores.h", "f - middle", "f"},
	{"scores: no limit above", "scores.h", "if (d > limit) d = limit;", ""},
	{"scores: no limit below", "scores.h", "if (d < -limit) d = -limit;", ""},
	{"scores: score row of the round", "scores.h", "(u64)run.score * p.score_width", "(u64)(first + eg * 2 + e) * p.score_width"},
	{"tensor: low part of the weights dropped", "tensor.h", "if (PRODUCTS == 3) multiply", "if (PRODUCTS == 9) multiply"},
	{"tensor: low part of the values dropped", "tensor.h", "multiply(part, wh[m][k], xl[k]);", ";"},
	{"tensor: fragment rows swapped", "tensor.h", "g + i % 2 * 8], wh", "g + i / 2 * 8], wh"},
	{"tensor: values not split", "tensor.h", "high = tf32(x);", "high = BITS_OF(x);"},
	{"tensor: sums of the other streams", "tensor.h", "n * 8 + 2 * c + i % 2][u]", "n * 8 + 2 * c + 1 - i % 2][u]"},
	{"tensor: sums counted twice", "tensor.h", "float part[4] = {};", "float (&part)[4] = sum[m][n];"},
	{"scores: columns that do not exist", "scores.h", "cg * 2 + c >= tile.columns", "false"},
	{"mixed: lags one too long", "mixed.h", "x[k] = w.at + (s & 0xffff) * w.width + w.lags - (s >> 16);", "x[k] = w.at + (s & 0xffff) * w.width + w.lags - (s >> 16) - 1;"},
	{"mixed: lags ignored", "mixed.h", "x[k] = w.at + (s & 0xffff) * w.width + w.lags - (s >> 16);", "x[k] = w.at + (s & 0xffff) * w.width + w.lags;"},
	{"mixed: ring from its first word", "mixed.h", "lags > 0 ? run.steps % lags : 0", "0"},
	{"mixed: ring not turned round", "mixed.h", "from + k < lags ? from + k : from + k - lags", "k"},
	{"mixed: past survives a reset", "mixed.h", "run.flags & RUN_RESET ? 0.f : ring", "false ? 0.f : ring"},
	{"mixed: past not moved between chunks", "mixed.h", "if (has) *to = v;", "if (!has) *to = v;"},
	{"mixed: past moved by a whole chunk", "mixed.h", "window.shift(n)", "window.shift(a.chunk)"},
	{"mixed: inputs of the run's first samples in every chunk", "mixed.h", "input(a, run, t0 + t, seen[i])", "input(a, run, t, seen[i])"},
	{"mixed: window written while it is read", "mixed.h", "BARRIER();  // the window of the run before has been read; all lanes are here", ""},
	{"mixed: states exchanged in one place", "mixed.h", "held + t % 2 * MIXED_UNITS", "held"},
	{"mixed: states of the member beside", "mixed.h", "(q * 8 + THREAD % 8) * 4", "(q * 8 + (THREAD ^ 1) % 8) * 4"},
	{"mixed: sources of one member for all", "mixed.h", "count = image(a)[b.counts + THREAD % 8]", "count = image(a)[b.counts]"},
	{"mixed: own state before the taps", "mixed.h", "UNROLL for (int j = 0; j < 4; j++) z[j] = bias[j];", "UNROLL for (int j = 0; j < 4; j++) z[j] = FMA(own[j], h[j], bias[j]);"},
	{"mixed: group of a quarter", "mixed.h", "exchange(largest, 8)", "largest"},
	{"mixed: group of the wrong lanes", "mixed.h", "exchange(smallest, 8)", "exchange(smallest, 16)"},
	{"mixed: one loser of equals", "mixed.h", "(u32)(z[j] == smallest)", "(u32)(z[j] == smallest && j < 3)"},
	{"mixed: zero is positive", "mixed.h", "z[j] > 0.f ? MIXED_SIGN : 0", "z[j] >= 0.f ? MIXED_SIGN : 0"},
	{"mixed: changes from the sample counted before", "mixed.h", "UNROLL for (int j = 0; j < 4; j++) u.positive[j] = sign[j];", "if (((next + t + 1) & (every - 1)) == 0) UNROLL for (int j = 0; j < 4; j++) u.positive[j] = sign[j];"},
	{"mixed: changes are rises", "mixed.h", "sign[j] ^ (positive[j] & 0xffff0000u)", "sign[j] & ~(positive[j] & 0xffff0000u)"},
	{"mixed: all samples counted", "mixed.h", "if (((next + t + 1) & (every - 1)) == 0) u.count(z, sign);", "u.count(z, sign);"},
	{"mixed: never halved", "mixed.h", "u.halve(), every *= 2", "every *= 2"},
	{"mixed: halved, and all counted again", "mixed.h", "u.halve(), every *= 2", "u.halve()"},
	{"mixed: halves run into each other", "mixed.h", "signs[j] >> 1 & 0x7fff7fffu", "signs[j] >> 1"},
	{"mixed: chunk over the place of halving", "mixed.h", "MIN(MIN(run.count - t0, a.chunk), (every << 15) - next)", "MIN(run.count - t0, a.chunk)"},
	{"mixed: stride one sample late", "mixed.h", "for (; t >> 15 >= s; s *= 2) {}", "for (; t - 1 >> 15 >= s && t > 0; s *= 2) {}"},
	{"mixed: counts of the neighbor", "mixed.h", "signs[j] = odd ? got : even, ends[j] = odd ? other : got;", "signs[j] = odd ? even : got, ends[j] = odd ? got : other;"},
	{"mixed: counts not swapped back", "mixed.h", "const u32 got = swap(odd ? signs[j] : ends[j]);", "const u32 got = odd ? signs[j] : ends[j];"},
	{"mixed: signs of one member", "mixed.h", "d < 8; d *= 2) sign |=", "d < 4; d *= 2) sign |="},
	{"mixed: reset ignored", "mixed.h", "if (run.flags & RUN_RESET) u.reset();\n    else u.read", "u.read"},
	{"mixed: second run of a warp in the first one's row", "mixed.h", "i += GRID_X) {\n    const Run &run = run_of(a, i);", "i += GRID_X) {\n    const Run &run = run_of(a, BLOCK_X);"},
	{"mixed: runs of other warps left out", "mixed.h", "i < a.run_count; i += GRID_X", "i < GRID_X; i += GRID_X"},
	{"mixed: cubic rounded once more", "mixed.h", "return FMA(c * (-4.f / 27.f), c * c, h + c);", "return c * (-4.f / 27.f) * (c * c) + (h + c);"},
	{"mixed: cubic without its limit", "mixed.h", "const float c = LIMIT(z, 1.5f);", "const float c = z;"},
	{"mixed: clip without its limit", "mixed.h", "h + LIMIT(z, 1.f)", "h + z"},
	{"mixed finish: ring one place on", "mixed.h", "(end + a.bank.lags - 1 - slot) % a.bank.lags", "(end + a.bank.lags - slot) % a.bank.lags"},
	{"mixed finish: old ring after a reset", "mixed.h", "else if (fresh) row[a.bank.ring + e] = 0;", ""},
	{"mixed finish: previous sample replaced too early", "mixed.h", "  BARRIER();  // input reads the previous sample\n", ""},
	{"mixed finish: ring takes the sample before", "mixed.h", "if (before < run.count) row[a.bank.ring + e] = BITS_OF(input(a, run, run.count - 1 - before, i));", "if (before < run.count) row[a.bank.ring + e] = BITS_OF(input(a, run, run.count - 1, i));"},
	{"mixed finish: maximum cleared to 0", "mixed.h", "w % MIXED_BLOCK / MIXED_UNITS == 3 ? BITS_OF(MIXED_LOWEST) : 0", "0"},
	{"mixed finish: signs survive", "mixed.h", "w < blocks * MIXED_SIGNS; w += THREADS", "w < 0; w += THREADS"},
	{"mixed scores: all samples counted", "scores.h", "(float)(n / mixed_stride(n))", "(float)n"},
	{"mixed scores: argument in place of its activation", "scores.h", "activate<0>(a, 0.f, f[3 * MIXED_UNITS])", "f[3 * MIXED_UNITS]"},
	{"mixed scores: count of the member beside", "scores.h", "place % 2 * 16 & 0xffff", "(place + 1) % 2 * 16 & 0xffff"},
}

// TestMutants proves that the shapes notice planted bugs: here a few, all with
// EUSN_MUTANTS=all (make ptx-mutants).
func TestMutants(t *testing.T) {
	if !clang.Installed(clang.Compiler) {
		parts.Absent(t, "clang", "no bug is planted in the sources: %s is not here", clang.Compiler)
	}
	for i, mu := range mutants {
		if text, err := os.ReadFile(mu.file); err != nil || !strings.Contains(string(text), mu.old) {
			t.Errorf("%s: %s has no %q (%v): plant the bug elsewhere", mu.name, mu.file, mu.old, err)
			continue
		}
		if os.Getenv("EUSN_MUTANTS") != "all" && i%20 != 0 {
			continue
		}
		t.Run(mu.name, func(t *testing.T) {
			dir := t.TempDir()
			copyFiles(t, dir)
			path := filepath.Join(dir, mu.file)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text = []byte(strings.Replace(string(text), mu.old, mu.new, 1))
			// Compiling one file is enough: the other kernels stay unchanged.
			unit := mu.file
			if unit == "device.h" {
				unit = "resident.h"
			}
			if err := errorOf(os.WriteFile(path, text, 0o644), os.WriteFile(filepath.Join(dir, "eusn.cu"), fmt.Appendf(nil, "#include %q\n", unit), 0o644)); err != nil {
				t.Fatal(err)
			}
			spoilt, err := clang.PTX.Compile(dir, "-w")
			if err != nil {
				t.Fatal(err)
			}
			caught(t, string(spoilt), "")
		})
	}
}

// TestBarrierMutants removes one barrier after another.
func TestBarrierMutants(t *testing.T) {
	barriers := regexp.MustCompile(`bar\.sync\s+0;`).FindAllStringIndex(PTX, -1)
	if len(barriers) < 20 {
		t.Fatalf("%d barriers found, want the kernels'", len(barriers))
	}
	for i, at := range barriers {
		if os.Getenv("EUSN_MUTANTS") != "all" && i%9 != 0 {
			continue
		}
		line := strings.Count(PTX[:at[0]], "\n") + 1
		t.Run(fmt.Sprintf("line %d", line), func(t *testing.T) {
			_, rest, _ := strings.Cut(PTX[strings.LastIndex(PTX[:at[0]], ".visible .entry"):], ".entry ")
			kernel, _, _ := strings.Cut(rest, "(")
			caught(t, PTX[:at[0]]+PTX[at[1]:], kernel)
		})
	}
}

// launches returns the kernels that a shape may launch.
func (s *shape) launches() []string {
	if s.kernels == "" {
		return Names
	}
	names := []string{"eusn_finish", "eusn_scores"}
	if s.spec.Kind == reservoir.Mixed {
		names = []string{"eusn_mixed_finish", "eusn_mixed_scores"}
	}
	for _, k := range strings.Fields(s.kernels) {
		names = append(names, "eusn_"+k)
	}
	return names
}

// caught fails if every shape passes with a module's kernels in place of ours.
// For a given kernel, caught runs only shapes that launch the kernel.
func caught(t *testing.T, text, kernel string) {
	t.Helper()
	ours, err := module()
	if err != nil {
		t.Fatal(err)
	}
	m, err := ptx.Parse(text)
	if err != nil {
		t.Logf("caught: %v", err)
		return
	}
	for _, s := range shapes {
		// A shape without the changed kernel proves nothing.
		if !slices.ContainsFunc(s.launches(), func(name string) bool { return m.Kernel(name) != nil && (kernel == "" || kernel == name) }) {
			continue
		}
		if _, err := s.compare([]*ptx.Module{m, ours}); err != nil {
			t.Logf("caught by %s: %v", s.name, err)
			return
		}
	}
	for i, c := range tensorCases {
		if m.Kernel(Names[len(Names)-len(tensors)+i]) == nil || kernel != "" && !strings.Contains(kernel, "tensor") {
			continue
		}
		switch got, _, err := tensorError([]*ptx.Module{m, ours}, i, 20); {
		case err != nil:
			t.Logf("caught by %s: %v", c.name, err)
			return
		case got > tensorLimit:
			t.Logf("caught by %s: relative error %.3g", c.name, got)
			return
		}
	}
	t.Error("no shape noticed")
}
