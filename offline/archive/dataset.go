package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// Split is the part of a benchmark that contains a series.
type Split string

// The two parts of a benchmark data set.
const (
	Train Split = "train"
	Test  Split = "test"
)

// Series is a labeled sequence of a Dataset.
type Series struct {
	ID     string    // unique within the data set, e.g. "train-17"
	Split  Split     // part of the series
	Label  int       // index into Dataset.Classes; -1 if unknown
	Values []float32 // samples x channels, row-major; NaN for a missing value in the source
	Tokens []int32   // instead of Values if the data set holds token lists
	Group  string    // value in the column of groups, if SetGroups read one
	Number float64   // value in the target's column, if SetTarget read a column; NaN if unknown
}

// Dataset is a collection of labeled sequences, whole in memory.
type Dataset struct {
	Name     string
	Channels []string // channel names; empty for token lists
	Classes  []string // sorted labels
	Series   []Series
	Source   Provenance
	Target   string // the column of Series.Number, if SetTarget read one; empty: labels are learned
}

// Provenance is the origin of an archive's data, and is stored in the archive's metadata.
type Provenance struct {
	Files    []SourceFile `json:"files"`
	Format   string       `json:"format"` // ts, tsv, arff, idx, tokens, embedded tokens, csv, simulation
	Tool     string       `json:"tool"`
	License  string       `json:"license,omitzero"`
	Note     string       `json:"note,omitzero"`
	Warnings []string     `json:"warnings,omitzero"` // odd findings of the import, e.g. a part that does not exist
}

// SourceFile is an imported file.
type SourceFile struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"` // stored size, compressed if the file is compressed
	SHA256 string `json:"sha256"`
}

// Part returns the indices of the series of a split, in order.
func (d *Dataset) Part(s Split) []int {
	var idx []int
	for i := range d.Series {
		if d.Series[i].Split == s {
			idx = append(idx, i)
		}
	}
	return idx
}

// Len is the number of samples of series i.
func (d *Dataset) Len(i int) int { return d.length(&d.Series[i]) }

func (d *Dataset) length(s *Series) int {
	if len(d.Channels) == 0 {
		return len(s.Tokens)
	}
	return len(s.Values) / len(d.Channels)
}

// Validate reports the first error in d: no series, repeated or empty names, a label that is no class, values that do
// not fill whole samples, infinities, or a name that has more than 256 bytes, has control characters or is not UTF-8.
// [WriteDataset] calls Validate, and the results of [ReadDataset] are valid.
func (d *Dataset) Validate() error {
	if err := d.validate(); err != nil {
		return fmt.Errorf("offline: data set %q: %w", d.Name, err)
	}
	return nil
}

func (d *Dataset) validate() error {
	if len(d.Series) == 0 {
		return errors.New("it has no series")
	}
	if err := names.Check("its name", d.Name); err != nil {
		return err
	}
	if err := names.CheckAll("class", d.Classes); err != nil {
		return err
	}
	for l, of := range names.SameNumbers(d.Classes) {
		return fmt.Errorf("classes %q and %q are the same number: give both one name", of, l)
	}
	if err := checkChannels(d.Channels, datasetColumns); err != nil {
		return err
	}
	ids := make(map[string]bool, len(d.Series))
	for i := range d.Series {
		s := &d.Series[i]
		if err := names.Check("id", s.ID); err != nil {
			return fmt.Errorf("series %d: %w", i, err)
		}
		if s.ID == "" || ids[s.ID] {
			return fmt.Errorf("series %d: id %q is empty or repeated", i, s.ID)
		}
		ids[s.ID] = true
		if err := d.checkSeries(s); err != nil {
			return fmt.Errorf("series %q: %w", s.ID, err)
		}
	}
	return nil
}

func (d *Dataset) checkSeries(s *Series) error {
	switch {
	case s.Split != Train && s.Split != Test:
		return fmt.Errorf("split %q, want %q or %q", s.Split, Train, Test)
	case s.Label < -1 || s.Label >= len(d.Classes):
		return fmt.Errorf("label %d, want -1 or the index of one of the %d classes", s.Label, len(d.Classes))
	case len(d.Channels) == 0 && len(s.Values) > 0:
		return errors.New("has values, but the data set names no channels")
	case len(d.Channels) > 0 && len(s.Tokens) > 0:
		return errors.New("has tokens, but the data set has channels")
	case len(d.Channels) > 0 && len(s.Values)%len(d.Channels) != 0:
		return fmt.Errorf("%d values do not fill samples of %d channels", len(s.Values), len(d.Channels))
	case len(s.Values)+len(s.Tokens) == 0:
		return errors.New("is empty, want at least one sample")
	}
	for i, v := range s.Values {
		if math.IsInf(float64(v), 0) {
			return fmt.Errorf("sample %d of channel %q is infinite", i/len(d.Channels), d.Channels[i%len(d.Channels)])
		}
	}
	return nil
}

