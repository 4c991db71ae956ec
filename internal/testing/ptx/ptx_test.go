package ptx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
)

const header = ".version 7.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 dyn[];\n"

// kernelText wraps a body in a kernel: %r, %f, %rd and %p registers, and a parameter of
// two addresses in %rd1 (input) and %rd2 (output), the thread in %r1, 4*thread in %rd3.
func kernelText(body string) string {
	return header + `.visible .entry k(.param .align 8 .b8 k_param[16])
{
	.reg .pred %p<8>;
	.reg .b16 %rs<4>;
	.reg .b32 %r<32>;
	.reg .f32 %f<32>;
	.reg .b64 %rd<32>;
	.shared .align 16 .b8 fixed[64];
	ld.param.u64 %rd1, [k_param];
	ld.param.u64 %rd2, [k_param+8];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 4;
	add.s64 %rd1, %rd1, %rd3;
	add.s64 %rd2, %rd2, %rd3;
` + body + "\n\tret;\n}\n"
}

// launch runs the body on a number of threads, with input words, and returns as many
// output words.
func launch(t testing.TB, body string, threads, blocks, shared int, in ...uint32) ([]uint32, error) {
	t.Helper()
	m, err := Parse(kernelText(body))
	if err != nil {
		t.Fatal(err)
	}
	var mem Memory
	a, from := mem.Alloc(4 * len(in))
	b, to := mem.Alloc(4 * threads)
	for i, v := range in {
		binary.LittleEndian.PutUint32(from[4*i:], v)
	}
	if err := mem.Written(a, 4*len(in)); err != nil {
		t.Fatal(err)
	}
	params := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, a), b)
	err = m.Launch(&mem, Launch{Kernel: "k", Grid: [3]uint32{uint32(blocks), 1, 1}, Block: [3]uint32{uint32(threads), 1, 1}, Shared: shared, Params: params, Limit: 1 << 20})
	out := make([]uint32, threads)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(to[4*i:])
	}
	return out, err
}

