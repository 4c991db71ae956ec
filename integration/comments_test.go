package integration

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tokens calls yield with every comment and every name of a Go file.
func tokens(t *testing.T, name string, yield func(tok token.Token, text string)) {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile(name, -1, len(src)), src, nil, scanner.ScanComments)
	for {
		_, tok, text := s.Scan()
		switch tok {
		case token.EOF:
			return
		case token.COMMENT, token.IDENT:
			yield(tok, text)
		}
	}
}

// Comments name only existing files, and existing names of packages and types. A file is
// searched from the package's folder upwards; in pkg.Name and Type.Name the second name
// must be in the code of the package, or in any code.
func TestCommentsNameWhatExists(t *testing.T) {
	file := regexp.MustCompile(`(?:^|[\s(;,:"])((?:[a-z0-9_.-]+/)*[a-z0-9_]{2,}\.(?:go|h|cu|md|py|mjs|sh))\b`)
	qualified := regexp.MustCompile(`(?:^|[\s(\[])([A-Za-z]\w*)\.([A-Z]\w+)\b`)
	code := map[string]map[string]bool{"": {}} // names in the code of each package, by package name
	sources := tracked(t, "*.go")
	for _, name := range sources {
		pkg := filepath.Base(filepath.Dir(name))
		if code[pkg] == nil {
			code[pkg] = map[string]bool{}
		}
		tokens(t, name, func(tok token.Token, text string) {
			if tok == token.IDENT {
				code[pkg][text], code[""][text] = true, true
			}
		})
	}
	files, names := 0, 0
	for _, name := range sources {
		tokens(t, name, func(tok token.Token, text string) {
			if tok != token.COMMENT || strings.HasPrefix(text, "//go:") || strings.HasPrefix(text, "// Code generated") {
				return
			}
			for _, m := range file.FindAllStringSubmatch(text, -1) {
				if m[1] == "nats.go" { // the client's name
					continue
				}
				files++
				if !found(filepath.Dir(name), m[1]) {
					t.Errorf("%s: a comment names %s, which is not there", name, m[1])
				}
			}
			for _, m := range qualified.FindAllStringSubmatch(text, -1) {
				known := code[m[1]]
				if known == nil && code[""][m[1]] && m[1][0] >= 'A' && m[1][0] <= 'Z' {
					known = code[""] // a type of any package
				}
				if known == nil {
					continue // of another module
				}
				names++
				if !known[m[2]] {
					t.Errorf("%s: a comment names %s.%s, which is not there", name, m[1], m[2])
				}
			}
		})
	}
	if files < 50 || names < 100 {
		t.Errorf("%d files and %d names found in comments, want all of them", files, names)
	}
}

// found reports whether path leads to a file from a folder, its testdata, or a parent
// folder.
func found(folder, path string) bool {
	for {
		for _, inside := range []string{".", "testdata"} {
			if _, err := os.Stat(filepath.Join("..", folder, inside, path)); err == nil {
				return true
			}
		}
		if folder == "." {
			return false
		}
		folder = filepath.Dir(folder)
	}
}

// The block "# Files" at the end of a package comment (doc.go) names each product file of
// the package, and only existing files. Packages of three files or more have a block.
func TestCommentsListFiles(t *testing.T) {
	entry := regexp.MustCompile(`^//   - ((?:[\w/.]+, )*[\w/.]+): [a-z].{9,}$`)
	generated := regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	files := map[string][]string{} // of each package
	for _, name := range tracked(t, "*.go") {
		if strings.HasSuffix(name, "_test.go") || filepath.Base(name) == "doc.go" ||
			regexp.MustCompile(`^(tools|integration)/|/(testing|testdata|_asm)/`).MatchString(name) {
			continue
		}
		src, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if !generated.Match(src) {
			files[filepath.Dir(name)] = append(files[filepath.Dir(name)], filepath.Base(name))
		}
	}
	for folder, all := range files {
		doc, _ := os.ReadFile(filepath.Join("..", folder, "doc.go"))
		_, block, found := strings.Cut(string(doc), "// # Files\n//\n")
		if !found {
			if len(all) >= 3 {
				t.Errorf("%s has %d files, but its doc.go has no list of files (# Files)", folder, len(all))
			}
			continue
		}
		named := map[string]bool{}
		for line := range strings.Lines(block) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "//") {
				break
			}
			m := entry.FindStringSubmatch(line)
			if m == nil || len(line) >= 100 {
				t.Errorf("%s/doc.go: %q: want //   - FILE, FILE: what they do, below 100 characters", folder, line)
				continue
			}
			for _, name := range strings.Split(m[1], ", ") {
				named[name] = true
				if _, err := os.Stat(filepath.Join("..", folder, name)); err != nil {
					t.Errorf("%s/doc.go lists %s, which does not exist", folder, name)
				}
			}
		}
		for _, name := range all {
			if !named[name] {
				t.Errorf("%s/doc.go does not list %s under # Files: add a line that says what the file does", folder, name)
			}
		}
	}
}
