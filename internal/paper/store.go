package paper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/energy"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// Settings are what every trial and draw depends on besides data, model and
// configuration. A file holds results of one of them.
type Settings struct {
	Protocol   Protocol `json:"protocol"`
	Seed       uint64   `json:"seed"`          // of the weights, see the package comment
	Arithmetic int      `json:"arithmetic"`    // reservoir.Arithmetic
	Format     int      `json:"format"`        // of the results file
	Bank       int      `json:"bank,omitzero"` // of protocol Bank alone: which bank and readout

	// ListLength is that of the reservoirs' search lists, where it is not
	// MaxConfigurations: after how many configurations each search of the paper
	// is taken to have been stopped.
	ListLength int `json:"list_length,omitzero"`

	// LeastRate leaves configurations of a smaller learning rate out of the lists of
	// TrainedModels; the others move up.
	LeastRate float64 `json:"least_rate,omitzero"`
}

// format is the version of the lines' meaning.
const format = 1

// Share is a number of right answers.
type Share struct {
	Correct int `json:"correct"`
	Of      int `json:"of"`
}

// Accuracy is Correct/Of.
func (s Share) Accuracy() float64 { return float64(s.Correct) / float64(s.Of) }

// Trial is one configuration of a search.
type Trial struct {
	Dataset    string      `json:"dataset"`
	Model      string      `json:"model"`
	Index      int         `json:"index"` // in the search list
	Config     Scales      `json:"config"`
	Alpha      float64     `json:"alpha"`
	Validation Share       `json:"validation,omitzero"`
	Seconds    float64     `json:"seconds"` // wall clock of the one thread that did it
	Energy     energy.Used `json:"energy,omitzero"`
	Training   Training    `json:"training,omitzero"`
	Epochs     int         `json:"epochs,omitzero"` // trained for
	Cut        bool        `json:"cut,omitzero"`    // by the budget: it has no other result
}

// Draw is one drawing of the weights of the chosen configuration.
type Draw struct {
	Dataset    string      `json:"dataset"`
	Model      string      `json:"model"`
	Index      int         `json:"index"`
	Config     Scales      `json:"config"` // of a bank only its seed and units
	Alpha      float64     `json:"alpha"`
	Recipe     string      `json:"recipe,omitzero"`   // of protocol Compare: which recipe the bank's name meant
	Readout    string      `json:"readout,omitzero"`  // of a bank: ridge or discriminant, by leave-one-out
	LeftOut    float64     `json:"left_out,omitzero"` // its leave-one-out accuracy on the training part
	Parameters int         `json:"parameters"`        // trained ones
	Learnt     int         `json:"learnt"`            // series the readout was fitted to
	Test       Share       `json:"test,omitzero"`
	Seconds    float64     `json:"seconds"` // training and test
	Energy     energy.Used `json:"energy,omitzero"`
	Training   Training    `json:"training,omitzero"`
	Epochs     int         `json:"epochs,omitzero"`     // trained for
	Predicted  []int       `json:"predicted,omitempty"` // class of each test series, as Data.Truth
}

// Origin is where and with what results were made.
type Origin struct {
	Program string `json:"program"`
	Machine string `json:"machine"`
	Began   string `json:"began"` // RFC 3339
}

// record is one line of the file; exactly one field is set.
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

// Store is a results file being written: one line of JSON for each result, at
// once. Safe for concurrent use. A process that writes a file has it locked,
// where the system is a Unix; elsewhere the user must see to it.
type Store struct {
	Results
	mu     sync.Mutex
	file   *os.File
	synced time.Time
	origin *Origin // of this process, until it is written
	failed error   // of the first write that did not succeed: a line may be torn, and nothing may follow it
}

// ErrInUse says that another process is writing the results file.
var ErrInUse = errors.New("another run is writing this file")

// SettingsError says that a results file was made with other settings.
type SettingsError struct {
	Path       string
	Have, Want any
}

func (e *SettingsError) Error() string {
	have, _ := json.Marshal(e.Have)
	want, _ := json.Marshal(e.Want)
	return fmt.Sprintf("bench: %s holds results of %s, and this run is %s: they cannot be mixed", e.Path, have, want)
}

// Create begins a results file. One that exists is left alone: the error is
// fs.ErrExist.
func Create(path string, s Settings) (*Store, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	st := newStore(path, s)
	st.file = f
	if err = lock(f); err == nil {
		err = st.write(record{Settings: &st.settings})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bench: %s: %w", path, err), f.Close())
	}
	return st, nil
}

// Resume continues a results file, or begins it where there is none. A last
// line that a crash tore is cut off; anything else that cannot be read, and
// other settings, are errors that leave the file as it is.
func Resume(path string, s Settings) (*Store, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Create(path, s)
	} else if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil { // before it is read: what another run adds meanwhile would be cut off
		return nil, errors.Join(fmt.Errorf("bench: %s: %w", path, err), f.Close())
	}
	st := newStore(path, s)
	whole, err := st.read(f, func(have Settings) error {
		if have != st.settings {
			return &SettingsError{path, have, st.settings}
		}
		return nil
	})
	var other *SettingsError
	if err == nil {
		err = f.Truncate(whole)
	} else if !errors.As(err, &other) {
		err = archive.InContent(err)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	st.file = f
	if whole == 0 { // torn in its first line
		err = st.write(record{Settings: &st.settings})
	}
	return st, err
}

func newStore(path string, s Settings) *Store {
	s.Format = format
	return &Store{Results: newResults(path, s)}
}

// syncEvery is how much a dying machine may lose; a dying process loses
// nothing.
const syncEvery = time.Second

// append writes a record in one call and remembers it.
func (st *Store) append(r record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := st.take(r); err != nil {
		return err
	}
	if _, err := st.file.Write(append(line, '\n')); err != nil {
		st.failed = fmt.Errorf("bench: %w", err)
	}
	return st.failed
}

// write appends a record, at times durably.
func (st *Store) write(r record) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.failed != nil {
		return st.failed
	}
	if o := st.origin; o != nil {
		st.origin = nil
		if err := st.append(record{Origin: o}); err != nil {
			return err
		}
	}
	if err := st.append(r); err != nil {
		return err
	}
	if time.Since(st.synced) < syncEvery {
		return nil
	}
	st.synced = time.Now()
	return st.file.Sync()
}

// begin notes a data set, or holds it against the one noted before.
func (st *Store) begin(d Data) error {
	if _, ok := st.data[d.Dataset]; ok {
		return st.take(record{Data: &d})
	}
	return st.write(record{Data: &d})
}

// Close makes everything durable.
func (st *Store) Close() error { return errors.Join(st.file.Sync(), st.file.Close()) }
