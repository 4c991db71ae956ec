// Package clang compiles the committed modules with a fixed version of clang, and records
// the sources and the compiler in the file BUILD. So every machine finds a forgotten
// compilation, and every machine with the compiler finds a wrong compilation.
package clang

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// Compiler and Linker are the programs, Version the version for the committed modules:
	// Debian's packages clang-19 and lld-19.
	Compiler = "clang-19"
	Linker   = "wasm-ld-19"
	Version  = "19.1.7"

	buildFile = "BUILD"
)

// Module is a file compiled from the sources in a package's folder.
type Module struct {
	target string // of make
	folder string // of the sources, below the package's folder
	main   string // the compiled source; the others are headers
	output string
	flags  []string // give the same bytes on every machine
}

var (
	// PTX are the kernels of gpu/internal/kernels. Contraction is off: a product and a sum
	// must stay two roundings as in the sources.
	PTX = Module{"ptx", ".", "eusn.cu", "eusn.ptx", []string{
		"-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_80", "-nocudainc", "-nocudalib",
		"-std=c++17", "-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-S",
	}}
	// Wasm is the classifier of the web page of package edge.
	Wasm = Module{"wasm", "c", "wasm.c", "eusn.wasm", []string{
		"--target=wasm32", "-O2", "-std=c11", "-ffreestanding", "-nostdlib", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror",
		"-fuse-ld=lld", "-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=1048576",
	}}
)

// Installed reports whether a program of this version is installed.
func Installed(program string) bool {
	out, err := exec.Command(program, "--version").Output()
	return err == nil && strings.Contains(string(out), Version)
}

// Compile compiles the sources in the package's folder, with further flags if any, and
// returns the module.
func (m *Module) Compile(dir string, further ...string) ([]byte, error) {
	out, err := os.CreateTemp("", "*-"+m.output)
	if err != nil {
		return nil, err
	}
	out.Close()
	defer os.Remove(out.Name())
	cmd := exec.Command(Compiler, slices.Concat(m.flags, further, []string{m.main, "-o", out.Name()})...)
	cmd.Dir = filepath.Join(dir, m.folder)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("clang: %s: %w\n%s", Compiler, err, text)
	}
	return os.ReadFile(out.Name())
}

// record returns the required content of the file BUILD for the files in the package's
// folder.
func (m *Module) record(dir string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "compiler: %s %s\nflags: %s\n", Compiler, Version, strings.Join(m.flags, " "))
	sources, err := filepath.Glob(filepath.Join(dir, m.folder, "*.h"))
	if err != nil {
		return nil, err
	}
	for _, path := range append(sources, filepath.Join(dir, m.folder, m.main), filepath.Join(dir, m.output)) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "sha256: %x %s\n", sha256.Sum256(text), filepath.Base(path))
	}
	return b.Bytes(), nil
}

// Check compares BUILD with the files.
func (m *Module) Check(dir string) error {
	want, err := m.record(dir)
	if err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(dir, buildFile))
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("clang: %s is not made from the current sources; run: make %s\n%s has\n%s\nthe files are\n%s", m.output, m.target, buildFile, got, want)
	}
	return err
}

// Update compiles the module and writes module and BUILD.
func (m *Module) Update(dir string) error {
	if !Installed(Compiler) || m.target == "wasm" && !Installed(Linker) {
		return fmt.Errorf("clang: want %s and %s %s: apt-get install clang-19 lld-19 on Debian 12", Compiler, Linker, Version)
	}
	module, err := m.Compile(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, m.output), module, 0o644); err != nil {
		return err
	}
	text, err := m.record(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, buildFile), text, 0o644)
}
