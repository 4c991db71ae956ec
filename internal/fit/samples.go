package fit

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// samples holds the kept samples, in memory or in a file. Readers of all samples read a panel
// of features at a time, so the file holds panel after panel, each with all samples.
type samples struct {
	features, n int
	x           []float32 // in memory, row-major
	file        *os.File  // if spilled
	bytes       []byte
	panel       []float32 // the last columns read
	clip        *clip     // for the result of columns; nil: unchanged
	weights     []float64 // of each sample in means and variances; nil: all 1
}

// newSamples allocates room for samples, in memory or in a file.
func newSamples(features, n int, spill bool) (*samples, error) {
	r := &samples{features: features, n: n}
	if !spill {
		r.x = make([]float32, features*n)
		return r, nil
	}
	f, err := temporary()
	if err != nil {
		return nil, fmt.Errorf("fit: features beyond the memory given: %w", err)
	}
	r.file = f
	return r, nil
}

func (r *samples) close() error {
	err := closeTemporary(r.file)
	r.file = nil
	return err
}

// put stores whole samples, the first at the given place.
func (r *samples) put(at int, x []float32) error {
	if r.file == nil {
		copy(r.x[at*r.features:], x)
		return nil
	}
	n := len(x) / r.features
	for j0 := 0; j0 < r.features; j0 += panel {
		width := min(panel, r.features-j0)
		r.bytes = r.bytes[:0]
		for i := range n {
			r.bytes = appendFloats(r.bytes, x[i*r.features+j0:][:width])
		}
		if _, err := r.file.WriteAt(r.bytes, 4*(int64(j0)*int64(r.n)+int64(at*width))); err != nil {
			return fmt.Errorf("fit: features beyond the memory given: %w", err)
		}
	}
	return nil
}

// get returns one sample, in x if the samples are not in memory.
func (r *samples) get(i int, x []float32) ([]float32, error) {
	if r.file == nil {
		return r.x[i*r.features : (i+1)*r.features], nil
	}
	for j0 := 0; j0 < r.features; j0 += panel {
		width := min(panel, r.features-j0)
		part := io.NewSectionReader(r.file, 4*(int64(j0)*int64(r.n)+int64(i*width)), 4*int64(width))
		if err := readFloats(part, x[j0:j0+width]); err != nil {
			return nil, fmt.Errorf("fit: features beyond the memory given: %w", err)
		}
	}
	return x, nil
}

// columns returns width features of all samples from j0 on, the start of a panel, and the
// stride between samples. The result is valid until the next call.
func (r *samples) columns(j0, width int) (x []float32, stride int, err error) {
	if r.file == nil && r.clip == nil {
		return r.x[j0:], r.features, nil
	}
	if r.panel == nil {
		r.panel = make([]float32, panel*r.n)
	}
	x, stride = r.panel[:r.n*width], width
	from, apart := x, width
	if r.file == nil {
		from, apart = r.x[j0:], r.features
	} else {
		part := io.NewSectionReader(r.file, 4*int64(j0)*int64(r.n), 4*int64(r.n*width))
		if err := readFloats(part, x); err != nil {
			return nil, 0, fmt.Errorf("fit: features beyond the memory given: %w", err)
		}
	}
	if r.clip != nil {
		dense.Parallel(r.n, 64, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				r.clip.apply(x[i*width:(i+1)*width], from[i*apart:i*apart+width], j0)
			}
		})
	}
	return x, stride, nil
}

func appendFloats(b []byte, x []float32) []byte {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// readFloats fills x.
func readFloats(from io.Reader, x []float32) error {
	buffer := make([]byte, min(4*len(x), 1<<20))
	for len(x) > 0 {
		b := buffer[:min(len(buffer), 4*len(x))]
		if _, err := io.ReadFull(from, b); err != nil {
			return err
		}
		for i := range len(b) / 4 {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		x = x[len(b)/4:]
	}
	return nil
}

// table holds samples in a solver's space.
type table struct {
	space
	*samples
}

// newTable centers in two passes over the samples, so that a large mean costs no digits. With
// a clip, two more passes compute the means after clipping.
func newTable(r *samples, o scaling) (table, error) {
	mean, variance, err := r.statistics()
	if err != nil {
		return table{}, err
	}
	s := newSpace(mean, variance, o)
	if at := o.clip(); at > 0 {
		r.clip = clipOf(s, at)
		s.clip = r.clip
		if s.mean, _, err = r.statistics(); err != nil {
			return table{}, err
		}
	}
	return table{s, r}, nil
}

// statistics returns the mean and the variance of each feature.
func (r *samples) statistics() (mean, variance []float64, err error) {
	n, f := r.n, r.features
	mean, variance = make([]float64, f), make([]float64, f)
	sum := 0.0
	for i := range n {
		sum += weightAt(r.weights, i)
	}
	for j0 := 0; j0 < f; j0 += panel {
		width := min(panel, f-j0)
		x, stride, err := r.columns(j0, width)
		if err != nil {
			return nil, nil, err
		}
		dense.Parallel(width, 256, func(lo, hi int) {
			mean, variance := mean[j0:], variance[j0:]
			for i := range n {
				w := weightAt(r.weights, i)
				for j := lo; j < hi; j++ {
					mean[j] += float64(w * float64(x[i*stride+j]))
				}
			}
			for j := lo; j < hi; j++ {
				mean[j] /= sum
			}
			for i := range n {
				w := weightAt(r.weights, i)
				for j := lo; j < hi; j++ {
					d := float64(x[i*stride+j]) - mean[j]
					variance[j] += float64(w * (d * d))
				}
			}
			for j := lo; j < hi; j++ {
				variance[j] /= sum
			}
		})
	}
	return mean, variance, nil
}

// block returns the panel of features starting at j0.
func (t table) block(j0 int) (dense.Samples, error) {
	width := min(panel, t.features-j0)
	x, stride, err := t.columns(j0, width)
	return dense.Samples{Rows: t.n, Cols: width, X: x, Stride: stride, Center: t.mean[j0 : j0+width], Scale: t.scale[j0 : j0+width]}, err
}
