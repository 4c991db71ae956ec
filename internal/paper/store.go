package paper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/dirlock"
	"github.com/eusn-stream/eusn-stream/internal/energy"
)

// Settings are the inputs of every trial and draw besides data, model and configuration.
// A file holds results of one Settings value.
type Settings struct {
	Protocol   Protocol `json:"protocol"`
	Seed       uint64   `json:"seed"`          // of the weights, see the package comment
	Arithmetic int      `json:"arithmetic"`    // reservoir.Arithmetic
	Format     int      `json:"format"`        // of the results file
	Bank       int      `json:"bank,omitzero"` // only of protocol Bank: the version of bank and readout

	// ListLength is the length of the reservoirs' search lists, if not MaxConfigurations:
	// the assumed number of configurations before each search of the paper was stopped.
	ListLength int `json:"list_length,omitzero"`

	// LeastRate removes configurations of a smaller learning rate from the lists of
	// TrainedModels; the rest move up.
	LeastRate float64 `json:"least_rate,omitzero"`
}

// format is the version of the lines' meaning.
const format = 1

// Share is a number of correct answers.
type Share struct {
	Correct int `json:"correct"`
	Of      int `json:"of"`
}

// Accuracy is Correct/Of.
func (s Share) Accuracy() float64 { return float64(s.Correct) / float64(s.Of) }

// Trial is a configuration of a search.
type Trial struct {
	Dataset    string      `json:"dataset"`
	Model      string      `json:"model"`
	Index      int         `json:"index"` // in the search list
	Config     Scales      `json:"config"`
	Alpha      float64     `json:"alpha"`
	Validation Share       `json:"validation,omitzero"`
	Seconds    float64     `json:"seconds"` // wall clock of its thread
	Energy     energy.Used `json:"energy,omitzero"`
	Training   Training    `json:"training,omitzero"`
	Epochs     int         `json:"epochs,omitzero"` // trained for
	Cut        bool        `json:"cut,omitzero"`    // by the budget: no other result
}

// Draw is a draw of the weights of the chosen configuration.
type Draw struct {
	Dataset    string      `json:"dataset"`
	Model      string      `json:"model"`
	Index      int         `json:"index"`
	Config     Scales      `json:"config"` // of a bank only seed and units
	Alpha      float64     `json:"alpha"`
	Recipe     string      `json:"recipe,omitzero"`   // of protocol Compare: the recipe of the bank's name
	Readout    string      `json:"readout,omitzero"`  // of a bank: ridge or discriminant, by leave-one-out
	LeftOut    float64     `json:"left_out,omitzero"` // its leave-one-out accuracy on the training part
	Parameters int         `json:"parameters"`        // number of trained parameters
	Learned    int         `json:"learned"`           // number of series for fitting the readout
	Test       Share       `json:"test,omitzero"`
	Seconds    float64     `json:"seconds"` // training and test
	Energy     energy.Used `json:"energy,omitzero"`
	Training   Training    `json:"training,omitzero"`
	Epochs     int         `json:"epochs,omitzero"`     // trained for
	Predicted  []int       `json:"predicted,omitempty"` // class of each test series, as Data.Truth
}

// Origin is the program, machine and time of results.
type Origin struct {
	Program string `json:"program"`
	Machine string `json:"machine"`
	Began   string `json:"began"` // RFC 3339
}

// record is a line of the file; exactly one field is set.
type record struct {
	Settings *Settings `json:"settings,omitempty"`
	Origin   *Origin   `json:"origin,omitempty"`
	Data     *Data     `json:"data,omitempty"`
	Metering *Metering `json:"metering,omitempty"`
	Trial    *Trial    `json:"trial,omitempty"`
	Draw     *Draw     `json:"draw,omitempty"`
	Cell     *Cell     `json:"cell,omitempty"`
}

type key struct {
	dataset, model string
	index          int
}