// TestArithmetic: each instruction on values that distinguish it from similar
// instructions.
func TestArithmetic(t *testing.T) {
	const one, tiny = 0x3f800000, 0x00000001
	for _, c := range []struct {
		body string // of %r2 and %r3 to %r4, or %f2 and %f3 to %f4
		a, b uint32
		want uint32
	}{
		{"sub.s32 %r4, %r2, %r3", 3, 5, 0xfffffffe},
		{"mul.lo.s32 %r4, %r2, %r3", 0x10001, 0x10001, 0x20001},
		{"mul.hi.u32 %r4, %r2, %r3", 0xffffffff, 0x80000002, 0x80000001},
		{"mad.lo.s32 %r4, %r2, %r3, 7", 3, 5, 22},
		{"div.u32 %r4, %r2, %r3", 0xfffffffe, 3, 0x55555554},
		{"rem.u32 %r4, %r2, %r3", 17, 5, 2},
		{"shl.b32 %r4, %r2, %r3", 1, 33, 0},
		{"shr.s32 %r4, %r2, %r3", 0x80000000, 31, 0xffffffff},
		{"shr.u32 %r4, %r2, %r3", 0x80000000, 31, 1},
		{"bfe.u32 %r4, %r2, 21, 4", 0x01e00000 | 1<<25, 0, 15},
		{"min.u32 %r4, %r2, %r3", 0xffffffff, 1, 1},
		{"min.s32 %r4, %r2, %r3", 0xffffffff, 1, 0xffffffff},
		{"setp.lt.s32 %p1, %r2, %r3; selp.b32 %r4, 1, 2, %p1", 0xffffffff, 0, 1},
		{"setp.lt.u32 %p1, %r2, %r3; selp.b32 %r4, 1, 2, %p1", 0xffffffff, 0, 2},
		{"setp.gt.u32 %p1, %r2, %r3; not.pred %p2, %p1; xor.pred %p3, %p2, -1; selp.b32 %r4, 1, 2, %p3", 2, 1, 1},
		{"mul.wide.u32 %rd9, %r2, %r3; shr.u64 %rd9, %rd9, 32; cvt.u32.u64 %r4, %rd9", 0xffffffff, 0xffffffff, 0xfffffffe},
		{"mul.wide.s32 %rd9, %r2, %r3; shr.u64 %rd9, %rd9, 32; cvt.u32.u64 %r4, %rd9", 0xffffffff, 5, 0xffffffff},
		{"cvt.u64.u32 %rd9, %r2; neg.s64 %rd9, %rd9; cvt.u32.u64 %r4, %rd9", 1, 0, 0xffffffff},
		{"cvt.rn.f32.u32 %f4, %r2; mov.b32 %r4, %f4", 0xffffffff, 0, 0x4f800000},
		{"cvt.u16.u32 %rs1, %r2; setp.eq.s16 %p1, %rs1, 0; selp.b32 %r4, 1, 2, %p1", 0x10000, 0, 1},
		{"mov.b32 %f2, %r2; mov.b32 %f3, %r3; fma.rn.f32 %f4, %f2, %f3, 0fBF800000; mov.b32 %r4, %f4", one + 1, one - 1, 0x337ffffe},
		{"mov.b32 %f2, %r2; mov.b32 %f3, %r3; add.rn.f32 %f4, %f2, %f3; mov.b32 %r4, %f4", tiny, tiny, 2},
		{"mov.b32 %f2, %r2; mov.b32 %f3, %r3; div.rn.f32 %f4, %f2, %f3; mov.b32 %r4, %f4", one, 0x40400000, 0x3eaaaaab},
		{"mov.b32 %f2, %r2; sqrt.rn.f32 %f4, %f2; mov.b32 %r4, %f4", 0x40000000, 0, 0x3fb504f3},
		{"mov.b32 %f2, %r2; mov.b32 %f3, %r3; min.f32 %f4, %f2, %f3; mov.b32 %r4, %f4", 0x7fc00000, one, one},
		{"mov.b32 %f2, %r2; mov.b32 %f3, %r3; min.f32 %f4, %f2, %f3; mov.b32 %r4, %f4", 0, 0x80000000, 0x80000000},
		{"mov.b32 %f2, %r2; abs.f32 %f3, %f2; neg.f32 %f4, %f3; mov.b32 %r4, %f4", 0x80000000, 0, 0x80000000},
		{"mov.b32 %f2, %r2; mov.b32 %f3, %r3; setp.gt.f32 %p1, %f2, %f3; selp.b32 %r4, 1, 2, %p1", 0x7fc00000, 0, 2},
		{"mov.b32 %f2, %r2; mov.b32 %f3, %r3; setp.leu.f32 %p1, %f2, %f3; selp.b32 %r4, 1, 2, %p1", 0x7fc00000, 0, 1},
	} {
		out, err := launch(t, "ld.global.u32 %r2, [%rd1]; ld.global.u32 %r3, [%rd1+4];\n"+c.body+"; st.global.u32 [%rd2], %r4;", 1, 1, 0, c.a, c.b)
		if err != nil || out[0] != c.want {
			t.Errorf("%s of %#x, %#x: %#x (%v), want %#x", c.body, c.a, c.b, out[0], err, c.want)
		}
	}
}

