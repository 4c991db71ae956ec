package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// TestFaults: every kernel of kind mixed has instructions for the faults, and a fault
// changes the text.
func TestFaults(t *testing.T) {
	for file, want := range map[string]int{"avx2_amd64.s": 6, "avx512_amd64.s": 4, "neon_arm64.s": 6} {
		text, err := os.ReadFile("../../internal/kernel/" + file)
		if err != nil {
			t.Fatal(err)
		}
		mixed := 0
		for _, k := range kernelsOf(string(text)) {
			if !strings.HasPrefix(k.name, "mixed") {
				continue
			}
			mixed++
			for _, kind := range kinds {
				faults := k.faults(kind)
				if len(faults) < 4 && (kind.name != "unfuse" || !strings.Contains(k.name, "Gather")) { // it has no multiplication
					t.Errorf("%s %s: %d faults", k.name, kind.name, len(faults))
				}
				for _, f := range faults {
					if f.new == f.old {
						t.Errorf("%s %s, line %d: %s stays as it is", k.name, kind.name, f.line, f.old)
					}
				}
			}
		}
		if mixed != want {
			t.Errorf("%s: %d kernels of kind mixed, want %d", file, mixed, want)
		}
	}
}

func TestKinds(t *testing.T) {
	for _, c := range [][3]string{
		{"drop", "VADDPS Y0, Y1, Y2", "// left out"},
		{"swap", "VPACKSSDW Y1, Y0, Y8", "VPACKSSDW Y0, Y1, Y8"},
		{"swap", "VSHUFF64X2 $0x4e, Z1, Z2, Z3", "VSHUFF64X2 $0x4e, Z2, Z1, Z3"},
		{"swap", "VADDPS Y1, Y0, Y8", ""},
		{"constant", "ADDQ $0x00000100, SI", "ADDQ $260, SI"},
		{"constant", "VCMPPS $0x00, Y8, Y0, Y9", "VCMPPS $1, Y8, Y0, Y9"},
		{"constant", "VMOVUPS (R9), Y8", "VMOVUPS 4(R9), Y8"},
		{"constant", "VLD2 (R3), [V0.H8, V1.H8]", "VLD2 4(R3), [V0.H8, V1.H8]"}, // an invalid instruction
		{"constant", "MOVD MixedSteps_Bits(R0), R4", ""},
		{"register", "VMOVUPS Y8, 32(R10)", "VMOVUPS Y9, 32(R10)"},
		{"register", "KXORQ K1, K2, K3", "KXORQ K2, K2, K3"},
		{"register", "WORD $0x4e38f411", "WORD $0x4e38f431"}, // fmax v17.4s, v0.4s, v24.4s: of v1
		{"operation", "JNZ sample", "JZ sample"},
		{"operation", "WORD $0x4e38f411", "WORD $0x4eb8f411"},                                                                      // fmin
		{"operation", "WORD $0x6e3ade32", ""},                                                                                      // a product
		{"unfuse", "VFMADD231PS (SI), Y0, Y1", "VMOVUPS Y2, -64(SP); VMULPS (SI), Y0, Y2; VADDPS Y2, Y1, Y1; VMOVUPS -64(SP), Y2"}, //
		{"unfuse", "VFMLA V16.S4, V17.S4, V0.S4", "FMOVQ F1, -64(RSP); WORD $0x6e30de21; WORD $0x4e21d400; FMOVQ -64(RSP), F1"},    // fmul v1, v17, v16; fadd v0, v0, v1
	} {
		for _, kind := range kinds {
			if op, rest, _ := strings.Cut(c[1], " "); kind.name == c[0] {
				if got := kind.change(op, operands(rest)); got != c[2] {
					t.Errorf("%s of %s: %s, want %s", c[0], c[1], got, c[2])
				}
			}
		}
	}
}

// TestPlanted builds the tests with a fault and lets the tests find it: one fault here,
// all faults with make mutants.
func TestPlanted(t *testing.T) {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		parts.Absent(t, "avx2", "no fault is planted in its kernels")
	}
	var said strings.Builder
	o := options{engine: "avx2", kernels: regexp.MustCompile("^mixedTapsClip"), kinds: "unfuse", each: 1, seed: 1}
	if lived, err := o.run(t.Context(), &said); lived > 0 || err != nil || !strings.Contains(said.String(), "avx2: 1 faults planted, 1 found") {
		t.Errorf("%d lived, %v: %s", lived, err, &said)
	}
}
