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
	// segmentBytes is when a segment is complete: a kill loses at most so much work.
	segmentBytes = 64 << 20
)

// ErrDamaged is a file of a store that is not as it was written.
var ErrDamaged = errors.New("the file was damaged")

// ErrInUse is a store that another process uses.
var ErrInUse = errors.New("another learn uses this directory")

// ErrOther is a store of the features of something else.
var ErrOther = errors.New("it was begun with something else")

// About is what features depend on besides the samples. A store has those of one
// alone.
type About struct {
	Job      string    `json:"job"`
	Created  time.Time `json:"created"` // the job's input
	Network  string    `json:"network"` // the model without readouts, and the arithmetic
	Settings string    `json:"settings"`
	Features int       `json:"features"`
}

// differs names what is not the same.
func (a About) differs(o About) string {
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

// Through is how far labels and log were read together.
type Through struct {
	Labels uint64           `json:"labels"`         // number of the last one
	Input  uint64           `json:"input"`          // message
	Passed map[string]int64 `json:"passed"`         // of streams that labels name: the latest time of their samples, ns
	Gone   uint64           `json:"gone,omitempty"` // messages that were gone from the log's beginning
}

// state is learn.json.
type state struct {
	Version int     `json:"version"`
	About   About   `json:"about"`
	Through Through `json:"through"`
}

// Store keeps the features of labelled sequences. It belongs to one goroutine.
type Store struct {
	dir      string
	state    state
	bound    bool // what the features are of is known
	entries  map[key]stored
	segments int // number of the last
	groups   []*group
	sumFiles int          // number of the last
	again    map[key]bool // sequences of groups whose features are needed
	writing  *segmentWriter
	open     map[string]*os.File // segments that are read
	release  func()
	limit    int64 // bytes of a segment
}

// Open opens a store, or makes one: the directory may be new. Nobody else can use it
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
	s := &Store{dir: dir, entries: map[key]stored{}, open: map[string]*os.File{}, release: release, limit: segmentBytes}
	if err := s.load(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// loadState loads what the store is about, if it was stored already.
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
		return fmt.Errorf("learn: %s: %w: %w; begin another store", path, err, ErrDamaged)
	}
	if v := s.state.Version; v != stateVersion {
		return fmt.Errorf("learn: %s has version %d, and this program reads version %d: use the program that wrote it", path, v, stateVersion)
	}
	if n := s.state.About.Features; n < 1 || n > mostFeatures {
		return fmt.Errorf("learn: %s names %d features: %w; begin another store", path, n, ErrDamaged)
	}
	s.bound = true
	return nil
}

func (s *Store) load() error {
	if err := s.loadState(); err != nil {
		return err
	}
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	for _, f := range files { // in the order of their names, and so of their numbers
		name, path := f.Name(), filepath.Join(s.dir, f.Name())
		n := 0
		switch {
		case strings.HasSuffix(name, ".tmp"):
			if err := os.Remove(path); err != nil { // of one that was killed
				return fmt.Errorf("learn: %w", err)
			}
		case name == stateFile || name == "lock":
		case matches(name, sumsName, &n) && s.bound:
			if err := s.readGroup(path, n); err != nil {
				return err
			}
		case !matches(name, segmentName, &n) && !matches(name, sumsName, &n):
			return fmt.Errorf("learn: %s is not a store of learn: it holds %q; choose another directory", s.dir, name)
		case !s.bound:
			return fmt.Errorf("learn: %s has features, but no %s: begin another store", s.dir, stateFile)
		default:
			s.segments = max(s.segments, n)
			if err := s.read(path); err != nil {
				return err
			}
		}
	}
	return nil
}

func matches(name, format string, n *int) bool {
	got, err := fmt.Sscanf(name, format, n)
	return got == 1 && err == nil && *n > 0 && name == fmt.Sprintf(format, *n)
}

// read lists a segment. What stands in two was computed twice, with the same bits.
func (s *Store) read(path string) error {
	f, err := s.file(path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	all, err := readSegment(path, f, info.Size(), s.state.About.Features)
	if err != nil {
		return err
	}
	s.take(all)
	return nil
}

func (s *Store) take(all []stored) {
	for _, e := range all {
		if k := keyOf(&e.Entry); s.entries[k].segment == "" {
			s.entries[k] = e
		}
	}
}

// file is a segment, open.
func (s *Store) file(path string) (*os.File, error) {
	if f := s.open[path]; f != nil {
		return f, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("learn: %w", err)
	}
	s.open[path] = f
	return f, nil
}

// Begin makes a new store one of features of that, and refuses one of others.
func (s *Store) Begin(a About) error {
	if s.bound {
		if what := s.state.About.differs(a); what != "" {
			return fmt.Errorf("learn: %s: %w: %s", s.dir, ErrOther, what)
		}
		return nil
	}
	s.state, s.bound = state{Version: stateVersion, About: a}, true
	return s.save()
}

// About is what the features are of; false: the store is new.
func (s *Store) About() (About, bool) { return s.state.About, s.bound }

// Through is how far labels and log were read.
func (s *Store) Through() Through { return s.state.Through }

// Len is how many sequences have features here.
func (s *Store) Len() int {
	n := 0
	for _, e := range s.entries {
		if e.segment != "" {
			n++
		}
	}
	return n
}

// Has reports whether the features of a sequence are here.
func (s *Store) Has(q *replay.Sequence) bool {
	return s.entries[keyOfSequence(q)].segment != ""
}

// Add keeps the features of a sequence that is not here.
func (s *Store) Add(q *replay.Sequence, features []float32) error {
	return s.add(entryOf(q), features)
}

func (s *Store) add(e Entry, features []float32) error {
	if s.entries[keyOf(&e)].segment != "" {
		return nil
	}
	if s.writing == nil {
		w, err := s.next()
		if err != nil {
			return err
		}
		s.writing = w
	}
	if err := s.writing.add(e, features); err != nil {
		return err
	}
	s.take(s.writing.entries[len(s.writing.entries)-1:])
	if s.writing.size < s.limit {
		return nil
	}
	return s.flush()
}

// flush makes what was added stay.
func (s *Store) flush() error {
	w := s.writing
	if s.writing = nil; w == nil {
		return nil
	}
	return w.close()
}

// Save makes what was added stay, and after that how far labels and log were read.
func (s *Store) Save(t Through) error {
	if err := s.flush(); err != nil {
		return err
	}
	s.state.Through = t
	return s.save()
}

func (s *Store) save() error {
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

// Entries are the sequences: by their streams' names, those of a stream in its order.
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

// Features reads those of a sequence.
func (s *Store) Features(e *Entry, dst []float32) error {
	at, known := s.entries[keyOf(e)]
	if known && at.segment == "" {
		return fmt.Errorf("learn: stream %q, seq %d, row %d: %w", e.Stream, e.Seq, e.Row, ErrGone)
	}
	if !known || len(dst) != s.state.About.Features {
		return fmt.Errorf("learn: stream %q, seq %d, row %d: want %d features of a sequence in the store", e.Stream, e.Seq, e.Row, s.state.About.Features)
	}
	f, err := s.file(at.segment)
	if err != nil {
		return err
	}
	return readFeatures(f, &at, dst)
}

// Close gives the directory up. What was added and not saved may be lost.
func (s *Store) Close() {
	if s.writing != nil {
		s.writing.abort()
	}
	for _, f := range s.open {
		f.Close()
	}
	s.release()
}
