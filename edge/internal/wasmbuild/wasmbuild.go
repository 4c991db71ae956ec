// Package wasmbuild compiles c/wasm.c to eusn.wasm, and records the sources and the
// compiler in the file BUILD. So a forgotten compilation is found on every machine, and a
// wrong compilation on every machine with the compiler.
package wasmbuild

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// Compiler and Linker are the programs, Version the version for the committed module:
	// Debian's packages clang-19 and lld-19.
	Compiler = "clang-19"
	Linker   = "wasm-ld-19"
	Version  = "19.1.7"

	output = "eusn.wasm"
	record = "BUILD"
)

// Flags give the same bytes on every machine.
var Flags = []string{
	"--target=wasm32", "-O2", "-std=c11", "-ffreestanding", "-nostdlib", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror",
	"-fuse-ld=lld", "-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=1048576",
}

// Installed reports whether compiler and linker of this version are installed.
func Installed() bool {
	for _, name := range []string{Compiler, Linker} {
		out, err := exec.Command(name, "--version").Output()
		if err != nil || !strings.Contains(string(out), Version) {
			return false
		}
	}
	return true
}

// Compile compiles the sources of the package's folder and returns the module.
func Compile(dir string) ([]byte, error) {
	out, err := os.CreateTemp("", "eusn-*.wasm")
	if err != nil {
		return nil, err
	}
	out.Close()
	defer os.Remove(out.Name())
	cmd := exec.Command(Compiler, append(append([]string{}, Flags...), "wasm.c", "-o", out.Name())...)
	cmd.Dir = filepath.Join(dir, "c")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("wasmbuild: %s: %w\n%s", Compiler, err, text)
	}
	return os.ReadFile(out.Name())
}

// Record returns the required content of the file BUILD for the files in the package's
// folder.
func Record(dir string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "compiler: %s %s\nflags: %s\n", Compiler, Version, strings.Join(Flags, " "))
	sources, err := filepath.Glob(filepath.Join(dir, "c", "*"))
	if err != nil {
		return nil, err
	}
	for _, path := range append(sources, filepath.Join(dir, output)) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "sha256: %x %s\n", sha256.Sum256(text), filepath.Base(path))
	}
	return b.Bytes(), nil
}

// Check compares BUILD with the files.
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
		return fmt.Errorf("wasmbuild: %s is not made from the sources in c/; run: make wasm\n%s has\n%s\nthe files are\n%s", output, record, got, want)
	}
	return nil
}

// Update compiles the module and writes module and BUILD.
func Update(dir string) error {
	if !Installed() {
		return fmt.Errorf("wasmbuild: want %s and %s %s: apt-get install clang-19 lld-19 on Debian 12", Compiler, Linker, Version)
	}
	module, err := Compile(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, output), module, 0o644); err != nil {
		return err
	}
	text, err := Record(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, record), text, 0o644)
}
