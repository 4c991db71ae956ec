package fit

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// partHeader begins the encoded state of a part of a Learner, for another program to merge:
//
//	uint32   length of the header
//	header   JSON, see partHeader
//	float64  mean, features values                    if features are clipped
//	float64  squares about the mean, features values  "
//	float64  shift, features values                   if there are moments
//	float64  sums, classes x features                 "
//	float64  lower triangle of the outer products     "
//	float32  features of the kept samples, row by row
//
// all little-endian. The reader only allocates memory for existing bytes.
type partHeader struct {
	Features int      `json:"features"`
	Classes  []string `json:"classes"`
	Samples  int      `json:"samples"` // of all parts
	From     int      `json:"from"`
	To       int      `json:"to"`
	Kernel   bool     `json:"kernel"`
	Measured bool     `json:"measured,omitempty"` // features are clipped, by the measures of all samples
	Counts   []int    `json:"counts,omitempty"`   // of the moments
	Labels   []int    `json:"labels"`             // of the kept samples
	Groups   []int    `json:"groups,omitempty"`   // of the kept samples
}

const maxHeader = 1 << 28

// checkEncodable rejects a learner that the format cannot hold.
func (l *Learner) checkEncodable() error {
	if err := l.added(); err != nil {
		return err
	}
	if l.numbers != nil {
		return errors.New("fit: statistics of numbers, want classes: the format has no place for them")
	}
	if l.within != nil {
		return errors.New("fit: statistics of samples with outer groups, want none: the format has no place for them")
	}
	if l.moments != nil && l.moments.weights != nil {
		return errors.New("fit: statistics of samples with class weights, want none: the format has no place for them")
	}
	return nil
}

// Encode writes the state of a part, once all its samples are added.
func (l *Learner) Encode(w io.Writer) error {
	if err := l.checkEncodable(); err != nil {
		return err
	}
	h := partHeader{
		Features: l.features, Classes: l.classes, Samples: l.samples, From: l.from, To: l.to,
		Kernel: l.kernel, Measured: l.measured != nil, Labels: l.keptLabels, Groups: l.keptGroups,
	}
	if l.moments != nil {
		h.Counts = l.moments.counts
	}
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if len(text) > maxHeader {
		return fmt.Errorf("fit: statistics of %d samples kept: a header of %d bytes, want at most %d: take more parts", len(h.Labels), len(text), maxHeader)
	}
	buffer := append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
	if _, err := w.Write(buffer); err != nil {
		return err
	}
	doubles := func(x []float64) {
		buffer = buffer[:0]
		for _, v := range x {
			buffer = binary.LittleEndian.AppendUint64(buffer, math.Float64bits(v))
		}
		if err == nil {
			_, err = w.Write(buffer)
		}
	}
	if m := l.measured; m != nil {
		doubles(m.mean)
		doubles(m.square)
	}
	if g := l.moments; g != nil {
		doubles(g.shift)
		for k := range l.classes {
			doubles(g.sums.Row(k))
		}
		for i := range l.features {
			doubles(g.outer.Row(i)[:i+1])
		}
	}
	sample := make([]float32, l.features)
	for i := range l.keptLabels {
		if err != nil {
			return err
		}
		var x []float32
		if x, err = l.kept.get(i, sample); err == nil {
			buffer = appendFloats(buffer[:0], x)
			_, err = w.Write(buffer)
		}
	}
	return err
}

// Merge reads the next part, written by Encode with size bytes, and adds the part; l is nil
// before the first part. Merge reads the option Memory. The parts come in order; a Learner of
// all parts can be solved. After an error the Learner must not be used.
func Merge(l *Learner, from io.Reader, size int64, opt Options) (*Learner, error) {
	h, size, err := readHeader(from, size)
	if err != nil {
		return l, err
	}
	if want := h.payload(); float64(size) != want {
		return l, fmt.Errorf("fit: statistics of %d features: %d bytes of numbers, want %.0f", h.Features, size, want)
	}
	if l == nil {
		if l, err = h.learner(opt); err != nil {
			return nil, err
		}
	}
	if err := l.follows(h); err != nil {
		return l, err
	}
	if err := l.absorb(h, from); err != nil {
		return l, err
	}
	l.keptLabels = append(l.keptLabels, h.Labels...)
	l.keptGroups = append(l.keptGroups, h.Groups...)
	l.to = h.To
	l.at = l.to
	return l, nil
}