// Store is a results file being written: one line of JSON for each result, at once. Safe
// for concurrent use. On Unix, the writing process locks the file; on other systems the
// user must prevent a second writer.
type Store struct {
	Results
	mu     sync.Mutex
	file   *os.File
	synced time.Time
	origin *Origin // of this process, until written
	failed error   // of the first failed write: the line may be incomplete, and no line may follow it
}

// SettingsError reports a results file with other settings.
type SettingsError struct {
	Path       string
	Have, Want any
}

func (e *SettingsError) Error() string {
	have, _ := json.Marshal(e.Have)
	want, _ := json.Marshal(e.Want)
	return fmt.Sprintf("bench: %s holds results of %s, and this run is %s: they cannot be mixed", e.Path, have, want)
}

// Create creates a results file. An existing file is not changed: the error is
// fs.ErrExist.
func Create(path string, s Settings) (*Store, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	st := newStore(path, s)
	st.file = f
	if err = lockFile(f); err == nil {
		err = st.writeRecord(record{Settings: &st.settings})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bench: %s: %w", path, err), f.Close())
	}
	return st, nil
}

// Resume continues a results file, or creates a missing file. A last line torn by a crash
// is removed; other unreadable content, and other settings, are errors that leave the
// file unchanged.
func Resume(path string, s Settings) (*Store, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Create(path, s)
	} else if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil { // before reading: later additions of another run would be removed
		return nil, errors.Join(fmt.Errorf("bench: %s: %w", path, err), f.Close())
	}
	st := newStore(path, s)
	whole, err := st.readLines(f, func(have Settings) error {
		if have != st.settings {
			return &SettingsError{path, have, st.settings}
		}
		return nil
	})
	var other *SettingsError
	if err == nil {
		err = f.Truncate(whole)
	} else if !errors.As(err, &other) {
		err = datafile.InContent(err)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	st.file = f
	if whole == 0 { // torn in its first line
		err = st.writeRecord(record{Settings: &st.settings})
	}
	return st, err
}

func newStore(path string, s Settings) *Store {
	s.Format = format
	return &Store{Results: newResults(path, s)}
}

// syncEvery is the largest time of lost results after a machine crash; a process crash
// loses nothing.
const syncEvery = time.Second

// appendRecord writes a record in one call and adds it to the results.
func (st *Store) appendRecord(r record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := st.addRecord(r); err != nil {
		return err
	}
	if _, err := st.file.Write(append(line, '\n')); err != nil {
		st.failed = fmt.Errorf("bench: %w", err)
	}
	return st.failed
}

// writeRecord appends a record, and syncs the file at intervals.
func (st *Store) writeRecord(r record) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.failed != nil {
		return st.failed
	}
	if o := st.origin; o != nil {
		st.origin = nil
		if err := st.appendRecord(record{Origin: o}); err != nil {
			return err
		}
	}
	if err := st.appendRecord(r); err != nil {
		return err
	}
	if time.Since(st.synced) < syncEvery {
		return nil
	}
	st.synced = time.Now()
	return st.file.Sync()
}

// beginData records a data set, or compares it with the recorded one.
func (st *Store) beginData(d Data) error {
	if _, ok := st.data[d.Dataset]; ok {
		return st.addRecord(record{Data: &d})
	}
	return st.writeRecord(record{Data: &d})
}

// Close syncs and closes the file.
func (st *Store) Close() error { return errors.Join(st.file.Sync(), st.file.Close()) }

// Metering describes the energy measurement from this line of a file on.
type Metering struct {
	CPU *energy.Idle `json:"cpu,omitempty"`
	GPU *energy.Idle `json:"gpu,omitempty"`
}

// lockFile locks a results file for this process until the file is closed or the process
// ends in any way.
func lockFile(f *os.File) error {
	_, err := dirlock.TakeFile(f)
	if errors.Is(err, dirlock.ErrHeld) {
		return ErrInUse
	}
	return err
}

// ErrInUse reports that another process is writing the results file.
var ErrInUse = errors.New("another run is writing this file")
