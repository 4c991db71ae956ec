package archive

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// Scan reads the recording once, for its contents. Labels without any fitting sample are an error.
func (r *Recording) Scan(ctx context.Context) error {
	labels := map[string]int{}
	var numbers targetPrint
	sum := newRecordingSum(r.RecordingInfo.Channels)
	err := r.Each(ctx, func(c *RecordingChunk) error {
		for _, v := range c.Number {
			numbers.addTarget(v)
		}
		for _, label := range slices.Concat(c.Label, c.Told) {
			if label != "" && r.target == "" {
				labels[label] = -1
			}
		}
		sum.addChunk(c)
		return nil
	})
	if err != nil {
		return err
	}
	r.Classes, r.Class = names.JoinClasses(slices.Sorted(maps.Keys(labels)), nil)
	r.Fingerprint = hex.EncodeToString(sum.h.Sum(nil))
	if r.target != "" {
		r.Classes, r.Fingerprint = []string{r.target}, numbers.sum(r.Fingerprint, r.target)
	}
	return r.labels.checkFit(fmt.Sprintf("recording %q", r.RecordingInfo.Name))
}

// recordingSum identifies a recording's content: the SHA-256 of "eusn-recording-1", the channel names (count, then
// length and bytes of each), then per sample in the order of the file length and bytes of stream and label, the time
// (int64), one byte for the end, and the float32 bits of the values; and, if a LabelFile labels a prediction at the
// sample, the byte t, length and bytes of the label. All other numbers are 32-bit; all are little-endian.
type recordingSum struct {
	h        hash.Hash
	channels int
	buf      []byte
}

func newRecordingSum(channels []string) *recordingSum {
	s := &recordingSum{h: sha256.New(), channels: len(channels)}
	s.h.Write([]byte("eusn-recording-1"))
	hashNames(s.h, channels)
	return s
}

func (s *recordingSum) addChunk(c *RecordingChunk) {
	le := binary.LittleEndian
	for i := range c.Rows() {
		b := s.buf[:0]
		for _, text := range []string{c.Stream[i], c.Label[i]} {
			b = append(le.AppendUint32(b, uint32(len(text))), text...)
		}
		b = le.AppendUint64(b, uint64(c.Time[i]))
		if c.End[i] {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
		for _, v := range c.Values[i*s.channels : (i+1)*s.channels] {
			b = le.AppendUint32(b, math.Float32bits(v))
		}
		if c.Told != nil && c.Told[i] != "" { // a label that an archive cannot hold
			b = append(le.AppendUint32(append(b, 't'), uint32(len(c.Told[i]))), c.Told[i]...)
		}
		s.h.Write(b)
		s.buf = b
	}
}
