package edge

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Options of an export; zero values are defaults.
type Options struct {
	Name    string   // begins every name in the header: a lower-case letter, then lower-case letters, digits and _, at most 32 of them; "eusn"
	Readout string   // which of the model's readouts; needed where there are several
	Without []string // parts of the readout to leave out, of Parts; then it predicts as if it had none
}

// Parts are what a header does not compute, and what a readout can do without.
var Parts = []string{"early", "novelty"}

// Size says what a program needs, in bytes.
type Size struct {
	State     int `json:"state_bytes"`      // of each stream: memory
	Constants int `json:"constant_bytes"`   // weights and tables: read-only memory
	Text      int `json:"characters"`       // of the header
	Samples   int `json:"selftest_samples"` // of the header's test of itself
}

// ErrPart marks a model that has a part which a header does not compute.
var ErrPart = errors.New("not in a header")

var nameRule = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// C writes the model as a header. A model that has what a header does not compute is
// refused with ErrPart.
func C(w io.Writer, m *reservoir.Model, o Options) (Size, error) {
	if o.Name == "" {
		o.Name = "eusn"
	}
	if !nameRule.MatchString(o.Name) {
		return Size{}, fmt.Errorf("edge: name %q, want a lower-case letter, then lower-case letters, digits and _, at most 32 in all", o.Name)
	}
	x, err := newExport(m, o)
	if err != nil {
		return Size{}, err
	}
	text, err := x.header()
	if err != nil {
		return Size{}, err
	}
	if o.Name != "eusn" {
		text = strings.NewReplacer("eusn_", o.Name+"_", "EUSN_", strings.ToUpper(o.Name)+"_").Replace(text)
	}
	_, err = io.WriteString(w, text)
	return Size{State: 4 * (x.layout.Words + x.work()), Constants: x.constants, Text: len(text), Samples: selftestSamples}, err
}

// export is one model and the readout that is written.
type export struct {
	net         *reservoir.Network
	model       *reservoir.Model
	readout     *readout.Linear
	layout      reservoir.Layout
	fingerprint string
	constants   int // bytes written so far
}

func newExport(m *reservoir.Model, o Options) (*export, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	for _, part := range o.Without {
		if !slices.Contains(Parts, part) {
			return nil, fmt.Errorf("edge: cannot leave out %q, want one of %s", part, strings.Join(Parts, ", "))
		}
	}
	if m.Front != nil {
		return nil, fmt.Errorf("edge: the model has a front end, which is %w, and without it its answers would be wrong: train without one", ErrPart)
	}
	h, err := choose(m.Readouts, o.Readout)
	if err != nil {
		return nil, err
	}
	if h.Detects {
		return nil, fmt.Errorf("edge: readout %q knows no classes but whether a sequence is novel, which is %w: train on two classes or more", h.Name, ErrPart)
	}
	for _, part := range []struct {
		name, what string
		has        bool
	}{{"novelty", "a detector of what is novel", h.Novelty != nil}, {"early", "a second readout for early predictions", h.Prefixes != nil}} {
		if part.has && !slices.Contains(o.Without, part.name) {
			return nil, fmt.Errorf("edge: readout %q has %s (%s), which is %w: leave it out", h.Name, part.what, part.name, ErrPart)
		}
	}
	sum, err := m.Fingerprint()
	if err != nil {
		return nil, err
	}
	return &export{net: m.Network, model: m, readout: h, layout: m.Network.Spec.Layout(), fingerprint: sum}, nil
}

// choose is the readout of that name, or the only one.
func choose(readouts []*readout.Linear, name string) (*readout.Linear, error) {
	var names []string
	for _, h := range readouts {
		if h.Name == name || name == "" && len(readouts) == 1 {
			return h, nil
		}
		names = append(names, h.Name)
	}
	switch {
	case len(readouts) == 0:
		return nil, errors.New("edge: the model has no readout: train one")
	case name == "":
		return nil, fmt.Errorf("edge: the model has %d readouts, want the name of one: %s", len(readouts), strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("edge: the model has no readout %q, but %s", name, strings.Join(names, ", "))
}

func (x *export) mixed() bool { return x.net.Spec.Kind == reservoir.Mixed }

// work is how many numbers a push needs beside the state.
func (x *export) work() int { return x.net.Spec.Inputs() + x.net.Spec.Units }
