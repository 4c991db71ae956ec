package kernels

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/clang"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// TestSourcesAndPTX finds sources that changed without make ptx.
func TestSourcesAndPTX(t *testing.T) {
	if err := clang.PTX.Check("."); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	copyFiles(t, dir)
	if err := os.WriteFile(dir+"/abi.h", []byte("// changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	if clang.PTX.Check(dir) == nil {
		t.Error("a changed header was not noticed")
	}
}

// TestRecompile compiles the sources, in another directory, to the same bytes.
func TestRecompile(t *testing.T) {
	if !clang.Installed(clang.Compiler) {
		parts.Absent(t, "clang", "the PTX is not compared with its sources: %s %s is not here", clang.Compiler, clang.Version)
	}
	dir := t.TempDir()
	copyFiles(t, dir)
	ptx, err := clang.PTX.Compile(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(ptx, []byte(PTX)) {
		t.Error("the sources compile to other PTX than eusn.ptx; run: make ptx")
	}
}

// copyFiles copies sources, PTX and BUILD.
func copyFiles(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".h") || strings.HasSuffix(name, ".cu") || strings.HasSuffix(name, ".ptx") || name == "BUILD" {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/"+name, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestModule compares the Go tables with the module: every kernel, with its
// block size and its only parameter.
func TestModule(t *testing.T) {
	m, err := module()
	if err != nil {
		t.Fatal(err)
	}
	got, want := slices.Sorted(slices.Values(m.Kernels())), slices.Sorted(slices.Values(Names))
	if !slices.Equal(got, want) {
		t.Fatalf("the module has %v, the tables %v", got, want)
	}
	threads := map[string]int{"eusn_finish": finishThreads, "eusn_scores": scoresThreads, "eusn_mixed_finish": finishThreads, "eusn_mixed_scores": scoresThreads}
	for k := mixedTaps6; k <= mixedRecurrentAny; k++ {
		threads[Names[k]] = mixedThreads
	}
	for _, v := range residents {
		threads[v.name] = v.threads
	}
	for _, v := range slices.Concat(streameds, tensors) {
		threads[v.name] = v.threads
	}
	for i, name := range Names {
		k := m.Kernel(name)
		if k.ParamBytes != 184 || k.MaxThreads != threads[name] || k.Dynamic != Dynamic(i) || k.StaticShared > 48<<10 {
			t.Errorf("%s: %d bytes of parameters, blocks of %d, dynamic shared memory %v, static %d", name, k.ParamBytes, k.MaxThreads, k.Dynamic, k.StaticShared)
		}
	}
	if m.Version != "7.0" || m.Target != "sm_80" {
		t.Errorf("PTX %s for %s, want 7.0 for sm_80: drivers from 450 on take it", m.Version, m.Target)
	}
}
