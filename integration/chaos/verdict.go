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

	"github.com/eusn-stream/eusn-stream/codec"
)

// may is what a partition may come to besides every prediction once and
// right. A fault that loses nothing which the stage cannot have again allows
// neither.
type may struct {
	Flag  bool // what lacks samples carries a flag, and so does what follows a prediction that cannot be made
	Stop  bool // the partition stops, and a worker's log says why
	Shown bool // the output's store loses predictions; Eusn-Outs, which counts them, shows how many
}

// lenient reports whether anything but right predictions is allowed. What is
// right is then what producers meant, not what the input holds.
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

// lossFlags say that a prediction lacks samples or that what it rests on is in
// doubt.
const lossFlags = codec.FlagGap | codec.FlagPoisonSkipped

// stops is which partitions are stopped, and why.
type stops map[int]string

var (
	stoppedLine  = regexp.MustCompile(`partition stopped.* partition=(\d+) err=(.*)`)
	deferredLine = regexp.MustCompile(`time=(\S+) .*partition given up for now.* partition=(\d+) in=(\S+) err=(.*)`)
)

// longDeferred is the pause of a partition that has waited several times for
// what the server refuses: it waits until somebody mends that, and says so.
const longDeferred = 8 * time.Second

// deferred is the partition that a log's line says is deferred for some time
// still, and why.
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

// stopped reads the logs for partitions that are stopped now. Of each seat
// the last worker that has come so far as to say anything counts: one that ended
// because it could not even begin has stopped all.
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
		for line := range bytes.Lines(text) {
			if p, why := deferred(line); p >= 0 {
				all[p] = why
			}
			m := stoppedLine.FindSubmatch(bytes.TrimSpace(line))
			if m == nil {
				continue
			}
			heard[w.seat] = true
			p, err := strconv.Atoi(string(m[1]))
			if err != nil {
				return nil, err
			}
			all[p] = string(m[2])
		}
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