// TestDivergence: lanes diverge and reconverge, in a loop of different lengths and in
// both ways of a branch; 40 threads, so that a warp is not full.
func TestDivergence(t *testing.T) {
	body := `
	mov.u32 %r2, 0;
	mov.u32 %r3, %r1;
LOOP:
	setp.eq.s32 %p1, %r3, 0;
	@%p1 bra DONE;
	add.s32 %r2, %r2, %r3;
	sub.s32 %r3, %r3, 1;
	bra LOOP;
DONE:
	and.b32 %r4, %r1, 1;
	setp.eq.s32 %p2, %r4, 0;
	@!%p2 bra ODD;
	add.s32 %r2, %r2, 1000;
	bra.uni END;
ODD:
	add.s32 %r2, %r2, 2000;
END:
	@%p2 add.s32 %r2, %r2, 10000;
	bar.sync 0;
	st.global.u32 [%rd2], %r2;`
	out, err := launch(t, body, 40, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range out {
		if want := uint32(i*(i+1)/2 + 11000 - i%2*9000); v != want {
			t.Errorf("thread %d: %d, want %d", i, v, want)
		}
	}
}

// TestShared: an exchange through shared memory, fixed and dynamic.
func TestShared(t *testing.T) {
	body := `
	mov.u64 %rd4, dyn;
	add.s64 %rd5, %rd4, %rd3;
	ld.global.u32 %r2, [%rd1];
	st.shared.u32 [%rd5], %r2;
	bar.sync 0;
	xor.b32 %r3, %r1, 35;
	mul.wide.u32 %rd6, %r3, 4;
	add.s64 %rd6, %rd4, %rd6;
	ld.shared.u32 %r4, [%rd6];
	setp.ne.s32 %p1, %r1, 0;
	@%p1 bra L;
	st.shared.v4.u32 [fixed+16], {%r2, %r2, %r2, %r4};
L:
	bar.sync 0;
	ld.shared.v2.u32 {%r5, %r6}, [fixed+24];
	add.s32 %r4, %r4, %r6;
	st.global.u32 [%rd2], %r4;`
	in := make([]uint32, 64)
	for i := range in {
		in[i] = uint32(100 + i)
	}
	out, err := launch(t, body, 64, 1, 256, in...)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range out {
		if want := uint32(100 + (i ^ 35) + 135); v != want {
			t.Errorf("thread %d: %d, want %d", i, v, want)
		}
	}
}

// TestChecks: faults that must end a launch, with the thread and the line in the error.
func TestChecks(t *testing.T) {
	for _, c := range []struct {
		name, body string
		blocks     int
		want       string
		thread     int
	}{
		{"below", "ld.global.u32 %r2, [%rd1+-4];", 1, "in no allocation", 0},
		{"beyond", "ld.global.u32 %r2, [%rd1+128];", 1, "in no allocation", 32},
		{"over the end", "ld.param.u64 %rd1, [k_param]; ld.global.v2.u32 {%r2, %r3}, [%rd1+252];", 1, "run over the end", 0},
		{"last word", "ld.param.u64 %rd1, [k_param]; ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1+240]; ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1+256];", 1, "in no allocation", 0},
		{"misaligned", "ld.global.u32 %r2, [%rd1+2];", 1, "misaligned", 0},
		{"nothing wrote", "ld.global.u32 %r2, [%rd2];", 1, "nothing wrote", 0},
		{"shared beyond", "st.shared.u32 [%rd3+300], %r1;", 1, "the block has 320", 5},
		{"shared misaligned", "ld.shared.u32 %r2, [fixed+1];", 1, "misaligned", 0},
		{"shared nothing wrote", "ld.shared.u32 %r2, [fixed];", 1, "nothing wrote", 0},
		{"parameter beyond", "ld.param.u32 %r2, [k_param+16];", 1, "parameter byte 16 of 16", 0},
		{"shared race", "mov.u64 %rd4, dyn; add.s64 %rd5, %rd4, %rd3; st.shared.u32 [%rd5], %r1; ld.shared.u32 %r2, [dyn+64];", 1, "race: shared word 0x80 was written by thread 16", 0},
		{"shared race, two writers", "st.shared.u32 [fixed], %r1;", 1, "was written by thread 0", 1},
		{"shared race, reader first", "mov.u64 %rd4, dyn; add.s64 %rd5, %rd4, %rd3; st.shared.u32 [%rd5], %r1; bar.sync 0; ld.shared.u32 %r2, [dyn]; st.shared.u32 [%rd5], %r1;", 1, "was read by several threads", 0},
		{"global race in a block", "st.global.u32 [%rd2], %r1; ld.param.u64 %rd4, [k_param+8]; ld.global.u32 %r2, [%rd4+8];", 1, "was written by thread 2 of block 0", 0},
		{"global race of blocks", "st.global.u32 [%rd2], %r1;", 2, "was written by thread 0 of block 0", 0},
		{"global race, read before", "mov.u32 %r4, %ctaid.x; setp.eq.s32 %p1, %r4, 0; @%p1 bra L; st.global.u32 [%rd1], %r1; L: ld.global.u32 %r2, [%rd1];", 2, "was read by thread 0 of block 0", 0},
		{"barrier not reached", "setp.gt.u32 %p1, %r1, 40; @%p1 bra L; bar.sync 0; L:", 1, "barrier divergence: 41 of 64", -1},
		{"two barriers", "setp.gt.u32 %p1, %r1, 31; @%p1 bra L; bar.sync 0; bra M; L: bar.sync 0; M:", 1, "barrier divergence: other threads wait", -1},
		{"endless", "L: bra L;", 1, "limit of instructions", -1},
	} {
		_, err := launch(t, c.body, 64, c.blocks, 256, make([]uint32, 64)...)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.What, c.want) || e.Thread != c.thread || e.Kernel != "k" || e.Line < 19 {
			t.Errorf("%s: %v, want %q at thread %d", c.name, err, c.want, c.thread)
		}
	}
	// Accesses that a barrier orders are no race.
	ok := "mov.u64 %rd4, dyn; add.s64 %rd5, %rd4, %rd3; st.shared.u32 [%rd5], %r1; st.global.u32 [%rd2], %r1; bar.sync 0; ld.shared.u32 %r2, [dyn+64]; ld.param.u64 %rd4, [k_param+8]; ld.global.u32 %r2, [%rd4+8]; bar.sync 0; st.shared.u32 [%rd5], %r2; st.global.u32 [%rd2], %r2;"
	if _, err := launch(t, ok, 64, 1, 256); err != nil {
		t.Error(err)
	}
}

