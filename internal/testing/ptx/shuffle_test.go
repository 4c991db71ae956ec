package ptx

import (
	"strings"
	"testing"
)

// TestShuffle: a value goes to the lane whose number differs in the given bits; all 32
// lanes must be active.
func TestShuffle(t *testing.T) {
	const body = `
	mov.u32 %r2, %tid.x;
	GUARD
	mad.lo.s32 %r3, %r2, 10, 7;
	shfl.sync.bfly.b32 %r3, %r3, BITS, 31, -1;
L:
	st.global.u32 [%rd2], %r3;`
	for _, bits := range []string{"1", "8", "31"} {
		out, err := launch(t, strings.NewReplacer("GUARD", "", "BITS", bits).Replace(body), 32, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		by := map[string]int{"1": 1, "8": 8, "31": 31}[bits]
		for i, v := range out {
			if want := uint32((i^by)*10 + 7); v != want {
				t.Errorf("lane %d, bits %s: %d, want %d", i, bits, v, want)
			}
		}
	}
	parted := strings.NewReplacer("GUARD", "mov.u32 %r3, 0; setp.gt.u32 %p1, %r2, 29; @%p1 bra L;", "BITS", "1").Replace(body)
	if _, err := launch(t, parted, 32, 1, 0); err == nil || !strings.Contains(err.Error(), "30 of the warp's 32 lanes") {
		t.Errorf("with 30 lanes: %v, want it refused", err)
	}
	if _, err := Parse(kernelText(strings.NewReplacer("GUARD", "", "BITS, 31, -1", "1, 15, -1").Replace(body))); err == nil {
		t.Error("a shuffle within 16 lanes was taken")
	}
}
