//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// may is the set of allowed results of a partition besides the correct predictions, each
// once. It is empty if a fault loses nothing that the stage cannot restore.
type may struct {
	Flag  bool // an incomplete prediction has a flag, and so has the next prediction after a missing one
	Stop  bool // the partition stops, and a worker's log has the reason
	Shown bool // the output's store loses predictions; Eusn-Outs, which counts them, shows the number
}

// isLenient reports whether results other than correct predictions are allowed. Then the
// producers' plan decides what is correct, not the input.
func (m may) isLenient() bool { return m != may{} }

func (m may) String() string {
	s := "equal"
	for _, w := range []struct {
		on   bool
		word string
	}{{m.Flag, "flagged"}, {m.Stop, "stopped"}, {m.Shown, "counted"}} {
		if w.on {
			s += " or " + w.word
		}
	}
	return s
}

// lossFlags mark predictions that lack samples, or may lack some.
const lossFlags = outcome.FlagGap | outcome.FlagPoisonSkipped

// stops are the stopped partitions, with reasons.
type stops map[int]string

var (
	stoppedLine  = regexp.MustCompile(`partition stopped.* partition=(\d+) err=(.*)`)
	deferredLine = regexp.MustCompile(`time=(\S+) .*partition deferred.* partition=(\d+) in=(\S+) err=(.*)`)
)

// longDeferred is the pause of a partition after several refusals: it waits for a repair
// of the cause, and logs the cause.
const longDeferred = 8 * time.Second

// parseDeferred returns the partition that a log line reports as deferred, and the
// reason.
func parseDeferred(line []byte) (partition int, why string) {
	m := deferredLine.FindSubmatch(bytes.TrimSpace(line))
	if m == nil {
		return -1, ""
	}
	at, err1 := time.Parse(time.RFC3339, string(m[1]))
	wait, err2 := time.ParseDuration(string(m[3]))
	p, err3 := strconv.Atoi(string(m[2]))
	if errors.Join(err1, err2, err3) != nil || wait < longDeferred || time.Now().After(at.Add(wait)) {
		return -1, ""
	}
	return p, "deferred: " + string(m[4])
}

// addLogged adds the deferred and stopped partitions in a worker's log; logged reports a
// stopped partition.
func (all stops) addLogged(log []byte) (logged bool, err error) {
	for line := range bytes.Lines(log) {
		if p, why := parseDeferred(line); p >= 0 {
			all[p] = why
		}
		m := stoppedLine.FindSubmatch(bytes.TrimSpace(line))
		if m == nil {
			continue
		}
		logged = true
		p, err := strconv.Atoi(string(m[1]))
		if err != nil {
			return logged, err
		}
		all[p] = string(m[2])
	}
	return logged, nil
}

// findStopped reads the logs for partitions that are stopped now. For each seat, the last
// worker with log lines counts. A worker that could not start has stopped all partitions.
func (f *fleet) findStopped(dir string, partitions int) (stops, error) {
	all, heard := stops{}, map[int]bool{}
	f.mu.Lock()
	workers := slices.Clone(f.all)
	f.mu.Unlock()
	for _, w := range slices.Backward(workers) {
		if heard[w.seat] {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, w.name+".log"))
		if err != nil {
			return nil, err
		}
		heard[w.seat] = bytes.Contains(text, []byte("stage is reading"))
		logged, err := all.addLogged(text)
		if err != nil {
			return nil, err
		}
		heard[w.seat] = heard[w.seat] || logged
		if heard[w.seat] || !w.hasEnded() || w.wasKilled() || w.exitStatus() == endedWell || w.exitStatus() == unreachable {
			continue
		}
		heard[w.seat] = true
		for p := range partitions {
			if why := parseRefusal(text); why != "" && all[p] == "" {
				all[p] = why
			}
		}
	}
	return all, nil
}

const unreachable = "exit status 4" // the server is unreachable: the next worker may reach it

// parseRefusal returns the reason of a worker's early end.
func parseRefusal(log []byte) (why string) {
	for line := range bytes.Lines(log) {
		if text, ok := strings.CutPrefix(string(bytes.TrimSpace(line)), "eusn-stream: "); ok {
			why = text
		}
	}
	return why
}
