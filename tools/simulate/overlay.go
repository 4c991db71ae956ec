package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// edit replaces a text that occurs once in a file of the toolchain. An empty old appends.
type edit struct{ old, new string }

// edits make goroutines of a testing/synctest bubble deterministic: every choice of the
// runtime (select, scheduling, order of maps, timers of equal time) comes from one counter
// that a history sets from its seed.
var edits = map[string][]edit{
	"runtime/rand.go": {
		{"\tglobalRand.state.Init(*seed)", "\tfor i := range seed {\n\t\tseed[i] = byte(i*7 + 1)\n\t}\n\tglobalRand.state.Init(*seed)"},
		{"func rand() uint64 {\n", "func rand() uint64 {\n\tif getg().bubble != nil {\n\t\treturn simNext()\n\t}\n"},
		{"func cheaprand() uint32 {\n", "func cheaprand() uint32 {\n\tif getg().bubble != nil {\n\t\treturn uint32(simNext() >> 32)\n\t}\n"},
		{"", `
var simState uint64

//go:nosplit
func simNext() uint64 {
	simState += 0x9e3779b97f4a7c15
	z := simState
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

//go:linkname simSeed
func simSeed(seed uint64) { simState = seed }
`},
	},
	// Nothing takes a goroutine from its thread except the goroutine itself.
	"runtime/proc.go": {
		{"const haveSysmon = GOARCH != \"wasm\"", "const haveSysmon = false"},
		{"const forcePreemptNS = 10 * 1000 * 1000", "const forcePreemptNS = 1000 * 1000 * 1000 * 1000"},
	},
	// The clock of a bubble advances while goroutines wait for a mutex: nats.go holds one
	// during a request.
	"runtime/runtime2.go": {
		{"\twaitReasonSyncCondWait:          true,\n", "\twaitReasonSyncCondWait:          true,\n\twaitReasonSyncMutexLock:         true,\n\twaitReasonSyncRWMutexRLock:      true,\n\twaitReasonSyncRWMutexLock:       true,\n"},
	},
	// A mutex would change its order by the real time of a wait.
	"internal/sync/mutex.go": {{"starvationThresholdNs = 1e6", "starvationThresholdNs = 1e18"}},
	// What a pool returns would depend on garbage collection.
	"sync/pool.go": {
		{"\tif x == nil {\n\t\treturn\n\t}\n\tif race.Enabled {\n\t\tif runtime_randn(4)", "\tif x == nil || !race.Enabled {\n\t\treturn\n\t}\n\tif race.Enabled {\n\t\tif runtime_randn(4)"},
	},
	// A simulated loss of power loses what was not synced: the harness hears of each sync.
	"os/file.go": {
		{"\tf.appendMode = flag&O_APPEND != 0\n\n\treturn f, nil\n", "\tf.appendMode = flag&O_APPEND != 0\n\tif simOpened != nil {\n\t\tsimOpened(name, flag)\n\t}\n\n\treturn f, nil\n"},
		{"\tepipecheck(f, e)\n\n\tif e != nil {\n\t\terr = f.wrapErr(\"write\", e)\n\t}\n", "\tepipecheck(f, e)\n\n\tif e != nil {\n\t\terr = f.wrapErr(\"write\", e)\n\t}\n\tif simWrote != nil {\n\t\tsimWrote(f.name)\n\t}\n"},
		{"", `
var (
	simOpened func(name string, flag int)
	simWrote  func(name string)
	simSynced func(name string)
)
`},
	},
	"os/file_posix.go": {
		{"\tif e := f.pfd.Fsync(); e != nil {\n\t\treturn f.wrapErr(\"sync\", e)\n\t}\n", "\tif e := f.pfd.Fsync(); e != nil {\n\t\treturn f.wrapErr(\"sync\", e)\n\t}\n\tif simSynced != nil {\n\t\tsimSynced(f.name)\n\t}\n"},
	},
}

// The random numbers of the system are replaced by a counter: package variables draw some
// before a test begins.
const (
	systemRandom      = "crypto/internal/sysrand/rand.go"
	systemRandomBegin = "\tif firstUse.CompareAndSwap(false, true) {"
	counter           = `	for i := range b {
		simPos += 0x9e3779b97f4a7c15
		z := (simPos ^ (simPos >> 30)) * 0xbf58476d1ce4e5b9
		b[i] = byte(z >> 40)
	}`
)

// writeOverlay edits the files of the installed toolchain into dir, and writes the overlay
// for go build, with more replaced files, to path.
func writeOverlay(dir, path string, more map[string]string) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	src := filepath.Join(string(bytes.TrimSpace(root)), "src")
	replace := map[string]string{}
	for name := range edits {
		if err := addEdited(src, dir, name, replace, applyEdits); err != nil {
			return err
		}
	}
	if err := addEdited(src, dir, systemRandom, replace, replaceRandom); err != nil {
		return err
	}
	maps.Copy(replace, more)
	text, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// addEdited writes an edited file of the toolchain to dir, and adds it to the overlay.
func addEdited(src, dir, name string, replace map[string]string, change func(name, text string) (string, error)) error {
	text, err := os.ReadFile(filepath.Join(src, name))
	if err != nil {
		return err
	}
	changed, err := change(name, string(text))
	if err != nil {
		return err
	}
	path := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
	replace[filepath.Join(src, name)] = path
	return writeIfChanged(path, []byte(changed))
}

// writeIfChanged keeps the time of an unchanged file: the compiler's cache depends on it.
func writeIfChanged(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return os.WriteFile(path, data, 0o644)
}

func applyEdits(name, text string) (string, error) {
	for _, e := range edits[name] {
		if e.old == "" {
			text += e.new
			continue
		}
		if n := strings.Count(text, e.old); n != 1 {
			return "", otherVersion(name, e.old, n)
		}
		text = strings.Replace(text, e.old, e.new, 1)
	}
	return text, nil
}

func replaceRandom(name, text string) (string, error) {
	from := strings.Index(text, systemRandomBegin)
	if from < 0 {
		return "", otherVersion(name, systemRandomBegin, 0)
	}
	length := strings.Index(text[from:], "\n}\n")
	if length < 0 {
		return "", otherVersion(name, "}", 0)
	}
	text = text[:from] + counter + text[from+length:] + "\nvar simPos uint64\n"
	for _, unused := range []string{"\t\"sync/atomic\"\n", "\t\"time\"\n", "var firstUse atomic.Bool\n"} {
		text = strings.Replace(text, unused, "", 1)
	}
	return text, nil
}

func otherVersion(name, text string, n int) error {
	return fmt.Errorf("%s of the installed Go has the text to replace %d times, want once: change the edits in tools/simulate/overlay.go for this version of Go\n%s", name, n, text)
}