// readHeader reads a consistent header, and returns the number of following bytes.
func readHeader(from io.Reader, size int64) (h partHeader, left int64, err error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return h, 0, fmt.Errorf("fit: statistics: %w", err)
	}
	n := int64(binary.LittleEndian.Uint32(length[:]))
	if n > maxHeader || n > size-4 {
		return h, 0, fmt.Errorf("fit: statistics: a header of %d bytes in %d, want at most %d", n, size, maxHeader)
	}
	text, err := io.ReadAll(io.LimitReader(from, n))
	if err != nil || int64(len(text)) < n {
		return h, 0, fmt.Errorf("fit: statistics: a header of %d bytes, want %d: %w", len(text), n, io.ErrUnexpectedEOF)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return h, 0, fmt.Errorf("fit: statistics: header: %w", err)
	}
	return h, size - 4 - n, h.check()
}

// check rejects values that no part has.
func (h *partHeader) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("fit: statistics: "+format, args...)
	}
	l := Learner{classes: h.Classes, features: h.Features, samples: h.Samples, from: h.From, to: h.To}
	if err := l.check(); err != nil {
		return err
	}
	n := h.To - h.From
	switch {
	case h.Features > math.MaxInt32 || h.Samples > math.MaxInt32:
		return bad("%d samples of %d features, want at most %d", h.Samples, h.Features, math.MaxInt32)
	case h.Kernel != (h.Samples <= h.Features):
		return bad("%d samples of %d features through the kernel: %v", h.Samples, h.Features, h.Kernel)
	case h.Kernel && h.Measured:
		return bad("%d samples of %d features kept and clipped, want one of these", h.Samples, h.Features)
	case h.Kernel && (len(h.Labels) != n || h.Counts != nil):
		return bad("%d samples kept of %d, want all, and no counts", len(h.Labels), n)
	case !h.Kernel && len(h.Counts) != len(h.Classes):
		return bad("counts of %d classes, want %d", len(h.Counts), len(h.Classes))
	case len(h.Labels) > n || h.Groups != nil && len(h.Groups) != len(h.Labels):
		return bad("%d samples kept of %d, %d of them in groups", len(h.Labels), n, len(h.Groups))
	}
	for _, label := range h.Labels {
		if label < 0 || label >= len(h.Classes) {
			return bad("label %d, want 0 to %d", label, len(h.Classes)-1)
		}
	}
	for i, g := range h.Groups {
		if g < h.From || g >= h.To || i > 0 && g < h.Groups[i-1] {
			return bad("group %d after %d of samples %d to %d, want groups in order", g, h.Groups[max(0, i-1)], h.From, h.To)
		}
	}
	for _, c := range h.Counts {
		if n -= c; c < 0 || n < 0 {
			return bad("counts %v of %d samples", h.Counts, h.To-h.From)
		}
	}
	if h.Counts != nil && n != 0 {
		return bad("counts %v of %d samples", h.Counts, h.To-h.From)
	}
	return nil
}

// payload returns the number of bytes after the header, as a float64, which no header can
// overflow.
func (h *partHeader) payload() float64 {
	f := float64(h.Features)
	bytes := 4 * float64(len(h.Labels)) * f
	if !h.Kernel {
		bytes += 8 * (f + float64(len(h.Classes))*f + f*(f+1)/2)
	}
	if h.Measured {
		bytes += 16 * f
	}
	return bytes
}

// learner returns an empty learner for all parts.
func (h *partHeader) learner(opt Options) (*Learner, error) {
	p := Plan{Samples: h.Samples, Features: h.Features, Kernel: h.Kernel}
	f, n := float64(h.Features), float64(h.Samples)
	if h.Kernel {
		p.Adding, p.Solving, p.Spilled = kernelBytes(n, f, float64(len(h.Classes)), 0, opt)
	} else {
		p.Adding = int64(8 * f * f)
		p.Solving = int64(12*f*f + 4*min(n*f, float64(keptValues)))
		p.spillSums(opt.Memory)
	}
	if err := p.check(true, opt.Memory); err != nil {
		return nil, err
	}
	alphas := Options{Alphas: opt.Alphas}
	switch steps := alphas.steps(); {
	case h.Kernel:
		p.SolveWork = NewPlan(h.Features, len(h.Classes), h.Samples, alphas).SolveWork
	case steps == 0:
		p.SolveWork = momentsWork(f, 0, 0)
	default: // NewPlan would draw from the samples that the header claims
		p.SolveWork = momentsWork(f, min(n, float64(max(keptGroups, keptValues/h.Features))), steps)
	}
	l := &Learner{classes: h.Classes, features: h.Features, samples: h.Samples, kernel: h.Kernel, plan: p}
	if !h.Kernel {
		l.moments = newMoments(h.Features, len(h.Classes))
	}
	if !p.Kernel || !p.Spilled {
		l.kept = &samples{features: h.Features} // grows
		return l, nil
	}
	var err error
	l.kept, err = newSamples(h.Features, h.Samples, true)
	return l, err
}

