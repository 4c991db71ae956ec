package ptx

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
)

// mmaText multiplies fragments whose elements are their own positions: lane l holds A
// elements 8 l to 8 l + 3, and so on; the parameter is A, B, C and D in turn.
const mmaText = header + `.visible .entry k(.param .align 8 .b8 p[8])
{
	.reg .pred %p<4>;
	.reg .b32 %r<32>;
	.reg .f32 %f<32>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 64;
	add.s64 %rd1, %rd1, %rd2;
	ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1];
	ld.global.v2.u32 {%r6, %r7}, [%rd1+16];
	ld.global.v4.f32 {%f2, %f3, %f4, %f5}, [%rd1+32];
	GUARD
	bar.warp.sync -1;
	mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f2, %f3, %f4, %f5}, {%r2, %r3, %r4, %r5}, {%r6, %r7}, {%f2, %f3, %f4, %f5};
L:
	st.global.v4.f32 [%rd1+48], {%f2, %f3, %f4, %f5};
	ret;
}
`

// runMMA gives each lane its fragments of the plain matrices and collects D.
func runMMA(text string, threads int, a *[16][8]float32, b *[8][8]float32, c *[16][8]float32) (d [16][8]float32, err error) {
	m, err := Parse(text)
	if err != nil {
		return d, err
	}
	var mem Memory
	base, data := mem.Alloc(64 * threads)
	if err := mem.Written(base, len(data)); err != nil {
		return d, err
	}
	at := func(lane, word int) []byte { return data[64*lane+4*word:] }
	put := func(lane, word int, v float32) { binary.LittleEndian.PutUint32(at(lane, word), math.Float32bits(v)) }
	for lane := range threads {
		row, k := lane/4%8, lane%4 // groupID and threadID_in_group of the manual
		for i, v := range []float32{a[row][k], a[row+8][k], a[row][k+4], a[row+8][k+4], b[k][row], b[k+4][row], 0, 0, c[row][2*k], c[row][2*k+1], c[row+8][2*k], c[row+8][2*k+1]} {
			put(lane, i, v)
		}
	}
	err = m.Launch(&mem, Launch{Kernel: "k", Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{uint32(threads), 1, 1}, Params: binary.LittleEndian.AppendUint64(nil, base)})
	for lane := range min(threads, 32) {
		row, k := lane/4, lane%4
		for i, to := range []*float32{&d[row][2*k], &d[row][2*k+1], &d[row+8][2*k], &d[row+8][2*k+1]} {
			*to = math.Float32frombits(binary.LittleEndian.Uint32(at(lane, 12+i)))
		}
	}
	return d, err
}

func TestMMA(t *testing.T) {
	var a [16][8]float32
	var b [8][8]float32
	var c, want [16][8]float32
	for i := range 16 {
		for j := range 8 {
			a[i][j], c[i][j] = float32(3*i-5*j), float32(i*j)
			b[j][i%8] = float32(7*j - i%8)
		}
	}
	for i := range want {
		for j := range want[i] {
			want[i][j] = c[i][j]
			for k := range 8 {
				want[i][j] += a[i][k] * b[k][j]
			}
		}
	}
	text := strings.Replace(mmaText, "GUARD", "", 1)
	if d, err := runMMA(text, 32, &a, &b, &c); err != nil || d != want {
		t.Errorf("%v, %v, want %v", d, err, want)
	}
	// A term of less than a half is dropped, not rounded up; on both sides of zero.
	a, b, c = [16][8]float32{}, [8][8]float32{}, [16][8]float32{}
	a[0][0], b[0][0], c[0][0] = 1, 1.5/(1<<23), 1
	a[1][0], c[1][0] = -1, -1
	if d, err := runMMA(text, 32, &a, &b, &c); err != nil || d[0][0] != 1+1.0/(1<<23) || d[1][0] != -1-1.0/(1<<23) {
		t.Errorf("truncated sums are %x and %x (%v)", d[0][0], d[1][0], err)
	}
	var e *Error
	a[2][3] = 1 + 1.0/(1<<20)
	if _, err := runMMA(text, 32, &a, &b, &c); !errors.As(err, &e) || e.Thread != 11 || !strings.Contains(e.What, "more bits than TF32") {
		t.Errorf("an operand of too many bits: %v, want an error at thread 11", err)
	}
	a[2][3] = 0
	diverged := strings.Replace(mmaText, "GUARD", "setp.eq.s32 %p1, %r1, 5; @%p1 bra L;", 1)
	if _, err := runMMA(diverged, 32, &a, &b, &c); !errors.As(err, &e) || !strings.Contains(e.What, "31 of the warp's 32 lanes") {
		t.Errorf("a diverged warp: %v", err)
	}
	if _, err := runMMA(text, 40, &a, &b, &c); !errors.As(err, &e) || !strings.Contains(e.What, "8 of the warp's 32 lanes") {
		t.Errorf("a warp of 8 threads: %v", err)
	}
}

func TestTF32Rounding(t *testing.T) {
	for _, c := range []struct{ in, want uint32 }{
		{0x3f800fff, 0x3f800000}, {0x3f801000, 0x3f802000}, {0xbf801000, 0xbf802000}, {0x3fffffff, 0x40000000}, {0x7f800000, 0x7f800000}, {1, 0},
	} {
		out, err := launch(t, "ld.global.f32 %f2, [%rd1]; cvt.rna.tf32.f32 %r4, %f2; st.global.u32 [%rd2], %r4;", 1, 1, 0, c.in)
		if err != nil || out[0] != c.want {
			t.Errorf("%#x: %#x (%v), want %#x", c.in, out[0], err, c.want)
		}
	}
}
