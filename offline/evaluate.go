package offline

import (
	"context"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// EvaluateOptions say what to evaluate.
type EvaluateOptions struct {
	EngineOptions
	Split Split  // zero: the test part
	Head  string // "": the model's first head
}

// Prediction is one series' result.
type Prediction struct {
	ID      string
	Samples int       // length of the series
	Label   int       // index into Evaluation.Classes; -1 where unknown
	Class   int       // the predicted one
	Scores  []float32 // of each class; for two classes one, positive for class 1
}

// Evaluation is what a head makes of one part of a data set.
type Evaluation struct {
	Dataset     string       `json:"dataset"`
	Split       Split        `json:"split"`
	Fingerprint string       `json:"fingerprint"` // of the data, see Dataset.Fingerprint
	Model       string       `json:"model"`       // fingerprint of the model
	Head        string       `json:"head"`
	Classes     []string     `json:"classes"`           // the head's, in its order
	Series      int          `json:"series"`            // all of the part
	Labelled    int          `json:"labelled"`          // those with a known class; all that follows counts only these
	Missing     int64        `json:"missing"`           // values filled, see Retrain
	Empty       int          `json:"empty"`             // series without a single value, predicted all the same
	Correct     int          `json:"correct"`           // predictions equal to the label
	Accuracy    float64      `json:"accuracy"`          // Correct / Labelled, 0 where Labelled is 0
	Balanced    float64      `json:"balanced_accuracy"` // mean over the classes present of the share recognised
	Confusion   [][]int      `json:"confusion"`         // series of class row predicted as class column
	Predictions []Prediction `json:"-"`
}

// Evaluate predicts every series of one part of d, each as one sequence from a
// reset state. Scores are the engine's own, so they are bit for bit those the
// live stage gives for the same samples. The data set needs the model's
// channels by name and order, and no class that the head does not know.
// Missing values are filled as Retrain does.
func Evaluate(ctx context.Context, m *reservoir.Model, d *Dataset, opt EvaluateOptions, progress Progress) (*Evaluation, error) {
	if opt.Split == "" {
		opt.Split = Test
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if err := checkNumeric(d); err != nil {
		return nil, err
	}
	head, err := chooseHead(m, opt.Head)
	if err != nil {
		return nil, err
	}
	label, err := matchModel(m, head, d)
	if err != nil {
		return nil, InContent(err)
	}
	series := d.Part(opt.Split)
	if len(series) == 0 {
		return nil, fmt.Errorf("offline: data set %q has no %s part", d.Name, opt.Split)
	}
	_, empty, _ := d.absent(series)
	ev := &Evaluation{
		Dataset: d.Name, Split: opt.Split, Fingerprint: d.Fingerprint(opt.Split), Head: head.Name,
		Classes: head.Classes, Series: len(series), Empty: empty, Predictions: make([]Prediction, len(series)),
	}
	if ev.Model, err = m.Fingerprint(); err != nil {
		return nil, err
	}
	take := func(_ reservoir.Engine, _, k int, scores []float32) error {
		s := &d.Series[series[k]]
		p := Prediction{ID: s.ID, Samples: d.Len(series[k]), Label: -1, Class: head.Class(scores), Scores: slices.Clone(scores)}
		if s.Label >= 0 {
			p.Label = label[s.Label]
		}
		ev.Predictions[k] = p
		return nil
	}
	ev.Missing, err = pass{opt.EngineOptions, m.Network, []*readout.Linear{head}, take}.run(ctx, d, series, progress)
	if err != nil {
		return nil, err
	}
	ev.count()
	return ev, nil
}

func chooseHead(m *reservoir.Model, name string) (*readout.Linear, error) {
	var names []string
	for _, h := range m.Heads {
		if name == "" || h.Name == name {
			return h, nil
		}
		names = append(names, h.Name)
	}
	if name == "" {
		return nil, fmt.Errorf("offline: the model has no head, want a trained one")
	}
	return nil, fmt.Errorf("offline: the model has no head %q, it has %q", name, names)
}

// matchModel holds channels and classes of d against the model's, and gives
// the head's class of each label of d.
func matchModel(m *reservoir.Model, head *readout.Linear, d *Dataset) ([]int, error) {
	if got, want := len(d.Channels), len(m.Channels); got != want {
		return nil, fmt.Errorf("offline: the model reads %d channels, data set %q has %d", want, d.Name, got)
	}
	if !slices.Equal(d.Channels, m.Channels) {
		return nil, fmt.Errorf("offline: the model reads channels %q, data set %q has %q: want the same names in the same order", m.Channels, d.Name, d.Channels)
	}
	label := make([]int, len(d.Classes))
	for i, c := range d.Classes {
		if label[i] = slices.Index(head.Classes, c); label[i] < 0 {
			return nil, fmt.Errorf("offline: class %q of data set %q is not among the %d classes of head %q", c, d.Name, len(head.Classes), head.Name)
		}
	}
	return label, nil
}

// count fills in everything that follows from the predictions.
func (ev *Evaluation) count() {
	ev.Confusion = make([][]int, len(ev.Classes))
	for i := range ev.Confusion {
		ev.Confusion[i] = make([]int, len(ev.Classes))
	}
	for _, p := range ev.Predictions {
		if p.Label < 0 {
			continue
		}
		ev.Labelled++
		ev.Confusion[p.Label][p.Class]++
		if p.Label == p.Class {
			ev.Correct++
		}
	}
	if ev.Labelled == 0 {
		return
	}
	ev.Accuracy = float64(ev.Correct) / float64(ev.Labelled)
	present := 0
	for i, row := range ev.Confusion {
		total := 0
		for _, n := range row {
			total += n
		}
		if total > 0 {
			present++
			ev.Balanced += float64(row[i]) / float64(total)
		}
	}
	ev.Balanced /= float64(present)
}