// follows rejects a part that is not the next part of the same job.
func (l *Learner) follows(h partHeader) error {
	switch {
	case !slices.Equal(l.classes, h.Classes):
		return fmt.Errorf("fit: merging statistics of the classes %q and %q", l.classes, h.Classes)
	case l.to > 0 && (l.measured != nil) != h.Measured:
		return errors.New("fit: merging statistics of features that are clipped with those of others that are not: not of one job, or of two versions of the program; let all its shards run again with one")
	case l.features != h.Features || l.samples != h.Samples:
		return fmt.Errorf("fit: merging statistics of %d samples of %d features with %d of %d: not of one job", l.samples, l.features, h.Samples, h.Features)
	case len(l.keptLabels) > 0 && len(h.Labels) > 0 && (l.keptGroups == nil) != (h.Groups == nil):
		return errors.New("fit: merging statistics: want groups in all parts or in none")
	case l.to != h.From:
		return fmt.Errorf("fit: merging samples %d to %d with %d to %d, want the next ones", l.from, l.to, h.From, h.To)
	}
	return nil
}

// absorb adds a part's numbers.
func (l *Learner) absorb(h partHeader, from io.Reader) error {
	f := l.features
	if err := l.absorbMeasured(h, from); err != nil {
		return err
	}
	if !l.kernel {
		g := &moments{counts: h.Counts, shift: make([]float64, f), sums: dense.New(len(h.Classes), f)}
		if err := readDoubles(from, g.shift); err != nil {
			return err
		}
		if err := readDoubles(from, g.sums.Data); err != nil {
			return err
		}
		row := make([]float64, f)
		if err := l.moments.merge(g, func(i int) ([]float64, error) { return row[:i+1], readDoubles(from, row[:i+1]) }); err != nil {
			return err
		}
	}
	if l.kept.file == nil {
		l.kept.n += len(h.Labels)
		l.kept.x = append(l.kept.x, make([]float32, len(h.Labels)*f)...)
	}
	return l.readRows(from, len(l.keptLabels), len(h.Labels))
}

// absorbMeasured reads the measures, which must be equal in all parts of a job.
func (l *Learner) absorbMeasured(h partHeader, from io.Reader) error {
	if !h.Measured {
		return nil
	}
	m := newMeasures(l.features)
	m.n, m.total = l.samples, float64(l.samples)
	if err := errors.Join(readDoubles(from, m.mean), readDoubles(from, m.square)); err != nil {
		return err
	}
	for j, v := range m.square {
		if v < 0 {
			return fmt.Errorf("fit: statistics: squares of feature %d add up to %v, want 0 or more", j, v)
		}
	}
	if l.measured != nil && !l.measured.same(m) {
		return errors.New("fit: merging statistics of features that are clipped at different limits: not of one job")
	}
	l.measured = m
	return nil
}

// readRows reads samples to keep, the first to the given place.
func (l *Learner) readRows(from io.Reader, at, n int) error {
	x := make([]float32, l.features)
	for i := range n {
		if err := readFloats(from, x); err != nil {
			return fmt.Errorf("fit: statistics: %w", err)
		}
		for j, v := range x {
			if v-v != 0 {
				return fmt.Errorf("fit: statistics: sample %d kept: feature %d is %v, want a finite number", i, j, v)
			}
		}
		if err := l.kept.put(at+i, x); err != nil {
			return err
		}
	}
	return nil
}

// readDoubles fills x with finite numbers.
func readDoubles(from io.Reader, x []float64) error {
	buffer := make([]byte, min(8*len(x), 1<<16))
	for len(x) > 0 {
		b := buffer[:min(len(buffer), 8*len(x))]
		if _, err := io.ReadFull(from, b); err != nil {
			return fmt.Errorf("fit: statistics: %w", err)
		}
		for i := range len(b) / 8 {
			if x[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])); x[i]-x[i] != 0 {
				return fmt.Errorf("fit: statistics: %v among the moments, want finite numbers", x[i])
			}
		}
		x = x[len(b)/8:]
	}
	return nil
}