// checkChannels requires names that can be columns next to the reserved names.
func checkChannels(channels, reserved []string) error {
	if err := names.CheckAll("channel", channels); err != nil {
		return err
	}
	for _, n := range channels {
		if slices.Contains(reserved, n) {
			return fmt.Errorf("channel name %q is reserved for a column of the archive: rename the channel", n)
		}
	}
	return nil
}

// Fingerprint identifies the training or test data of a split: the SHA-256, in hex, of classes, channel names, and of
// every series of the split in order its label, length and values. IDs, the data set's name and its provenance do not
// count. The hashed bytes are: "eusn-dataset-1", then class and channel names as two lists (count, then length and
// bytes of each), then per series label, number of samples and the float32 bits or token ids in row-major order. All
// numbers are 32-bit little-endian. With numbers see targetPrint.
func (d *Dataset) Fingerprint(split Split) string {
	h := sha256.New()
	h.Write([]byte("eusn-dataset-1"))
	hashNames(h, d.Classes)
	hashNames(h, d.Channels)
	var buf []byte
	for _, i := range d.Part(split) {
		s := &d.Series[i]
		buf = binary.LittleEndian.AppendUint32(buf[:0], uint32(int32(s.Label)))
		buf = binary.LittleEndian.AppendUint32(buf, uint32(d.Len(i)))
		for _, v := range s.Values {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
		}
		for _, t := range s.Tokens {
			buf = binary.LittleEndian.AppendUint32(buf, uint32(t))
		}
		h.Write(buf)
	}
	sum := hex.EncodeToString(h.Sum(nil))
	if d.Target == "" {
		return sum
	}
	var numbers targetPrint
	for _, i := range d.Part(split) {
		numbers.addTarget(d.Series[i].Number)
	}
	return numbers.sum(sum, d.Target)
}

func hashNames(h hash.Hash, names []string) {
	buf := binary.LittleEndian.AppendUint32(nil, uint32(len(names)))
	for _, n := range names {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(len(n)))
		buf = append(buf, n...)
	}
	h.Write(buf)
}

// SetNumber sets a series's number, and its label: 0, or -1 for NaN.
func (s *Series) SetNumber(v float64) {
	if s.Number, s.Label = v, 0; v != v {
		s.Label = -1
	}
}

// WithoutNumbers returns d as a data set of unknown numbers.
func (d *Dataset) WithoutNumbers(target string) *Dataset {
	next := *d
	next.Target, next.Classes, next.Series = target, []string{target}, slices.Clone(d.Series)
	for i := range next.Series {
		next.Series[i].SetNumber(math.NaN())
	}
	return &next
}

// targetPrint identifies data with numbers: the SHA-256, in hex, of "eusn-target-1", the
// fingerprint of the data without them, length (32-bit) and bytes of the target's name,
// and the float64 bits of the numbers, NaN being 0x7ff8000000000001; little-endian.
type targetPrint struct{ buf []byte }

func (p *targetPrint) addTarget(v float64) {
	bits := math.Float64bits(v)
	if v != v {
		bits = 0x7ff8000000000001
	}
	p.buf = binary.LittleEndian.AppendUint64(p.buf, bits)
}

func (p *targetPrint) sum(data, target string) string {
	h := sha256.New()
	h.Write([]byte("eusn-target-1" + data))
	h.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(target))))
	h.Write([]byte(target))
	h.Write(p.buf)
	return hex.EncodeToString(h.Sum(nil))
}

// Progress receives the progress of a long call: done of total bytes, rows or series, named by what. total is 0 if
// unknown. Progress is called on the caller's goroutine, at most once per 64 KiB read, and may be nil.
type Progress func(done, total int64, what string)

// Report calls p, if not nil.
func (p Progress) Report(done, total int64, what string) {
	if p != nil {
		p(done, total, what)
	}
}
