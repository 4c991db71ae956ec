package telemetry

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// Each stub for arm64 is a jump through its own slot: this machine cannot link it with C, but
// can assemble and read it.
func TestStubsForARM64(t *testing.T) {
	const assembler = "clang-19"
	if _, err := exec.LookPath(assembler); err != nil {
		parts.Absent(t, "clang", "the stubs for arm64 are not assembled: %s is not here", assembler)
	}
	list, err := os.ReadFile("functions.h")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile("stubs_arm64.S"); err != nil { // makes the test cache depend on the file
		t.Fatal(err)
	}
	object := filepath.Join(t.TempDir(), "stubs.o")
	if output, err := exec.Command(assembler, "--target=aarch64-linux-gnu", "-c", "-o", object, "stubs_arm64.S").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	f, err := elf.Open(object)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	code, _ := f.Section(".text").Data()
	relocations, err := f.Section(".rela.text").Data()
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	position := map[string]elf.Symbol{}
	for _, s := range symbols {
		position[s.Name] = s
	}
	slots := 1 + slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "eusn_nvml_slots" })
	names := strings.Count(string(list), "\nF(")
	if names == 0 || len(code) != 12*names || len(relocations) != 48*names {
		t.Fatalf("%d names, %d bytes of code, %d of relocations: want 12 and 48 a name", names, len(code), len(relocations))
	}
	// adrp x16, slot; ldr x16, [x16, slot]; br x16
	jump := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 0x90000010), 0xf9400210), 0xd61f0200)
	for i, line := range strings.Split(strings.TrimSpace(string(list)), "\n")[1:] {
		var index int
		var name string
		if _, err := fmt.Sscanf(strings.TrimSuffix(line, ")"), "F(%d, %s", &index, &name); err != nil || index != i {
			t.Fatalf("line %q: want F(%d, name)", line, i)
		}
		s := position[name]
		if s.Value != uint64(12*i) || elf.ST_BIND(s.Info) != elf.STB_GLOBAL || elf.ST_VISIBILITY(s.Other) != elf.STV_HIDDEN || !bytes.Equal(code[12*i:12*i+12], jump) {
			t.Fatalf("%s: %+v % x, want a hidden jump at %d", name, s, code[12*i:12*i+12], 12*i)
		}
		for k, kind := range []elf.R_AARCH64{elf.R_AARCH64_ADR_PREL_PG_HI21, elf.R_AARCH64_LDST64_ABS_LO12_NC} {
			var r elf.Rela64
			if err := binary.Read(bytes.NewReader(relocations[48*i+24*k:]), binary.LittleEndian, &r); err != nil {
				t.Fatal(err)
			}
			if r.Off != uint64(12*i+4*k) || elf.R_SYM64(r.Info) != uint32(slots) || elf.R_AARCH64(elf.R_TYPE64(r.Info)) != kind || r.Addend != int64(8*i) {
				t.Fatalf("%s: relocation %+v, want %v of slot %d", name, r, kind, i)
			}
		}
	}
}
