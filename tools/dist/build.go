package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
)

// source is a commit in a separate folder.
type source struct {
	dir     string
	time    time.Time // of the commit
	goroot  string
	modules map[string]string // folder of each module of go.mod: by path@version
}

// checkout clones the current commit. The clone has only committed files, and Go finds
// the version in a clone, but not in a worktree of git.
func checkout(ctx context.Context) (src *source, done func(), err error) {
	at, err := output(ctx, "", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, nil, err
	}
	changed, err := output(ctx, at, nil, "git", "status", "--porcelain")
	if err != nil {
		return nil, nil, err
	}
	if changed != "" {
		return nil, nil, fmt.Errorf("a release is made from a commit, but these files differ from it: commit them first\n%s", changed)
	}
	tmp, err := os.MkdirTemp("", "eusn-dist-*")
	if err != nil {
		return nil, nil, err
	}
	done = func() { os.RemoveAll(tmp) }
	defer func() {
		if err != nil {
			done()
		}
	}()
	src = &source{dir: filepath.Join(tmp, "eusn-stream")}
	head, err := output(ctx, at, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		return nil, nil, err
	}
	for _, args := range [][]string{{"clone", "--quiet", "--no-checkout", at, src.dir}, {"-C", src.dir, "-c", "advice.detachedHead=false", "checkout", "--quiet", head}} {
		if _, err = output(ctx, "", nil, "git", args...); err != nil {
			return nil, nil, err
		}
	}
	when, err := output(ctx, src.dir, nil, "git", "show", "--no-patch", "--format=%cI", "HEAD")
	if err != nil {
		return nil, nil, err
	}
	if src.time, err = time.Parse(time.RFC3339, when); err != nil {
		return nil, nil, err
	}
	src.time = src.time.UTC()
	if src.goroot, err = output(ctx, src.dir, nil, "go", "env", "GOROOT"); err != nil {
		return nil, nil, err
	}
	list, err := output(ctx, src.dir, nil, "go", "list", "-m", "-json=Path,Version,Dir", "all")
	if err != nil {
		return nil, nil, err
	}
	src.modules = map[string]string{}
	for d := json.NewDecoder(strings.NewReader(list)); d.More(); {
		var m struct{ Path, Version, Dir string }
		if err = d.Decode(&m); err != nil {
			return nil, nil, err
		}
		src.modules[m.Path+"@"+m.Version] = m.Dir
	}
	return src, done, nil
}

// moduleDir returns the folder of a module of the program.
func (s *source) moduleDir(path, version string) (string, error) {
	if dir := s.modules[path+"@"+version]; dir != "" {
		return dir, nil
	}
	return "", fmt.Errorf("module %s %s is in the program, but not in the output of go list", path, version)
}

// built is the program for a platform.
type built struct {
	os, arch string
	program  []byte
	version  string // 1.2.0
	commit   string
}

func (s *source) build(ctx context.Context, platform string) (*built, error) {
	b := &built{}
	b.os, b.arch, _ = strings.Cut(platform, "/")
	path := filepath.Join(filepath.Dir(s.dir), "program")
	env := []string{"CGO_ENABLED=0", "GOOS=" + b.os, "GOARCH=" + b.arch, "GOARM=7", "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off"}
	if _, err := output(ctx, s.dir, env, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w -buildid=", "-o", path, "./cmd/eusn-stream"); err != nil {
		return nil, fmt.Errorf("%s: %w", platform, err)
	}
	var err error
	if b.program, err = os.ReadFile(path); err != nil {
		return nil, err
	}
	info, err := buildinfo.Read(bytes.NewReader(b.program))
	if err != nil {
		return nil, err
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			b.commit = setting.Value
		}
	}
	b.version, err = releaseVersion(info.Main.Version, b.commit)
	return b, err
}

// releaseVersion returns the version of the files, given Go's version of the module: a tag,
// or a pseudo-version with the commit.
func releaseVersion(module, commit string) (string, error) {
	if !strings.HasPrefix(module, "v") || len(commit) < 12 {
		return "", fmt.Errorf("the program reports version %q and commit %q: want those of git", module, commit)
	}
	if !strings.Contains(module, commit[:12]) && module != "v"+cli.Version {
		return "", fmt.Errorf("the commit has the tag %s, but the version in internal/cli/build.go is %s: want the tag v%[2]s", module, cli.Version)
	}
	return cli.DescribeVersion(module), nil
}

// output runs a program and returns its output, without the end of the last line.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimRight(string(out), "\n"), nil
}
