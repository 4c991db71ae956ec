package figures

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// Memory is Fig. 4: accuracy against length, a panel per task, a curve per
// model.
type Memory struct{ Points []MemoryPoint }

// MemoryPoint is a point of a curve.
type MemoryPoint struct {
	Task, Model string
	Length      int     // samples
	Accuracy    float64 // mean over the draws, a share of 1
	Deviation   float64 // standard deviation over the draws
}

// Limits of a memory table, far beyond practical use.
const (
	maxMemoryBytes  = 16 << 20
	maxMemoryPoints = 1 << 16
	maxMemoryTasks  = 16
	maxMemoryModels = 8
	maxMemoryLength = 1 << 20
	maxName         = 64 // bytes
)

// ReadMemory reads the CSV file of eusn-stream offline paper memory: the columns
// task, length, model, accuracy and deviation, in any order, among others.
func ReadMemory(r io.Reader) (*Memory, error) {
	limited := &io.LimitedReader{R: r, N: maxMemoryBytes}
	in := csv.NewReader(limited)
	head, err := in.Read()
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("figures: memory table: %w", err)
	}
	var at [5]int
	for i, name := range []string{"task", "length", "model", "accuracy", "deviation"} {
		if at[i] = slices.Index(head, name); at[i] < 0 {
			return nil, fmt.Errorf("figures: memory table: no column %q, want task, length, model, accuracy, deviation", name)
		}
	}
	f := &Memory{}
	for {
		line, err := in.Read()
		if limited.N <= 0 {
			return nil, fmt.Errorf("figures: memory table: more than %d bytes, want fewer", maxMemoryBytes-1)
		}
		if err == io.EOF {
			return f, f.validate()
		} else if err != nil {
			return nil, fmt.Errorf("figures: memory table: %w", err)
		}
		p := MemoryPoint{Task: line[at[0]], Model: line[at[2]]}
		var errs [3]error
		p.Length, errs[0] = strconv.Atoi(line[at[1]])
		p.Accuracy, errs[1] = strconv.ParseFloat(line[at[3]], 64)
		p.Deviation, errs[2] = strconv.ParseFloat(line[at[4]], 64)
		if err := errors.Join(errs[:]...); err != nil {
			n, _ := in.FieldPos(0)
			return nil, fmt.Errorf("figures: memory table: line %d: %w", n, err)
		}
		if f.Points = append(f.Points, p); len(f.Points) > maxMemoryPoints {
			return nil, fmt.Errorf("figures: memory table: more than %d points, want fewer", maxMemoryPoints)
		}
	}
}

// NewMemory returns a Memory of points.
func NewMemory(points []MemoryPoint) (*Memory, error) {
	f := &Memory{points}
	return f, f.validate()
}

// Merge appends the points of another table.
func (f *Memory) Merge(other *Memory) error {
	f.Points = append(f.Points, other.Points...)
	return f.validate()
}

// validate refuses values out of their range.
func (p *MemoryPoint) validate() error {
	switch {
	case p.Task == "" || p.Model == "" || len(p.Task) > maxName || len(p.Model) > maxName:
		return fmt.Errorf("want names of 1 to %d bytes", maxName)
	case p.Length < 1 || p.Length > maxMemoryLength:
		return fmt.Errorf("want a length of 1 to %d", maxMemoryLength)
	case !(p.Accuracy >= 0 && p.Accuracy <= 1):
		return fmt.Errorf("accuracy %g, want a share of 1", p.Accuracy)
	case !(p.Deviation >= 0 && p.Deviation <= 1):
		return fmt.Errorf("deviation %g, want 0 to 1", p.Deviation)
	}
	return nil
}

func (f *Memory) validate() error {
	if len(f.Points) == 0 {
		return errors.New("figures: memory table: no points, want some")
	}
	type key struct {
		task, model string
		length      int
	}
	seen := map[key]bool{}
	for _, p := range f.Points {
		where := fmt.Sprintf("figures: memory table: task %.70q, model %.70q, length %d", p.Task, p.Model, p.Length)
		if err := p.validate(); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		k := key{p.Task, p.Model, p.Length}
		if seen[k] {
			return fmt.Errorf("%s: is there twice", where)
		}
		seen[k] = true
	}
	if n := len(f.tasks()); n > maxMemoryTasks {
		return fmt.Errorf("figures: memory table: %d tasks, want at most %d", n, maxMemoryTasks)
	}
	if n := len(f.models()); n > maxMemoryModels {
		return fmt.Errorf("figures: memory table: %d models, want at most %d", n, maxMemoryModels)
	}
	return nil
}

// tasks and models are in the order of their first points.
func (f *Memory) tasks() []string {
	return f.names(func(p MemoryPoint) string { return p.Task })
}

func (f *Memory) models() []string {
	return f.names(func(p MemoryPoint) string { return p.Model })
}

func (f *Memory) names(of func(MemoryPoint) string) []string {
	var all []string
	seen := map[string]bool{}
	for _, p := range f.Points {
		if n := of(p); !seen[n] {
			seen[n], all = true, append(all, n)
		}
	}
	return all
}

// curve returns the points of a line, by length.
func (f *Memory) curve(task, model string) []MemoryPoint {
	var c []MemoryPoint
	for _, p := range f.Points {
		if p.Task == task && p.Model == model {
			c = append(c, p)
		}
	}
	slices.SortFunc(c, func(a, b MemoryPoint) int { return a.Length - b.Length })
	return c
}

// CSV returns a line per point, with the drawn band.
func (f *Memory) CSV() []byte {
	t := newTable("task", "model", "length", "accuracy", "deviation", "band_low", "band_high")
	for _, task := range f.tasks() {
		for _, model := range f.models() {
			for _, p := range f.curve(task, model) {
				low, high := p.band()
				t.addRow(task, model, p.Length, p.Accuracy, p.Deviation, low, high)
			}
		}
	}
	return t.bytes()
}

// band returns the point's accuracy minus and plus one standard deviation.
func (p MemoryPoint) band() (low, high float64) {
	return p.Accuracy - p.Deviation, p.Accuracy + p.Deviation
}