// TestRefusals: texts outside the subset, and the messages about them.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "no PTX module"},
		{kernelText("add.f32 %f1, %f2, %f3;"), `line 19: unsupported instruction "add.f32"`},
		{kernelText("tanh.approx.f32 %f1, %f2;"), "unsupported instruction"},
		{kernelText("add.s32 %r1, %r2;"), "2 operands, want 3"},
		{kernelText("add.s32 %r1, %r2, %rd3;"), "not of the instruction's type"},
		{kernelText("add.s32 5, %r2, %r3;"), "destination"},
		{kernelText("add.s32 %r1, %r2, %r99;"), `no register "%r99"`},
		{kernelText("bra NOWHERE;"), `no label "NOWHERE"`},
		{kernelText("L: L: ret;"), "a second label"},
		{kernelText("@%r1 ret;"), "no predicate"},
		{kernelText("bar.sync 1;"), "only barrier 0"},
		{kernelText("ld.local.u32 %r1, [%rd1];"), "unsupported instruction"},
		{kernelText("ld.global.u8 %r1, [%rd1];"), "unsupported instruction"},
		{kernelText("ld.global.v2.u32 %r1, [%rd1];"), "1 values, want 2"},
		{kernelText("ld.global.u32 %r1, [%r2];"), "register of 64 bits"},
		{kernelText("mov.b32 %r1, 0fXYZ;"), "no number"},
		{strings.Replace(kernelText(""), "\tret;\n", "", 1), "runs over its end"},
		{header + ".const .b8 x[4];", "unsupported declaration"},
		{header + ".visible .entry k() .reqntid 3 { ret; }", "unsupported directive"},
		{header + ".visible .entry k() { ret;", "the text ends here"},
		{header + ".visible .entry k() { .local .b8 x[4]; ret; }", "unsupported directive"},
		{header + "/* open", "comment without an end"},
		{header + "#", "unexpected character"},
	} {
		if _, err := Parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
	m, err := Parse(kernelText(""))
	if err != nil {
		t.Fatal(err)
	}
	good := Launch{Kernel: "k", Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: make([]byte, 16)}
	for name, spoil := range map[string]func(l *Launch){
		"kernel": func(l *Launch) { l.Kernel = "x" }, "grid": func(l *Launch) { l.Grid[1] = 0 }, "block": func(l *Launch) { l.Block[0] = 1025 },
		"dimensions": func(l *Launch) { l.Block[1] = 2 }, "params": func(l *Launch) { l.Params = nil }, "shared": func(l *Launch) { l.Shared = -1 },
		"threads": func(l *Launch) { l.Grid[0], l.Block[0] = 1<<31-1, 1024 },
	} {
		l := good
		spoil(&l)
		if m.Launch(&Memory{}, l) == nil {
			t.Errorf("a launch with a wrong %s was run", name)
		}
	}
	if err := m.Launch(&Memory{}, good); err != nil {
		t.Error(err)
	}
}

