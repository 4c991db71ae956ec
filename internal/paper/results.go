package paper

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Results is the content of a results file.
type Results struct {
	path     string
	settings Settings
	origins  []Origin
	data     map[string]Data
	trials   map[key]Trial
	draws    map[key]Draw
	cells    map[key]Cell
}

func newResults(path string, s Settings) Results {
	return Results{path: path, settings: s, data: map[string]Data{}, trials: map[key]Trial{}, draws: map[key]Draw{}, cells: map[key]Cell{}}
}

// ErrTorn reports a results file that ends within a line.
var ErrTorn = errors.New("the last line is incomplete: a run is writing the file, or was interrupted")

// ReadResults reads a whole results file. It checks that every cell follows from its
// trials and draws, and every draw's accuracy from its predictions if the predictions are
// stored.
func ReadResults(path string) (*Results, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rs := newResults(path, Settings{})
	whole, err := rs.readLines(f, func(s Settings) error {
		rs.settings = s
		if s.Format != format {
			return fmt.Errorf("bench: %s has version %d, and this program reads version %d: use the program that wrote it", path, s.Format, format)
		}
		if known := append(slices.Clone(Protocols), Compare); !slices.Contains(known, s.Protocol) {
			return fmt.Errorf("bench: %s: protocol %q, want one of %q", path, s.Protocol, known)
		}
		return nil
	})
	if err != nil {
		return nil, datafile.InContent(err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.Size() == 0:
		return nil, datafile.InContent(fmt.Errorf("bench: %s is empty", path))
	case whole != info.Size():
		return nil, fmt.Errorf("bench: %s: %w", path, ErrTorn)
	}
	return &rs, datafile.InContent(rs.checkAll())
}

// maxLine bounds a line, far beyond any of maxStored classes.
const maxLine = 1 << 24

// readLines reads the file and returns the length of its whole lines. first checks the
// settings.
func (st *Results) readLines(f io.Reader, first func(Settings) error) (whole int64, err error) {
	in := bufio.NewReaderSize(f, 1<<16)
	var line []byte
	for n := 1; ; n++ {
		line = line[:0]
		for {
			part, err := in.ReadSlice('\n')
			line = append(line, part...)
			if err == io.EOF {
				return whole, nil // the rest has no end: torn
			}
			if err == nil {
				break
			}
			if len(line) > maxLine {
				return 0, fmt.Errorf("bench: %s: line %d is longer than %d MiB: no results file", st.path, n, maxLine>>20)
			}
			if err != bufio.ErrBufferFull {
				return 0, fmt.Errorf("bench: %s: line %d: %w", st.path, n, err)
			}
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		var r record
		if err := d.Decode(&r); err != nil {
			return 0, fmt.Errorf("bench: %s: line %d is no result of this program: %w", st.path, n, err)
		}
		if _, err := d.Token(); err != io.EOF || r.countFields() != 1 {
			return 0, fmt.Errorf("bench: %s: line %d: want one result per line", st.path, n)
		}
		if (n == 1) != (r.Settings != nil) {
			return 0, fmt.Errorf("bench: %s: line %d: want the settings first, and once", st.path, n)
		}
		if n == 1 {
			if err := first(*r.Settings); err != nil {
				return 0, err
			}
		}
		if err := st.addRecord(r); err != nil {
			return 0, err
		}
		whole += int64(len(line))
	}
}

// countFields returns the number of set fields.
func (r record) countFields() (n int) {
	for _, field := range reflect.ValueOf(r).Fields() {
		if !field.IsNil() {
			n++
		}
	}
	return n
}

// addRecord adds a record to the results.
func (st *Results) addRecord(r record) error {
	switch {
	case r.Origin != nil:
		st.origins = append(st.origins, *r.Origin)
	case r.Data != nil:
		if have, ok := st.data[r.Data.Dataset]; ok && !reflect.DeepEqual(have, *r.Data) {
			want := *r.Data
			have.Truth, want.Truth = nil, nil // too long for a message
			return &SettingsError{st.path, have, want}
		}
		st.data[r.Data.Dataset] = *r.Data
	case r.Trial != nil:
		st.trials[key{r.Trial.Dataset, r.Trial.Model, r.Trial.Index}] = *r.Trial
	case r.Draw != nil:
		st.draws[key{r.Draw.Dataset, r.Draw.Model, r.Draw.Index}] = *r.Draw
	case r.Cell != nil:
		st.cells[key{r.Cell.Dataset, r.Cell.Model, 0}] = *r.Cell
	}
	return nil
}

// Settings are the settings of all results.
func (st *Results) Settings() Settings { return st.settings }

// Origins are the recorded origins, in the order of the file.
func (st *Results) Origins() []Origin { return st.origins }

// Data returns the description of a data set of the file.
func (st *Results) Data(dataset string) Data { return st.data[dataset] }

// Cells are ordered by data set, then by CompareModels.
func (st *Results) Cells() []Cell {
	return slices.SortedFunc(maps.Values(st.cells), func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), CompareModels(a.Model, b.Model))
	})
}

