package errtext

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// wrapper has the text of its error.
type wrapper struct{ error }

func (w wrapper) Unwrap() error { return w.error }

// A text for people has no names of packages and functions, and all user data.
func TestTexts(t *testing.T) {
	missing := &fs.PathError{Op: "open", Path: "m.safetensors", Err: syscall.ENOENT}
	taken := &net.OpError{Op: "listen", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}, Err: &os.SyscallError{Syscall: "bind", Err: syscall.EADDRINUSE}}
	_, number := strconv.ParseInt("80x", 10, 64)
	inner := errors.New("codec: field \"x\": want float32")
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("reservoir: %w", missing), "m.safetensors: no such file or directory"},
		{fmt.Errorf("pipeline: job %q: %w", "eusn", inner), "job \"eusn\": field \"x\": want float32"},
		{wrapper{inner}, "field \"x\": want float32"},
		{errors.Join(inner, fmt.Errorf("offline: %w", inner)), "field \"x\": want float32\nfield \"x\": want float32"},
		{fmt.Errorf("pipeline: %w: restart: %w", inner, missing), "field \"x\": want float32: restart: m.safetensors: no such file or directory"},
		{fmt.Errorf("metrics: %w", taken), "cannot listen on 127.0.0.1:80: address already in use"},
		{fmt.Errorf("--port: %w", number), "--port: \"80x\" is not a number"},
		{fmt.Errorf("watch: %w", errors.New("nats: API error: code=404 err_code=10059 description=stream not found")), "nats: stream not found"},
		{fmt.Errorf("watch: %w", context.DeadlineExceeded), "no answer in time"},
		{errors.New("codec: codec: x is the name of a stream"), "codec: x is the name of a stream"},
		{fmt.Errorf("%w", errors.New("codec: codec: x")), "codec: x"},
		{fmt.Errorf("stream codec: x: %w", inner), "stream codec: x: field \"x\": want float32"},
		{fmt.Errorf("pipeline: stream \"codec: x\": %w", inner), "stream \"codec: x\": field \"x\": want float32"},
		{&fs.PathError{Op: "open", Path: "codec: x", Err: syscall.ENOENT}, "codec: x: no such file or directory"},
		{errors.New("sensors: 12 of them are silent"), "sensors: 12 of them are silent"},
		{errors.New("codec"), "codec"},
	} {
		if got := For(c.err); got != c.want {
			t.Errorf("%q becomes\n%q, want\n%q", c.err, got, c.want)
		}
	}
	if got := For(errors.New("codec: x: wrong"), "codec: x"); got != "codec: x: wrong" {
		t.Errorf("a typed file name becomes %q", got)
	}
}

// Each name of a package at the beginning of an error's text is removed.
func TestPackagesOfErrors(t *testing.T) {
	names, begins := map[string]bool{}, map[string]string{}
	begin := regexp.MustCompile(`^([a-z0-9]+): `)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			if d != nil && d.IsDir() && slices.Contains([]string{".git", "testing", "testdata", "tools", "integration", "ptxbuild", "wasmbuild"}, d.Name()) {
				return fs.SkipDir
			}
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		names[f.Name.Name] = true
		ast.Inspect(f, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is || len(call.Args) == 0 {
				return true
			}
			f, isFunc := call.Fun.(*ast.SelectorExpr)
			lit, isText := call.Args[0].(*ast.BasicLit)
			if isFunc && isText && lit.Kind == token.STRING && (f.Sel.Name == "Errorf" || f.Sel.Name == "New") {
				if found := begin.FindStringSubmatch(strings.Trim(lit.Value, "`\"")); found != nil {
					begins[found[1]] = path
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	fields := []string{"job", "shard", "trial"} // names of fields that are also names of packages
	seen := 0
	for name, path := range begins {
		if !names[name] || slices.Contains(fields, name) {
			continue
		}
		seen++
		if got := For(errors.New(name + ": x")); got != "x" {
			t.Errorf("%s: an error that begins with %q becomes %q", path, name+": ", got)
		}
	}
	if seen < 40 {
		t.Errorf("%d names found, want those of all libraries", seen)
	}
}
