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

// may is which results of a partition are allowed, other than every prediction
// once and right. None is, if a fault loses nothing that the stage cannot get
// again.
type may struct {
	Flag  bool // a prediction that lacks samples has a flag, and so has the next one after a prediction that cannot be made
	Stop  bool // the partition stops, and a worker's log says why
	Shown bool // the output's store loses predictions; Eusn-Outs, which counts them, shows how many
}

// lenient reports whether other results than right predictions are allowed.
// Then right is what the producers meant, not what the input holds.
func (m may) lenient() bool { return m != may{} }

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

// lossFlags say that a prediction lacks samples, or may lack some.
const lossFlags = outcome.FlagGap | outcome.FlagPoisonSkipped

// stops is which partitions are stopped, and why.
type stops map[int]string

var (
	stoppedLine  = regexp.MustCompile(`partition stopped.* partition=(\d+) err=(.*)`)
	deferredLine = regexp.MustCompile(`time=(\S+) .*partition deferred.* partition=(\d+) in=(\S+) err=(.*)`)
)

// longDeferred is the pause of a partition that was refused several times: it
// waits until the cause is repaired, and says so.
const longDeferred = 8 * time.Second

// deferred is the partition that a line of a log says is still deferred, and
// why.
func deferred(line []byte) (partition int, why string) {
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

// addLogged adds the partitions that the log of a worker says are deferred or stopped; logged
// says that one is stopped.
func (all stops) addLogged(log []byte) (logged bool, err error) {
	for line := range bytes.Lines(log) {
		if p, why := deferred(line); p >= 0 {
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

// stopped reads the logs for partitions that are stopped now. For each seat, the
// last worker that logged anything counts. A worker that ended because it could
// not start has stopped all partitions.
func (f *fleet) stopped(dir string, partitions int) (stops, error) {
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
		if heard[w.seat] || !w.ended() || w.killed() || w.how() == endedWell || w.how() == unreachable {
			continue
		}
		heard[w.seat] = true
		for p := range partitions {
			if why := refusal(text); why != "" && all[p] == "" {
				all[p] = why
			}
		}
	}
	return all, nil
}

const unreachable = "exit status 4" // the server is away: the next worker may find it

// refusal is why a worker ended before it read anything.
func refusal(log []byte) (why string) {
	for line := range bytes.Lines(log) {
		if text, ok := strings.CutPrefix(string(bytes.TrimSpace(line)), "eusn-stream: "); ok {
			why = text
		}
	}
	return why
}
