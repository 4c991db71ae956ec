package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
)

// versions are the files of the repository that have the version of the program: at least
// count times, as the group of the pattern.
var versions = []struct {
	file    string
	count   int
	pattern string
}{
	{"docs/asyncapi.json", 1, `"title": "eusn-stream",\s+"version": "([^"]*)"`},
	{"README.md", 1, `The version is ([0-9.]*[0-9])`},
	{"docs/tutorial.md", 1, `by eusn-stream (\S+)`},
	{"docs/install.md", 9, "eusn-stream[-_]([0-9][^-_`]*)[-_]"},
	{"CONTRIBUTING.md", 3, "(?:--sign v|main v|the version `)([0-9.]*[0-9])"},
	{"docs/kubernetes.md", 2, `eusn-stream[-:]([0-9.]*[0-9])`},
	{"clients/node/package.json", 1, `"name": "eusn-stream-client",\s+"version": "([^"]*)"`},
	{"clients/node/package-lock.json", 2, `"name": "eusn-stream-client",\s+"version": "([^"]*)"`},
	{"clients/python/pyproject.toml", 1, `(?m)^version = "([^"]*)"`},
	{"configs/kubernetes/stage/kustomization.yaml", 1, `newTag: (.*)`},
	{"configs/kubernetes/retrain/shards/kustomization.yaml", 1, `newTag: (.*)`},
	{"configs/kubernetes/retrain/merge/kustomization.yaml", 1, `newTag: (.*)`},
}

// The files of the repository and of a release have the version of the program.
func TestVersionsAreEqual(t *testing.T) {
	for _, v := range versions {
		found := versionsIn(t, v.file, v.pattern)
		if len(found) < v.count {
			t.Errorf("%s: %d versions match %s, want %d", v.file, len(found), v.pattern, v.count)
		}
		for _, got := range found {
			if got != cli.Version {
				t.Errorf("%s: version %q, the program has %s", v.file, got, cli.Version)
			}
		}
	}
	if newest := versionsIn(t, "CHANGELOG.md", `(?m)^## (.*) \(\d{4}-\d\d-\d\d\)$`); len(newest) == 0 || newest[0] != cli.Version {
		t.Errorf("CHANGELOG.md: releases %q, want %s first", newest, cli.Version)
	}

	f := example(t, cli.Version)
	var bill struct {
		Metadata struct{ Component struct{ Version string } }
	}
	if err := json.Unmarshal(f.materials, &bill); err != nil {
		t.Fatal(err)
	}
	f.build.program = []byte("small") // the real program takes long to compress
	made, err := f.packages()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range made {
		if !strings.Contains(file.Path, cli.Version) {
			t.Errorf("the name %s lacks version %s", file.Path, cli.Version)
		}
	}
	for part, got := range map[string]string{
		"deb": f.installed(true).Version, "rpm": f.installed(false).Version, "image": f.image().Labels["org.opencontainers.image.version"],
		"bill of materials": bill.Metadata.Component.Version,
	} {
		if got != cli.Version {
			t.Errorf("%s: version %q, the program has %s", part, got, cli.Version)
		}
	}
	if page := string(f.man["eusn-stream.1"]); !strings.Contains(page, `"eusn-stream `+cli.Version+`"`) {
		t.Errorf("the manual page lacks version %s: %.100s", cli.Version, page)
	}
}

func versionsIn(t *testing.T, name, pattern string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
		found = append(found, m[1])
	}
	return found
}

// The tag of a release is the version of the program. Commits after a release have a
// different version.
func TestReleaseVersion(t *testing.T) {
	const commit = "b0bf30eaaad9f1d2"
	for module, want := range map[string]string{
		"v" + cli.Version:                           cli.Version,
		"v0.0.0-20261124013340-b0bf30eaaad9":        cli.Version, // a clone without tags
		"v0.1.1-0.20261124013340-b0bf30eaaad9":      cli.Version + "+20261124013340.b0bf30eaaad9",
		"v0.1.0-rc.1.0.20261124013340-b0bf30eaaad9": cli.Version + "+20261124013340.b0bf30eaaad9",
		"v99.0.0": "", // another tag
		"(devel)": "",
	} {
		got, err := releaseVersion(module, commit)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: version %q, error %v, want %q", module, got, err, want)
		}
	}
}