func TestMemory(t *testing.T) {
	var m Memory
	if err := m.Map(512, make([]byte, 300)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		base uint64
		n    int
	}{{0, 4}, {100, 4}, {512, 4}, {768, 4}, {256, 300}, {math.MaxUint64 - 255, 300}} {
		if m.Map(c.base, make([]byte, c.n)) == nil {
			t.Errorf("%d bytes were mapped at %d", c.n, c.base)
		}
	}
	if err := m.Map(1024, make([]byte, 4)); err != nil {
		t.Error(err)
	}
	if m.Written(512, 301) == nil || m.Written(513, 4) == nil || m.Written(2000, 4) == nil || m.Unmap(600) == nil {
		t.Error("bytes outside of every allocation were taken")
	}
	if err := m.Unmap(512); err != nil {
		t.Error(err)
	}
	if m.findSpan(600) != nil || m.findSpan(1027) == nil {
		t.Error("find is wrong after Unmap")
	}
}

// TestLaunchesAtOnce: several goroutines may launch a module, each on its own memory;
// reused blocks do not mix.
func TestLaunchesAtOnce(t *testing.T) {
	m, err := Parse(kernelText("mov.u64 %rd4, dyn; add.s64 %rd4, %rd4, %rd3; ld.global.u32 %r2, [%rd1]; st.shared.u32 [%rd4], %r2; bar.sync 0; ld.shared.u32 %r3, [%rd4]; st.global.u32 [%rd2], %r3;"))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range uint32(4) {
		wg.Go(func() {
			var mem Memory
			a, in := mem.Alloc(256)
			b, out := mem.Alloc(256)
			params := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, a), b)
			for n := range uint32(50) {
				for i := range uint32(64) {
					binary.LittleEndian.PutUint32(in[4*i:], g<<24|n<<8|i)
				}
				err := errors.Join(mem.Written(a, 256), m.Launch(&mem, Launch{Kernel: "k", Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{64, 1, 1}, Shared: 256, Params: params}))
				if err != nil || !bytes.Equal(in, out) {
					t.Errorf("goroutine %d, launch %d: %v", g, n, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// FuzzParse: no text makes the parser panic, and an accepted text runs without a panic,
// to its end or to an error.
func FuzzParse(f *testing.F) {
	f.Add(kernelText("add.s32 %r1, %r2, -7; @!%p1 bra L; ld.global.v2.f32 {%f1, %f2}, [%rd1+8]; L: bar.sync 0;"))
	f.Add(header + ".visible .entry k() .maxntid 32, 1, 1 { .reg .b32 %x, %y; L: mov.u32 %x, %ctaid.y; bra L; }")
	f.Add(header + ".visible .entry k(.param .align 8 .b8 p[8]) { .reg .b64 %a<3>; .pragma \"nounroll\"; mov.b64 %a1, p; ld.param.u64 %a2, [%a1]; st.shared.u64 [dyn], %a2; ret; }")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text)
		if err != nil {
			return
		}
		for _, name := range m.Kernels() {
			var mem Memory
			at, _ := mem.Alloc(64)
			params := make([]byte, m.Kernel(name).ParamBytes)
			if len(params) >= 8 {
				binary.LittleEndian.PutUint64(params, at)
			}
			_ = m.Launch(&mem, Launch{Kernel: name, Grid: [3]uint32{2, 1, 1}, Block: [3]uint32{33, 1, 1}, Shared: 32, Params: params, Limit: 1000})
		}
	})
}

func BenchmarkFMA(b *testing.B) {
	body := "mov.f32 %f1, 0f3F800000; mov.u32 %r2, 0; L:" + strings.Repeat("fma.rn.f32 %f1, %f1, %f1, 0f3E000000; fma.rn.f32 %f2, %f1, %f1, %f1;", 50) + " add.s32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 1000; @%p1 bra L;"
	m, err := Parse(kernelText(body))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := m.Launch(&Memory{}, Launch{Kernel: "k", Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, Params: make([]byte, 16)}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(100*1000*32*float64(b.N)/b.Elapsed().Seconds()/1e6, "M-lane-instr/s")
}