// CompareModels orders models as in PaperModels, then DeepESN, then as in TrainedModels,
// then banks as in reservoir.Banks, then other models by name.
func CompareModels(a, b string) int {
	all := slices.Concat(PaperModels, []string{DeepESN}, TrainedModels, reservoir.Banks)
	rank := func(m string) int {
		if i := slices.Index(all, m); i >= 0 {
			return i
		}
		return len(all)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

// DrawsOf returns the draws averaged in a cell.
func (st *Results) DrawsOf(c Cell) []Draw {
	var all []Draw
	for i := range c.Draws {
		all = append(all, st.draws[key{c.Dataset, c.Model, i}])
	}
	return all
}

// Unfinished is a model on a data set with results but without a cell.
type Unfinished struct {
	Dataset string `json:"dataset"`
	Model   string `json:"model"`
	Trials  int    `json:"trials"`
	Draws   int    `json:"draws"`
}

// Unfinished are in the order of Cells.
func (st *Results) Unfinished() []Unfinished {
	found := map[key]*Unfinished{}
	count := func(k key) *Unfinished {
		k.index = 0
		if found[k] == nil {
			found[k] = &Unfinished{Dataset: k.dataset, Model: k.model}
		}
		return found[k]
	}
	for k := range st.trials {
		count(k).Trials++
	}
	for k := range st.draws {
		count(k).Draws++
	}
	var all []Unfinished
	for k, u := range found {
		if _, done := st.cells[k]; !done {
			all = append(all, *u)
		}
	}
	slices.SortFunc(all, func(a, b Unfinished) int {
		return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), CompareModels(a.Model, b.Model))
	})
	return all
}

// checkAll compares cells with their trials and draws, and draws with their predictions.
func (st *Results) checkAll() error {
	for _, c := range st.Cells() {
		where := fmt.Sprintf("bench: %s: data set %q, %s", st.path, c.Dataset, c.Model)
		if _, ok := st.data[c.Dataset]; !ok {
			return fmt.Errorf("%s: a cell of a data set without a data line", where)
		}
		if c.Missing != "" {
			if c.Draws != 0 || c.Configurations != 0 {
				return fmt.Errorf("%s: a cell of %d configurations and %d draws with a reason for no result", where, c.Configurations, c.Draws)
			}
			continue
		}
		want, err := st.cell(c.Dataset, c.Model, Plan{Configurations: c.Configurations, Draws: c.Draws})
		if err != nil {
			return err
		}
		for _, d := range st.DrawsOf(c) {
			chosen := d.Config
			chosen.Seed = want.Config.Seed
			if c.Configurations > 0 && chosen != want.Config {
				return fmt.Errorf("%s: draw %d is not of configuration %d, the best: a run with a longer search was stopped", where, d.Index, want.Selected)
			}
			if err := st.data[c.Dataset].checkDraw(d); err != nil {
				return fmt.Errorf("%s: draw %d: %w", where, d.Index, err)
			}
		}
		// The sums are the same on every machine; the comparison is also false for NaN.
		if !(math.Abs(c.Accuracy-want.Accuracy) < 1e-12 && math.Abs(c.Deviation-want.Deviation) < 1e-12) || c.Selected != want.Selected {
			return fmt.Errorf("%s: the cell has accuracy %g, deviation %g, configuration %d, but its trials and draws give %g, %g, %d",
				where, c.Accuracy, c.Deviation, c.Selected, want.Accuracy, want.Deviation, want.Selected)
		}
	}
	return nil
}

// checkDraw requires possible counts of a draw that follow from its predictions.
func (d Data) checkDraw(w Draw) error {
	if w.Test.Of != d.Asked || w.Test.Correct < 0 || w.Test.Correct > w.Test.Of {
		return fmt.Errorf("%d of %d right, and the test part has %d series", w.Test.Correct, w.Test.Of, d.Asked)
	}
	if d.Asked > maxStored {
		return nil
	}
	if len(w.Predicted) != w.Test.Of || len(d.Truth) != w.Test.Of {
		return fmt.Errorf("%d predictions and %d true classes of %d series", len(w.Predicted), len(d.Truth), w.Test.Of)
	}
	correct := 0
	for i, class := range w.Predicted {
		if class < -1 || class >= d.Classes || d.Truth[i] < -1 || d.Truth[i] >= d.Classes {
			return fmt.Errorf("series %d: predicted class %d, true class %d, want classes below %d", i, class, d.Truth[i], d.Classes)
		}
		if class >= 0 && class == d.Truth[i] {
			correct++
		}
	}
	if correct != w.Test.Correct {
		return fmt.Errorf("%d of the predictions are correct, but the line has %d", correct, w.Test.Correct)
	}
	return nil
}
