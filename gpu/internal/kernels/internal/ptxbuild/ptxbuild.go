// Package ptxbuild compiles the kernels and records their sources and compiler.
// So every machine finds a forgotten compilation, and every machine with the
// compiler finds a wrong compilation.
package ptxbuild

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
	// Compiler is the program, Version the version for the committed text:
	// Debian's package clang-19.
	Compiler = "clang-19"
	Version  = "19.1.7"

	source = "eusn.cu"
	output = "eusn.ptx"
	record = "BUILD"
)

// Flags make the same bytes on every machine. Contraction is off: a product and
// a sum must stay two roundings as in the sources.
var Flags = []string{
	"-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_80", "-nocudainc", "-nocudalib",
	"-std=c++17", "-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-S",
}

// Installed returns the compiler's version; empty without the compiler.
func Installed() string {
	out, err := exec.Command(Compiler, "--version").Output()
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(out), "version ")
	version, _, _ := strings.Cut(rest, " ")
	return version
}

// Compile compiles the sources in dir, with further flags if any, and returns
// the PTX text.
func Compile(dir string, further ...string) ([]byte, error) {
	out, err := os.CreateTemp("", "eusn-*.ptx")
	if err != nil {
		return nil, err
	}
	out.Close()
	defer os.Remove(out.Name())
	cmd := exec.Command(Compiler, slices.Concat(Flags, further, []string{source, "-o", out.Name()})...)
	cmd.Dir = dir
	if msg, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("ptxbuild: %s: %w\n%s", Compiler, err, msg)
	}
	return os.ReadFile(out.Name())
}

// Record returns the content of the file BUILD for the files in dir.
func Record(dir string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "compiler: %s %s\nflags: %s\n", Compiler, Version, strings.Join(Flags, " "))
	headers, err := filepath.Glob(filepath.Join(dir, "*.h"))
	if err != nil {
		return nil, err
	}
	for _, path := range append(headers, filepath.Join(dir, source), filepath.Join(dir, output)) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "sha256: %x %s\n", sha256.Sum256(text), filepath.Base(path))
	}
	return b.Bytes(), nil
}

// Check compares BUILD with the files in dir.
func Check(dir string) error {
	want, err := Record(dir)
	if err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(dir, record))
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("ptxbuild: %s is not made from the sources next to it; run: make ptx\n%s has\n%s\nthe files are\n%s", output, record, got, want)
	}
	return nil
}

// Update compiles and writes PTX and BUILD.
func Update(dir string) error {
	if v := Installed(); v != Version {
		return fmt.Errorf("ptxbuild: want %s %s, got %q: apt-get install clang-19 on Debian 12", Compiler, Version, v)
	}
	ptx, err := Compile(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, output), ptx, 0o644); err != nil {
		return err
	}
	text, err := Record(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, record), text, 0o644)
}
