package learn

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/dirlock"
	"github.com/eusn-stream/eusn-stream/internal/durable"
	"github.com/eusn-stream/eusn-stream/internal/replay"
)

const (
	stateFile    = "learn.json"
	stateVersion = 1
	segmentName  = "features-%06d.seg"
	// segmentBytes is the size of a complete segment: a kill loses at most this amount of work.
	segmentBytes = 64 << 20
)

// ErrDamaged means that a file of a store differs from the written file.
var ErrDamaged = errors.New("the file is damaged")

// ErrInUse means that another process uses the store.
var ErrInUse = errors.New("another process uses this directory")

// ErrOther means that a store has features of another origin.
var ErrOther = errors.New("the store has another origin")

// Origin has the data besides samples that features depend on. All features of a store have the
// same origin.
type Origin struct {
	Job      string    `json:"job"`
	Created  time.Time `json:"created"` // creation time of the job's input
	Network  string    `json:"network"` // the model without readouts, and the arithmetic
	Settings string    `json:"settings"`
	Features int       `json:"features"`
}

// difference names the first difference.
func (a Origin) difference(o Origin) string {
	switch {
	case a.Job != o.Job:
		return fmt.Sprintf("job %q, not %q", a.Job, o.Job)
	case !a.Created.Equal(o.Created):
		return fmt.Sprintf("an input that was created %s, not %s", a.Created.UTC().Format(time.RFC3339Nano), o.Created.UTC().Format(time.RFC3339Nano))
	case a.Network != o.Network || a.Features != o.Features:
		return "another network (with its front end, policy, channels and arithmetic)"
	case a.Settings != o.Settings:
		return fmt.Sprintf("messages read as %s, not %s", a.Settings, o.Settings)
	}
	return ""
}

// Progress is the read position of labels and log.
type Progress struct {
	Labels uint64           `json:"labels"`         // number of the last label
	Input  uint64           `json:"input"`          // message
	Passed map[string]int64 `json:"passed"`         // latest sample time of each stream with labels, ns
	Gone   uint64           `json:"gone,omitempty"` // number of messages missing at the log's start
}

// state is learn.json.
type state struct {
	Version  int      `json:"version"`
	Origin   Origin   `json:"about"`
	Progress Progress `json:"through"`
}

// Store stores the features of labeled sequences. One goroutine owns a Store.
type Store struct {
	dir         string
	state       state
	originKnown bool // the origin is known
	entries     map[key]storedEntry
	segments    int // number of the last segment
	groups      []*group
	sumFiles    int          // number of the last file
	needed      map[key]bool // sequences of groups whose features are needed
	writing     *segmentWriter
	openFiles   map[string]*os.File // open segments
	release     func()
	limit       int64 // bytes of a segment
}

