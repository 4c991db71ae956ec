package fit

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// triangle is a copy of the lower triangle of a matrix, row by row, in memory or in
// a file.
type triangle struct {
	values []float64
	file   *os.File // if spilled
}

// newTriangle copies the lower triangle of m.
func newTriangle(m dense.Matrix, spill bool) (*triangle, error) {
	if !spill {
		t := &triangle{values: make([]float64, 0, m.Rows*(m.Rows+1)/2)}
		for i := range m.Rows {
			t.values = append(t.values, m.Row(i)[:i+1]...)
		}
		return t, nil
	}
	f, err := temporary()
	if err != nil {
		return nil, fmt.Errorf("fit: sums beyond the memory given: %w", err)
	}
	t := &triangle{file: f}
	var bytes []byte
	for i := range m.Rows {
		for _, v := range m.Row(i)[:i+1] {
			bytes = binary.LittleEndian.AppendUint64(bytes, math.Float64bits(v))
		}
		if len(bytes) < 1<<20 && i < m.Rows-1 {
			continue
		}
		if _, err := f.Write(bytes); err != nil {
			_ = t.close()
			return nil, fmt.Errorf("fit: sums beyond the memory given: %w", err)
		}
		bytes = bytes[:0]
	}
	return t, nil
}

// copyTo writes the copy to the lower triangle of m.
func (t *triangle) copyTo(m dense.Matrix) error {
	if t.file == nil {
		from := t.values
		for i := range m.Rows {
			from = from[copy(m.Row(i)[:i+1], from):]
		}
		return nil
	}
	bytes := make([]byte, 8*m.Rows)
	from := io.NewSectionReader(t.file, 0, 4*int64(m.Rows)*int64(m.Rows+1))
	for i := range m.Rows {
		if _, err := io.ReadFull(from, bytes[:8*(i+1)]); err != nil {
			return fmt.Errorf("fit: sums beyond the memory given: %w", err)
		}
		row := m.Row(i)
		for j := range i + 1 {
			row[j] = math.Float64frombits(binary.LittleEndian.Uint64(bytes[8*j:]))
		}
	}
	return nil
}

func (t *triangle) close() error { return closeTemporary(t.file) }

// temporary returns a file without a name in the system's temporary directory.
func temporary() (*os.File, error) {
	f, err := os.CreateTemp("", "eusn-features-*")
	if err == nil {
		_ = os.Remove(f.Name()) // if a system keeps open files, closeTemporary removes the file
	}
	return f, err
}

// closeTemporary accepts nil.
func closeTemporary(f *os.File) error {
	if f == nil {
		return nil
	}
	err := f.Close()
	_ = os.Remove(f.Name())
	return err
}
