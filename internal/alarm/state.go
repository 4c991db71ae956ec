package alarm

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// stateVersion is the version of the stored form of a Fold.
const stateVersion = 1

// MaxState bounds a stored state, and maxPlain what is in it.
const (
	MaxState = 1 << 30
	maxPlain = 2 << 30
)

// state is a Fold as it is stored: this JSON, compressed with gzip.
type state struct {
	Version    int               `json:"version"`
	Prefix     string            `json:"prefix"`
	Position   uint64            `json:"position"`
	Number     uint64            `json:"number"`
	Time       time.Time         `json:"time"`
	Rules      map[string]string `json:"rules"`
	Configured string            `json:"configured"`
	Partitions map[int]uint64    `json:"partitions"`
	Counters   []storedCounter   `json:"counters"`
	Streams    []*Latest         `json:"streams"`
	Changed    []string          `json:"changed"` // streams, see Fold.Changed: also those that are gone
	Taken      uint64            `json:"taken,omitempty"`

	Ahead []Logged       `json:"ahead,omitempty"` // by their numbers, see Fold.Resume
	Until map[int]uint64 `json:"until,omitempty"`
	Tail  []Logged       `json:"tail,omitempty"` // events of the log behind this state
}

type storedCounter struct {
	Rule    string   `json:"rule"`
	Key     string   `json:"key"`
	Counter *counter `json:"counter"`
}

// ErrLarge is a state that no process could read again.
var ErrLarge = errors.New("the alarms of too many streams to store: give rules fewer streams (streams S) or count groups of them (by)")

// bounded writes so many bytes at most.
type bounded struct {
	to   io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, ErrLarge
	}
	return b.to.Write(p)
}

// Encode is all that the fold knows, as DecodeFold reads it, and the events of the log
// that it has not come to.
func (f *Fold) Encode(tail ...Logged) ([]byte, error) {
	s := state{
		Version: stateVersion, Prefix: f.prefix, Position: f.position, Number: f.number, Time: f.time,
		Rules: f.rules.Texts(), Configured: f.configured, Partitions: f.partitions,
	}
	s.Taken, s.Ahead, s.Until, s.Tail = f.taken, f.waiting(), f.again.until, tail
	for _, which := range slices.SortedFunc(maps.Keys(f.counters), compareAt) {
		s.Counters = append(s.Counters, storedCounter{which.rule, which.key, f.counters[which]})
	}
	for _, name := range slices.Sorted(maps.Keys(f.streams)) {
		s.Streams = append(s.Streams, f.streams[name])
	}
	s.Changed = slices.Sorted(maps.Keys(f.changed))
	s.Changed = append(s.Changed, slices.Sorted(maps.Keys(f.gone))...)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := json.NewEncoder(&bounded{z, maxPlain}).Encode(&s); err != nil {
		return nil, fmt.Errorf("alarm: state: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("alarm: state: %w", err)
	}
	return b.Bytes(), nil
}

// DecodeFold reads what Encode has written.
func DecodeFold(data []byte) (*Fold, error) {
	fail := func(err error) (*Fold, error) { return nil, fmt.Errorf("alarm: state: %w", err) }
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return fail(err)
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxPlain))
	if err != nil {
		return fail(err)
	}
	var s state
	if err := json.Unmarshal(plain, &s); err != nil {
		return fail(err)
	}
	if s.Version != stateVersion {
		return fail(fmt.Errorf("it has version %d, and this program reads version %d: use the program that wrote it", s.Version, stateVersion))
	}
	f := NewFold(s.Prefix, s.Position)
	if f.rules, err = ParseRules(s.Rules); err != nil {
		return fail(err)
	}
	f.taken = s.Taken
	for _, e := range s.Ahead {
		which := at{e.Event.Rule, e.Event.Key}
		f.again.ahead[which] = append(f.again.ahead[which], e)
	}
	if s.Until != nil {
		f.again.until = s.Until
	}
	f.number, f.time, f.configured = s.Number, s.Time, s.Configured
	if s.Partitions != nil {
		f.partitions = s.Partitions
	}
	for _, c := range s.Counters {
		if c.Counter == nil || f.rules.named(c.Rule) == nil {
			return fail(fmt.Errorf("a counter of %q without a rule", c.Rule))
		}
		f.counters[at{c.Rule, c.Key}] = c.Counter
	}
	for _, one := range s.Streams {
		if one == nil {
			return fail(fmt.Errorf("a stream without a name"))
		}
		f.streams[one.Stream] = one
	}
	for _, name := range s.Changed {
		f.Again(name)
	}
	f.countSeries()
	f.again.tail = s.Tail
	return f, nil
}

// Tail are the events that Encode got, of a Fold that DecodeFold has read.
func (f *Fold) Tail() []Logged { return f.again.tail }
