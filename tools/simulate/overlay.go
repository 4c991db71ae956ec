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
		{"\tglobalRand.state.Init(*seed)", "\tfor i := range seed { seed[i] = byte(i*7 + 1) }; globalRand.state.Init(*seed)"},
		{"func rand() uint64 {", "func rand() uint64 { if getg().bubble != nil { return simNext() }"},
		{"func cheaprand() uint32 {", "func cheaprand() uint32 { if getg().bubble != nil { return uint32(simNext() >> 32) }"},
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

var simWall [1024]int64

//go:linkname simSetWall
func simSetWall(clock int, ahead int64) { simWall[clock] = ahead }

//go:linkname simGetClock time.simGetClock
func simGetClock() int { return getg().simClock }

//go:linkname simSetClock time.simSetClock
func simSetClock(clock int) { getg().simClock = clock }
`},
	},
	// Each participant has a wall clock of its own, which a history may change: goroutines and
	// timers inherit the number of the clock. Times have a monotonic reading, as in processes.
	"runtime/time.go": {
		{"\t\tsec = bubble.now / (1000 * 1000 * 1000)\n\t\tnsec = int32(bubble.now % (1000 * 1000 * 1000))\n", "\t\twall := bubble.now + simWall[getg().simClock]\n\t\tsec = wall / (1000 * 1000 * 1000)\n\t\tnsec = int32(wall % (1000 * 1000 * 1000))\n"},
		{"return sec, nsec, 0", "return sec, nsec, bubble.now"},
	},
	"time/time.go": {{"var startNano int64 = runtimeNano() - 1", "var startNano int64 = 1"}},
	"time/sleep.go": {
		{"func AfterFunc(d Duration, f func()) *Timer {", "func AfterFunc(d Duration, f func()) *Timer { if c := simGetClock(); c != 0 { g := f; f = func() { simSetClock(c); g() } }"},
		{"", `
//go:linkname simGetClock
func simGetClock() int

//go:linkname simSetClock
func simSetClock(clock int)
`},
	},
	// Nothing takes a goroutine from its thread except the goroutine itself.
	"runtime/proc.go": {
		{"\t\tnewg.bubble = callergp.bubble\n", "\t\tnewg.bubble, newg.simClock = callergp.bubble, callergp.simClock\n"},
		{"const haveSysmon = GOARCH != \"wasm\"", "const haveSysmon = false"},
		{"const forcePreemptNS = 10 * 1000 * 1000", "const forcePreemptNS = 1000 * 1000 * 1000 * 1000"},
	},
	// The clock of a bubble advances while goroutines wait for a mutex: nats.go holds one
	// during a request.
	"runtime/runtime2.go": {
		{"\tbubble  *synctestBubble\n", "\tbubble *synctestBubble\n\tsimClock int\n"},
		{"\twaitReasonSyncCondWait:          true,\n", "\twaitReasonSyncCondWait: true, waitReasonSyncMutexLock: true, waitReasonSyncRWMutexRLock: true, waitReasonSyncRWMutexLock: true,\n"},
	},
	// A mutex would change its order by the real time of a wait.
	"internal/sync/mutex.go": {{"starvationThresholdNs = 1e6", "starvationThresholdNs = 1e18"}},
	// The random numbers of the system are replaced by a counter: package variables draw
	// some before a test begins.
	"crypto/internal/sysrand/rand.go": {
		{"func Read(b []byte) {", "func Read(b []byte) { if simRead(b) { return }"},
		{"", `
var simPos uint64

func simRead(b []byte) bool {
	for i := range b {
		simPos += 0x9e3779b97f4a7c15
		z := (simPos ^ (simPos >> 30)) * 0xbf58476d1ce4e5b9
		b[i] = byte(z >> 40)
	}
	return true
}
`},
	},
	// A simulated loss of power loses what was not synced, and a full disk takes no more bytes:
	// the harness hears of each write and sync.
	"internal/poll/fd_unix.go": {
		{"prepareWrite(fd.isFile); err != nil {\n\t\treturn 0, err\n\t}\n\tvar nn int\n", "prepareWrite(fd.isFile); err != nil {\n\t\treturn 0, err\n\t}\n\tif fd.isFile && simRoom != nil { if n := simRoom(fd.Sysfd, len(p)); n < len(p) { n, _ = syscall.Write(fd.Sysfd, p[:n]); return max(n, 0), syscall.ENOSPC } }\n\tvar nn int\n"},
		{"defer fd.decref()\n\tvar nn int\n\tfor {\n", "defer fd.decref()\n\tif simRoom != nil { if n := simRoom(fd.Sysfd, len(p)); n < len(p) { n, _ = syscall.Pwrite(fd.Sysfd, p[:n], off); return max(n, 0), syscall.ENOSPC } }\n\tvar nn int\n\tfor {\n"},
		{"strconv.Itoa(max-nn))\n\t\t\t}\n\t\t\tnn += n\n\t\t}\n\t\tif nn == len(p) {", "strconv.Itoa(max-nn))\n\t\t\t}\n\t\t\tnn += n\n\t\t}\n\t\tif nn == len(p) { if fd.isFile && simWrote != nil { simWrote(fd.Sysfd) }"},
		{"", "\nvar simWrote, simSynced func(fd int)\n\nvar simRoom func(fd, n int) int\n"},
	},
	"internal/poll/fd_fsync_posix.go": {
		{"\t\treturn syscall.Fsync(fd.Sysfd)", "\t\terr := syscall.Fsync(fd.Sysfd); if err == nil && simSynced != nil { simSynced(fd.Sysfd) }; return err"},
	},
}

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
		if err := addEdited(src, dir, name, replace); err != nil {
			return err
		}
	}
	maps.Copy(replace, more)
	text, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// addEdited writes an edited file of the toolchain to dir, and adds it to the overlay.
func addEdited(src, dir, name string, replace map[string]string) error {
	text, err := os.ReadFile(filepath.Join(src, name))
	if err != nil {
		return err
	}
	changed, err := applyEdits(name, string(text))
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

func otherVersion(name, text string, n int) error {
	return fmt.Errorf("%s of the installed Go has the text to replace %d times, want once: change the edits in tools/simulate/overlay.go for this version of Go\n%s", name, n, text)
}
