package edge

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Options of an export; zero values are defaults.
type Options struct {
	Name    string   // prefix of every name in the header: a lower-case letter, then lower-case letters, digits and _, at most 32 in total; default "eusn"
	Readout string   // name of the readout; required if the model has several
	Without []string // parts of the readout to leave out, of Parts; the readout then predicts without them
}

// Parts are the optional parts of a readout that a header does not compute.
var Parts = []string{"early", "novelty"}

// Size is the size of an exported program.
type Size struct {
	State     int `json:"state_bytes"`      // bytes of memory for each stream
	Constants int `json:"constant_bytes"`   // bytes of read-only memory: weights and tables
	Text      int `json:"characters"`       // of the header
	Samples   int `json:"selftest_samples"` // number of samples of the header's self-test
}

// ErrPart marks a model with a part that a header does not compute.
var ErrPart = errors.New("not in a header")

var nameRule = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// C writes the model as a header. A model with a part that a header does not compute is
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
	return Size{State: 4 * (x.layout.Words + x.workSize()), Constants: x.constants, Text: len(text), Samples: selftestSamples}, err
}

// export is a model and the exported readout.
type export struct {
	net         *reservoir.Network
	model       *reservoir.Model
	readout     *readout.Linear
	layout      engine.Layout
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
	if m.Front.StatisticsSize(1) > 0 {
		if m.Front.Segments != nil {
			return nil, fmt.Errorf("edge: the model has weights of segments, which are %w: train with --segments none", ErrPart)
		}
		return nil, fmt.Errorf("edge: the model has random features of running means, which are %w: train with --random-features none", ErrPart)
	}
	if m.Front.StateSize(1) > 0 { // regimes have no state
		return nil, fmt.Errorf("edge: the model has a front end, which is %w, and without it its answers would be wrong: train without one", ErrPart)
	}
	h, err := chooseReadout(m.Readouts, o.Readout)
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
	return &export{net: m.Network, model: m, readout: h, layout: engine.LayoutOf(m.Network.Spec), fingerprint: sum}, nil
}

// chooseReadout returns the readout with the name, or the only readout.
func chooseReadout(readouts []*readout.Linear, name string) (*readout.Linear, error) {
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

// workSize returns the number of values that a push needs besides the state.
func (x *export) workSize() int { return x.net.Spec.Inputs() + x.net.Spec.Units }
