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

// stateVersion is the version of a Fold's stored form.
const stateVersion = 1

// MaxState bounds a stored state, maxPlain its decompressed size.
const (
	MaxState = 1 << 30
	maxPlain = 2 << 30
)

// state is the stored form of a Fold: this JSON, compressed with gzip.
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
	Changed    []string          `json:"changed"` // changed and removed streams, see Fold.TakeChanges
	Taken      uint64            `json:"taken,omitempty"`

	Ahead []Logged       `json:"ahead,omitempty"` // by number, see Fold.Resume
	Until map[int]uint64 `json:"until,omitempty"`
	Tail  []Logged       `json:"tail,omitempty"` // events of the log after this state
}

type storedCounter struct {
	Rule    string   `json:"rule"`
	Key     string   `json:"key"`
	Counter *counter `json:"counter"`
}

// ErrLarge means that a state is too large to be read.
var ErrLarge = errors.New("the state of too many streams is too large to store: restrict the rules to fewer streams (streams S) or group the streams (by)")

// limitedWriter writes a limited number of bytes.
type limitedWriter struct {
	to        io.Writer
	remaining int64
}

func (b *limitedWriter) Write(p []byte) (int, error) {
	if b.remaining -= int64(len(p)); b.remaining < 0 {
		return 0, ErrLarge
	}
	return b.to.Write(p)
}

// Encode encodes the fold and the log's later events for DecodeFold.
func (f *Fold) Encode(tail ...Logged) ([]byte, error) {
	s := state{
		Version: stateVersion, Prefix: f.prefix, Position: f.position, Number: f.number, Time: f.time,
		Rules: f.rules.Texts(), Configured: f.configured, Partitions: f.partitions,
	}
	s.Taken, s.Ahead, s.Until, s.Tail = f.lastJudged, f.waitingEvents(), f.replay.decidedUntil, tail
	for _, key := range slices.SortedFunc(maps.Keys(f.counters), compareAlarmKeys) {
		s.Counters = append(s.Counters, storedCounter{key.rule, key.key, f.counters[key]})
	}
	for _, name := range slices.Sorted(maps.Keys(f.streams)) {
		s.Streams = append(s.Streams, f.streams[name])
	}
	s.Changed = slices.Sorted(maps.Keys(f.changed))
	s.Changed = append(s.Changed, slices.Sorted(maps.Keys(f.gone))...)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := json.NewEncoder(&limitedWriter{z, maxPlain}).Encode(&s); err != nil {
		return nil, fmt.Errorf("alarm: state: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("alarm: state: %w", err)
	}
	return b.Bytes(), nil
}

// DecodeFold decodes the result of Encode.
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
		return fail(fmt.Errorf("version %d, but this program reads version %d: use the program that wrote the state", s.Version, stateVersion))
	}
	f := NewFold(s.Prefix, s.Position)
	if f.rules, err = ParseRules(s.Rules); err != nil {
		return fail(err)
	}
	f.lastJudged = s.Taken
	for _, e := range s.Ahead {
		key := alarmKey{e.Event.Rule, e.Event.Key}
		f.replay.waiting[key] = append(f.replay.waiting[key], e)
	}
	if s.Until != nil {
		f.replay.decidedUntil = s.Until
	}
	f.number, f.time, f.configured = s.Number, s.Time, s.Configured
	if s.Partitions != nil {
		f.partitions = s.Partitions
	}
	for _, c := range s.Counters {
		if c.Counter == nil || f.rules.byName(c.Rule) == nil {
			return fail(fmt.Errorf("a counter of %q without a rule", c.Rule))
		}
		f.counters[alarmKey{c.Rule, c.Key}] = c.Counter
	}
	for _, stream := range s.Streams {
		if stream == nil {
			return fail(fmt.Errorf("a stream without a name"))
		}
		f.streams[stream.Stream] = stream
	}
	for _, name := range s.Changed {
		f.MarkChanged(name)
	}
	f.countSeries()
	f.replay.tail = s.Tail
	return f, nil
}

// Tail returns the later events of a decoded state.
func (f *Fold) Tail() []Logged { return f.replay.tail }