// Open opens or creates a store; the directory need not exist. No other process can use the store
// until Close.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("learn: %w", err)
	}
	lock := filepath.Join(dir, "lock")
	release, err := dirlock.Take(lock)
	switch {
	case errors.Is(err, dirlock.ErrHeld):
		return nil, fmt.Errorf("learn: %s: %w%s", dir, ErrInUse, dirlock.Remedy(lock))
	case err != nil:
		return nil, fmt.Errorf("learn: %w", err)
	}
	s := &Store{dir: dir, entries: map[key]storedEntry{}, openFiles: map[string]*os.File{}, release: release, limit: segmentBytes}
	if err := s.loadFiles(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// loadState loads learn.json, if it exists.
func (s *Store) loadState() error {
	path := filepath.Join(s.dir, stateFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	if err := json.Unmarshal(text, &s.state); err != nil {
		return fmt.Errorf("learn: %s: %w: %w; start a new store", path, err, ErrDamaged)
	}
	if v := s.state.Version; v != stateVersion {
		return fmt.Errorf("learn: %s: version %d, but this program reads version %d: use the program that wrote the file", path, v, stateVersion)
	}
	if n := s.state.Origin.Features; n < 1 || n > mostFeatures {
		return fmt.Errorf("learn: %s names %d features: %w; start a new store", path, n, ErrDamaged)
	}
	s.originKnown = true
	return nil
}

func (s *Store) loadFiles() error {
	if err := s.loadState(); err != nil {
		return err
	}
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	for _, f := range files { // ordered by name and thus by number
		name, path := f.Name(), filepath.Join(s.dir, f.Name())
		n := 0
		switch {
		case strings.HasSuffix(name, ".tmp"):
			if err := os.Remove(path); err != nil { // of a killed process
				return fmt.Errorf("learn: %w", err)
			}
		case name == stateFile || name == "lock":
		case parseFileName(name, sumsName, &n) && s.originKnown:
			if err := s.loadGroup(path, n); err != nil {
				return err
			}
		case !parseFileName(name, segmentName, &n) && !parseFileName(name, sumsName, &n):
			return fmt.Errorf("learn: %s is not a store of learn: it contains %q; choose another directory", s.dir, name)
		case !s.originKnown:
			return fmt.Errorf("learn: %s has features, but no %s: start a new store", s.dir, stateFile)
		default:
			s.segments = max(s.segments, n)
			if err := s.readSegmentFile(path); err != nil {
				return err
			}
		}
	}
	return nil
}

func parseFileName(name, format string, n *int) bool {
	got, err := fmt.Sscanf(name, format, n)
	return got == 1 && err == nil && *n > 0 && name == fmt.Sprintf(format, *n)
}

// readSegmentFile lists a segment. An entry in two segments was computed twice, with the same bits.
func (s *Store) readSegmentFile(path string) error {
	f, err := s.openSegment(path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	all, err := readSegment(path, f, info.Size(), s.state.Origin.Features)
	if err != nil {
		return err
	}
	s.addEntries(all)
	return nil
}

func (s *Store) addEntries(all []storedEntry) {
	for _, e := range all {
		if k := keyOf(&e.Entry); s.entries[k].segment == "" {
			s.entries[k] = e
		}
	}
}

// openSegment returns an open segment.
func (s *Store) openSegment(path string) (*os.File, error) {
	if f := s.openFiles[path]; f != nil {
		return f, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("learn: %w", err)
	}
	s.openFiles[path] = f
	return f, nil
}

// BindTo sets the origin of a new store, and refuses another origin for an existing store.
func (s *Store) BindTo(a Origin) error {
	if s.originKnown {
		if what := s.state.Origin.difference(a); what != "" {
			return fmt.Errorf("learn: %s: %w: %s", s.dir, ErrOther, what)
		}
		return nil
	}
	s.state, s.originKnown = state{Version: stateVersion, Origin: a}, true
	return s.writeState()
}

// Origin returns the features' origin; false: the store is new.
func (s *Store) Origin() (Origin, bool) { return s.state.Origin, s.originKnown }

// Progress returns the read position of labels and log.
func (s *Store) Progress() Progress { return s.state.Progress }

// Len returns the number of sequences with features, also of those added since the last Save.
func (s *Store) Len() int {
	n := 0
	if s.writing != nil {
		n = len(s.writing.keys)
	}
	for _, e := range s.entries {
		if e.segment != "" {
			n++
		}
	}
	return n
}

// HasFeatures reports whether a sequence's features are stored, or added since the last Save.
func (s *Store) HasFeatures(q *replay.Sequence) bool { return s.hasFeatures(keyOfSequence(q)) }

func (s *Store) hasFeatures(k key) bool {
	return s.entries[k].segment != "" || s.writing != nil && s.writing.keys[k]
}

// AddSequence stores the features of a sequence, unless they are stored already.
func (s *Store) AddSequence(q *replay.Sequence, features []float32) error {
	return s.addEntry(entryOf(q), features)
}

func (s *Store) addEntry(e Entry, features []float32) error {
	if s.hasFeatures(keyOf(&e)) {
		return nil
	}
	if s.writing == nil {
		w, err := s.nextSegment()
		if err != nil {
			return err
		}
		s.writing = w
	}
	if err := s.writing.writeEntry(e, features); err != nil {
		s.writing.abort()
		s.writing = nil
		return err
	}
	if s.writing.size < s.limit {
		return nil
	}
	return s.closeSegment()
}

// closeSegment makes the added features durable. After an error they are not stored, and can be
// added again.
func (s *Store) closeSegment() error {
	w := s.writing
	if s.writing = nil; w == nil {
		return nil
	}
	if err := w.close(); err != nil {
		return err
	}
	s.addEntries(w.entries)
	return nil
}

// Save makes the added features durable, and then the progress.
func (s *Store) Save(t Progress) error {
	if err := s.closeSegment(); err != nil {
		return err
	}
	s.state.Progress = t
	return s.writeState()
}

func (s *Store) writeState() error {
	text, err := json.Marshal(s.state)
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	path := filepath.Join(s.dir, stateFile)
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	if _, err = f.Write(append(text, '\n')); err != nil {
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	} else {
		err = durable.Commit(f, path, 0o600)
	}
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	return nil
}

// Entries returns the sequences by stream name, then in stream order.
func (s *Store) Entries() []Entry {
	all := make([]Entry, 0, len(s.entries))
	for _, e := range s.entries {
		all = append(all, e.Entry)
	}
	sortEntries(all)
	return all
}

func sortEntries(all []Entry) {
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.Stream, b.Stream), cmp.Compare(a.In, b.In), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Row, b.Row))
	})
}

// ReadFeatures reads the features of a sequence.
func (s *Store) ReadFeatures(e *Entry, dst []float32) error {
	at, known := s.entries[keyOf(e)]
	if known && at.segment == "" {
		return fmt.Errorf("learn: stream %q, seq %d, row %d: %w", e.Stream, e.Seq, e.Row, ErrGone)
	}
	if !known || len(dst) != s.state.Origin.Features {
		return fmt.Errorf("learn: stream %q, seq %d, row %d: want %d features of a sequence in the store", e.Stream, e.Seq, e.Row, s.state.Origin.Features)
	}
	f, err := s.openSegment(at.segment)
	if err != nil {
		return err
	}
	return readFeatures(f, &at, dst)
}

// Close releases the directory. Added features may be lost without Save.
func (s *Store) Close() {
	if s.writing != nil {
		s.writing.abort()
	}
	for _, f := range s.openFiles {
		f.Close()
	}
	s.release()
}
