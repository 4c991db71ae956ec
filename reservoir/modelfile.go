package reservoir

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// The form of a model file is in the package's documentation, doc.go.
const (
	modelVersion = "1"
	// maxHeader bounds the JSON header, maxModel the whole file.
	maxHeader = 16 << 20
	maxModel  = 4 << 30
)

// ErrModel marks every error that makes a model file unusable.
var ErrModel = errors.New("not a usable model file")

type tensorInfo struct {
	DType   string   `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

type readoutInfo struct {
	Name        string   `json:"name"`
	Classes     []string `json:"classes"`
	Temperature float64  `json:"temperature,omitzero"`
	Limited     bool     `json:"limited,omitzero"` // the file has limits

	Coverage *readout.Coverage    `json:"coverage,omitempty"`
	Novelty  *noveltyInfo         `json:"novelty,omitempty"`  // nil: no detector
	Interval *readout.Interval    `json:"interval,omitempty"` // a regression; nil: classes
	Abstain  *readout.AbstainRule `json:"abstain,omitempty"`  // nil: every prediction is an answer
	Early    *earlyInfo           `json:"early,omitempty"`    // nil: no readout of prefixes
	Random   bool                 `json:"random,omitzero"`    // the file has random features
	Segments bool                 `json:"segments,omitzero"`  // the file has weights of segments
}

// earlyInfo describes a readout of prefixes; its numbers are tensors.
type earlyInfo struct {
	Temperature float64           `json:"temperature"`
	Limited     bool              `json:"limited,omitzero"`
	Rule        readout.EarlyRule `json:"rule"`
}

// noveltyInfo describes a detector; its numbers are tensors.
type noveltyInfo struct {
	Level   float32        `json:"level"`
	Unit    float32        `json:"unit"`
	Detects bool           `json:"detects,omitzero"` // the readout's class reports novelty
	Usual   *novelty.Usual `json:"usual,omitempty"`  // nil: nothing divides the residual
	Inputs  bool           `json:"inputs,omitzero"`  // the detector reads inputs
	Means   bool           `json:"means,omitzero"`   // the detector reads running means
	Later   *novelty.Later `json:"later,omitempty"`  // nil: the false alarms were not measured
}

func newReadoutInfo(h *readout.Linear) readoutInfo {
	info := readoutInfo{Name: h.Name, Classes: h.Classes, Temperature: h.Temperature, Limited: h.Limit != nil, Coverage: h.Coverage, Abstain: h.Abstain, Interval: h.Interval, Random: h.Random != nil, Segments: h.Segments != nil}
	if h.Novelty != nil {
		info.Novelty = &noveltyInfo{h.Novelty.Level, h.Novelty.Unit, h.Detects, h.Novelty.Usual, h.Novelty.Inputs != nil, h.Novelty.Means != nil, h.Novelty.Later}
	}
	if p := h.Prefixes; p != nil {
		info.Early = &earlyInfo{p.Linear.Temperature, p.Linear.Limit != nil, p.Rule}
	}
	return info
}

// Encode returns the model's file form. The same model gives the same bytes.
func (m *Model) Encode() ([]byte, error) {
	sum, err := m.Fingerprint()
	if err != nil {
		return nil, err
	}
	return m.encode(map[string]string{"eusn.sha256": sum})
}

// encode makes the file form with further metadata.
func (m *Model) encode(meta map[string]string) ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	readouts := make([]readoutInfo, len(m.Readouts))
	for i, h := range m.Readouts {
		readouts[i] = newReadoutInfo(h)
	}
	meta["eusn.version"] = modelVersion
	parts := map[string]any{
		"eusn.spec": m.Network.Spec, "eusn.policy": m.Policy, "eusn.channels": m.Channels,
		"eusn.readouts": readouts, "eusn.training": m.Training,
	}
	if m.Front != nil {
		parts["eusn.front"] = m.Front
	}
	for key, v := range parts {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("reservoir: model %s: %w", key, err)
		}
		meta[key] = string(text)
	}
	header := map[string]any{"__metadata__": meta}
	var body []byte
	for _, t := range m.tensors() {
		from := int64(len(body))
		for _, v := range t.floats {
			body = binary.LittleEndian.AppendUint32(body, math.Float32bits(v))
		}
		for _, v := range t.ints {
			body = binary.LittleEndian.AppendUint32(body, uint32(v))
		}
		dtype := "F32"
		if t.ints != nil {
			dtype = "I32"
		}
		header[t.name] = tensorInfo{dtype, t.shape, [2]int64{from, int64(len(body))}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		return nil, fmt.Errorf("reservoir: model header: %w", err)
	}
	for len(text)%8 != 0 { // tensors start aligned
		text = append(text, ' ')
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(out, text...), body...), nil
}

// Fingerprint returns the SHA-256 of the whole model, in hexadecimal: of its
// file form without the fingerprint.
func (m *Model) Fingerprint() (string, error) {
	b, err := m.encode(map[string]string{})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Save writes the model to path: to a temporary name in the same folder first, then
// renamed, so that a reader never sees half a model.
func (m *Model) Save(path string) error {
	b, err := m.Encode()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp*")
	if err != nil {
		return fmt.Errorf("reservoir: save model: %w", err)
	}
	defer os.Remove(f.Name()) // fails after the rename, as intended
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("reservoir: save model: %w", err)
	}
	return nil
}

// Load reads a model file. An error wraps ErrModel if the content is at fault.
func Load(path string) (*Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reservoir: %w", err)
	}
	defer f.Close()
	start := make([]byte, 8) // detects most other files, whose size has no bound
	n, err := io.ReadFull(f, start)
	if err == nil {
		if _, err := headerLength(start); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", path, ErrModel, err)
		}
	} else if err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("reservoir: %w", err)
	}
	b, err := io.ReadAll(io.MultiReader(bytes.NewReader(start[:n]), io.LimitReader(f, maxModel+1)))
	if err != nil {
		return nil, fmt.Errorf("reservoir: %w", err)
	}
	m, err := Decode(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Decode parses a model's file form. For any bytes, Decode neither panics nor
// allocates more than a small multiple of their size.
func Decode(b []byte) (*Model, error) {
	m, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	return m, nil
}

func decode(b []byte) (*Model, error) {
	r, meta, err := openTensors(b)
	if err != nil {
		return nil, err
	}
	switch v := meta["eusn.version"]; v {
	case modelVersion:
	case "":
		return nil, errors.New("safetensors, but no eusn.version in its metadata: written by another program")
	default:
		return nil, fmt.Errorf("model version %s, this build reads version %s: use the program that wrote it, or train the model again", v, modelVersion)
	}
	m := &Model{Network: &Network{}}
	var readouts []readoutInfo
	type part struct {
		key string
		to  any
	}
	parts := []part{
		{"eusn.spec", &m.Network.Spec}, {"eusn.policy", &m.Policy}, {"eusn.channels", &m.Channels},
		{"eusn.readouts", &readouts}, {"eusn.training", &m.Training},
	}
	if _, has := meta["eusn.front"]; has {
		parts = append(parts, part{"eusn.front", &m.Front})
	}
	for _, part := range parts {
		d := json.NewDecoder(bytes.NewReader([]byte(meta[part.key])))
		d.DisallowUnknownFields()
		if err := d.Decode(part.to); err != nil {
			return nil, fmt.Errorf("metadata %s: %w", part.key, err)
		}
	}
	s := m.Network.Spec
	if err := s.Validate(); err != nil { // before its numbers size anything
		return nil, err
	}
	m.Network.Norm = Norm{Mean: r.floats("norm.mean"), Scale: r.floats("norm.scale"), Diff: r.floats("norm.diff")}
	for i := 0; i < s.Members && r.err == nil; i++ {
		p := "member." + strconv.Itoa(i) + "."
		mem := Member{Inputs: r.ints(p + "inputs"), Lags: r.lags(s.HasTaps(i), p+"lags"), Recurrent: r.floats(p + "recurrent"), Input: r.floats(p + "input"), Bias: r.floats(p + "bias")}
		if kg := r.floats(p + "keep_gain"); len(kg) == 2 {
			mem.Keep, mem.Gain = kg[0], kg[1]
		} else if r.err == nil {
			r.err = fmt.Errorf("tensor %skeep_gain has %d values, want 2", p, len(kg))
		}
		m.Network.Members = append(m.Network.Members, mem)
	}
	for i, h := range readouts {
		m.Readouts = append(m.Readouts, r.readout(h, "readout."+strconv.Itoa(i)+"."))
	}
	if r.err != nil {
		return nil, r.err
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if err := r.complete(m); err != nil {
		return nil, err
	}
	if want, ok := meta["eusn.sha256"]; ok {
		if got, err := m.Fingerprint(); err != nil || got != want {
			return nil, errors.Join(err, fmt.Errorf("damaged or edited: the content's fingerprint is %.12s..., the file says %.12s...: take a copy, or train again", got, want))
		}
	}
	return m, nil
}

type tensor struct {
	name   string
	shape  []int64
	floats []float32
	ints   []int32
}

// tensors lists the model's tensors in file order, with their shapes.
func (m *Model) tensors() []tensor {
	s := m.Network.Spec
	c, n := int64(s.Channels), int64(s.Units)
	ts := []tensor{
		{"norm.mean", []int64{c}, m.Network.Norm.Mean, nil},
		{"norm.scale", []int64{c}, m.Network.Norm.Scale, nil},
		{"norm.diff", []int64{c}, m.Network.Norm.Diff, nil},
	}
	for i, mem := range m.Network.Members {
		p := "member." + strconv.Itoa(i) + "."
		x, rec := int64(len(mem.Inputs)), []int64{n, n}
		if s.Kind == RESN || s.HasTaps(i) {
			rec = []int64{n}
		}
		ts = append(ts, tensor{p + "inputs", []int64{x}, nil, mem.Inputs})
		if s.HasTaps(i) {
			ts = append(ts, tensor{p + "lags", []int64{x}, nil, mem.Lags})
		}
		ts = append(ts,
			tensor{p + "recurrent", rec, mem.Recurrent, nil},
			tensor{p + "input", []int64{n, x}, mem.Input, nil},
			tensor{p + "bias", []int64{n}, mem.Bias, nil},
			tensor{p + "keep_gain", []int64{2}, []float32{mem.Keep, mem.Gain}, nil})
	}
	for i, h := range m.Readouts {
		p := "readout." + strconv.Itoa(i) + "."
		f := int64(h.Features())
		ts = append(ts, linearTensors(h, p)...)
		if r := h.Random; r != nil {
			u, d := int64(r.Units()), int64(r.Statistics())
			ts = append(ts,
				tensor{p + "random.center", []int64{d}, r.Center, nil}, tensor{p + "random.weights", []int64{u, d}, r.Weights, nil},
				tensor{p + "random.bias", []int64{u}, r.Bias, nil}, tensor{p + "random.out", []int64{u}, r.Out, nil})
		}
		if s := h.Segments; s != nil {
			d := int64(s.Statistics())
			ts = append(ts, tensor{p + "segments.center", []int64{d}, s.Center, nil}, tensor{p + "segments.limit", []int64{d}, s.Limit, nil},
				tensor{p + "segments.weights", []int64{int64(h.Columns()), d}, s.Weights, nil})
		}
		if e := h.Prefixes; e != nil {
			ts = append(ts, linearTensors(e.Linear, p+"early.")...)
		}
		if d := h.Novelty; d != nil {
			ts = append(ts,
				tensor{p + "novelty.center", []int64{f}, d.Center, nil},
				tensor{p + "novelty.scale", []int64{f}, d.Scale, nil},
				tensor{p + "novelty.axes", []int64{int64(d.Dimensions()), f}, d.Axes, nil},
				tensor{p + "novelty.left", []int64{int64(len(d.Left))}, d.Left, nil})
			if u := d.Usual; u != nil {
				ts = append(ts,
					tensor{p + "novelty.linear", []int64{int64(len(u.Linear))}, u.Linear, nil},
					tensor{p + "novelty.square", []int64{int64(len(u.Square))}, u.Square, nil})
			}
			if d.Inputs != nil {
				ts = append(ts, tensor{p + "novelty.inputs", []int64{int64(d.InputValues()), f}, d.Inputs, nil})
			}
			if m := d.Means; m != nil {
				n := int64(len(m.Center))
				ts = append(ts,
					tensor{p + "novelty.means.center", []int64{n}, m.Center, nil},
					tensor{p + "novelty.means.axes", []int64{int64(len(m.Axes)) / n, n}, m.Axes, nil})
			}
		}
	}
	return ts
}

// linearTensors returns the tensors of a readout's scores.
func linearTensors(l *readout.Linear, prefix string) []tensor {
	f, k := int64(l.Features()), int64(l.Columns())
	ts := []tensor{{prefix + "center", []int64{f}, l.Center, nil}}
	if l.Limit != nil {
		ts = append(ts, tensor{prefix + "limit", []int64{f}, l.Limit, nil})
	}
	return append(ts,
		tensor{prefix + "weights", []int64{k, f}, l.Weights, nil},
		tensor{prefix + "intercept", []int64{k}, l.Intercept, nil})
}
