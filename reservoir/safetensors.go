package reservoir

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// tensorReader reads the tensors of one safetensors file and keeps the first
// error.
type tensorReader struct {
	info map[string]tensorInfo
	body []byte
	read map[string]bool
	err  error
}

// openTensors checks a safetensors file's frame: header length, JSON, byte
// ranges that cover the body exactly once.
func openTensors(b []byte) (*tensorReader, map[string]string, error) {
	n, err := headerLength(b)
	if err != nil {
		return nil, nil, err
	}
	if n > uint64(len(b)-8) {
		return nil, nil, fmt.Errorf("truncated: header of %d bytes declared, %d bytes follow", n, len(b)-8)
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(b[8:8+n], &header); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	var meta map[string]string
	if raw, ok := header["__metadata__"]; ok {
		if err := json.Unmarshal(raw, &meta); err != nil {
			return nil, nil, fmt.Errorf("header: __metadata__: %w", err)
		}
		delete(header, "__metadata__")
	}
	r := &tensorReader{info: make(map[string]tensorInfo, len(header)), body: b[8+n:], read: map[string]bool{}}
	spans := make([][2]int64, 0, len(header))
	for name, raw := range header {
		var t tensorInfo
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, nil, fmt.Errorf("header: tensor %q: %w", name, err)
		}
		if err := t.checkInfo(int64(len(r.body))); err != nil {
			return nil, nil, fmt.Errorf("header: tensor %q: %w", name, err)
		}
		r.info[name] = t
		if t.Offsets[0] != t.Offsets[1] {
			spans = append(spans, t.Offsets)
		}
	}
	slices.SortFunc(spans, func(a, b [2]int64) int { return int(a[0] - b[0]) })
	end := int64(0)
	for _, s := range spans {
		if s[0] != end {
			return nil, nil, fmt.Errorf("tensors overlap or leave a hole at byte %d", min(end, s[0]))
		}
		end = s[1]
	}
	if end != int64(len(r.body)) {
		return nil, nil, fmt.Errorf("%d bytes of tensors declared, %d follow the header", end, len(r.body))
	}
	return r, meta, nil
}

// headerLength returns the length declared by a file's first 8 bytes.
func headerLength(b []byte) (uint64, error) {
	if len(b) < 8 {
		return 0, fmt.Errorf("%d bytes, too short for a safetensors header", len(b))
	}
	n := binary.LittleEndian.Uint64(b)
	if n < 2 || n > maxHeader {
		return 0, fmt.Errorf("no safetensors file: header of %d bytes declared, want 2 to %d", n, maxHeader)
	}
	return n, nil
}

func (t tensorInfo) checkInfo(body int64) error {
	if t.DType != "F32" && t.DType != "I32" {
		return fmt.Errorf("type %q, want F32 or I32", t.DType)
	}
	from, to := t.Offsets[0], t.Offsets[1]
	if from < 0 || to < from || to > body {
		return fmt.Errorf("bytes [%d, %d) of %d: truncated file?", from, to, body)
	}
	n := int64(1)
	for _, d := range t.Shape {
		if d < 0 || d > 0 && n > maxModel/d {
			return fmt.Errorf("shape %v, want sizes of at most %d values in all", t.Shape, int64(maxModel))
		}
		n *= d
	}
	if n*4 != to-from {
		return fmt.Errorf("shape %v needs %d bytes, %d given", t.Shape, n*4, to-from)
	}
	return nil
}

func (r *tensorReader) words(name, dtype string) []byte {
	t, ok := r.info[name]
	switch {
	case r.err != nil:
		return nil
	case !ok:
		r.err = fmt.Errorf("tensor %q is missing", name)
		return nil
	case t.DType != dtype:
		r.err = fmt.Errorf("tensor %q has type %s, want %s", name, t.DType, dtype)
		return nil
	}
	r.read[name] = true
	return r.body[t.Offsets[0]:t.Offsets[1]]
}

// readout reads a readout, whose tensors have the prefix p.
func (r *tensorReader) readout(h readoutInfo, p string) *readout.Linear {
	linear := &readout.Linear{Name: h.Name, Classes: h.Classes, Temperature: h.Temperature, Coverage: h.Coverage, Abstain: h.Abstain, Interval: h.Interval}
	r.linear(linear, p, h.Limited)
	if h.Random {
		linear.Random = r.random(p + "random.")
	}
	if h.Segments {
		linear.Segments = &readout.SegmentWeights{Center: r.floats(p + "segments.center"), Limit: r.floats(p + "segments.limit"), Weights: r.floats(p + "segments.weights")}
	}
	if e := h.Early; e != nil {
		of := &readout.Linear{Name: h.Name, Classes: h.Classes, Temperature: e.Temperature}
		r.linear(of, p+"early.", e.Limited)
		linear.Prefixes = &readout.Prefixes{Linear: of, Rule: e.Rule}
	}
	if n := h.Novelty; n != nil {
		linear.Detects = n.Detects
		linear.Novelty = &novelty.Detector{Level: n.Level, Unit: n.Unit, Center: r.floats(p + "novelty.center"), Scale: r.floats(p + "novelty.scale"), Axes: r.floats(p + "novelty.axes"), Left: r.floats(p + "novelty.left"), Usual: n.Usual, Later: n.Later}
		if n.Usual != nil {
			n.Usual.Linear, n.Usual.Square = r.floats(p+"novelty.linear"), r.floats(p+"novelty.square")
		}
		if n.Inputs {
			linear.Novelty.Inputs = r.floats(p + "novelty.inputs")
		}
		if n.Means {
			linear.Novelty.Means = &novelty.Means{Center: r.floats(p + "novelty.means.center"), Axes: r.floats(p + "novelty.means.axes")}
		}
	}
	return linear
}

// linear reads the tensors of a readout's scores.
func (r *tensorReader) linear(l *readout.Linear, prefix string, limited bool) {
	l.Center, l.Weights, l.Intercept = r.floats(prefix+"center"), r.floats(prefix+"weights"), r.floats(prefix+"intercept")
	if limited {
		l.Limit = r.floats(prefix + "limit")
	}
}

// random reads the tensors of a readout's random features.
func (r *tensorReader) random(prefix string) *readout.RandomFeatures {
	return &readout.RandomFeatures{
		Center: r.floats(prefix + "center"), Weights: r.floats(prefix + "weights"), Bias: r.floats(prefix + "bias"), Out: r.floats(prefix + "out"),
	}
}

func (r *tensorReader) floats(name string) []float32 {
	b := r.words(name, "F32")
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

func (r *tensorReader) ints(name string) []int32 {
	b := r.words(name, "I32")
	v := make([]int32, len(b)/4)
	for i := range v {
		v[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

// lags reads the lags of a member, if it has lags.
func (r *tensorReader) lags(has bool, name string) []int32 {
	if !has {
		return nil
	}
	return r.ints(name)
}

// complete checks the shape of every tensor against the model, and that no
// tensor is left over.
func (r *tensorReader) complete(m *Model) error {
	var errs []error
	for _, t := range m.tensors() {
		if got := r.info[t.name].Shape; !slices.Equal(got, t.shape) {
			errs = append(errs, fmt.Errorf("tensor %q has shape %v, want %v", t.name, got, t.shape))
		}
	}
	for name := range r.info {
		if !r.read[name] {
			errs = append(errs, fmt.Errorf("tensor %q is unknown", name))
		}
	}
	return errors.Join(errs...)
}
