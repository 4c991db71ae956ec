package offline

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// recordingSource is the streams of a recording archive, read row group by row
// group. Each reading opens the file again.
type recordingSource struct {
	path     string
	channels int
	class    map[string]int // of each label
}

func (t *recordingSource) word() string { return "stream" }

func (t *recordingSource) policy(p reservoir.Policy) reservoir.Policy { return p }

func (t *recordingSource) read(ctx context.Context, yield func(*chunk) error) error {
	var ids []string
	number := map[string]int{}
	rows := map[int][]int{} // of each stream in the chunk in hand
	err := eachChunk(ctx, t.path, func(c *RecordingChunk) error {
		var order []int // streams by their first row
		for r, id := range c.Stream {
			n, known := number[id]
			if !known {
				n = len(ids)
				number[id], ids = n, append(ids, id)
			}
			if len(rows[n]) == 0 {
				order = append(order, n)
			}
			rows[n] = append(rows[n], r)
		}
		for _, n := range order {
			p := t.gather(c, rows[n])
			p.stream, p.id = n, ids[n]
			if err := yield(p); err != nil {
				return err
			}
		}
		clear(rows)
		return nil
	})
	for n, id := range ids {
		if err == nil {
			err = yield(&chunk{stream: n, id: id, last: true})
		}
	}
	return err
}

// gather makes a chunk of one stream's rows.
func (t *recordingSource) gather(c *RecordingChunk, rows []int) *chunk {
	p := &chunk{}
	for _, r := range rows {
		p.values = append(p.values, c.Values[r*t.channels:(r+1)*t.channels]...)
		p.times, p.ends = append(p.times, c.Time[r]), append(p.ends, c.End[r])
		class, known := t.class[c.Label[r]]
		if !known {
			class = -1
		}
		p.labels = append(p.labels, class)
	}
	return p
}

// eachChunk reads a recording from front to back.
func eachChunk(ctx context.Context, path string, take func(*RecordingChunk) error) (err error) {
	r, err := ReadRecording(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var c RecordingChunk
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		switch err := r.Next(&c); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
		if err := take(&c); err != nil {
			return err
		}
	}
}

// openLabelled reads a recording once: for its classes, and for what
// identifies it.
func openLabelled(ctx context.Context, path string) (src labelledData, err error) {
	r, err := ReadRecording(path)
	if err != nil {
		return src, err
	}
	src.name, src.channels = r.Name, r.Channels
	if err := r.Close(); err != nil {
		return src, err
	}
	labels := map[string]int{}
	sum := newRecordingSum(src.channels)
	err = eachChunk(ctx, path, func(c *RecordingChunk) error {
		for _, label := range c.Label {
			if label != "" {
				labels[label] = -1
			}
		}
		sum.add(c)
		return nil
	})
	src.classes = slices.Sorted(maps.Keys(labels))
	for i, c := range src.classes {
		labels[c] = i
	}
	src.what = fmt.Sprintf("recording %q", src.name)
	src.fingerprint = func() string { return hex.EncodeToString(sum.h.Sum(nil)) }
	src.sampleSource = &recordingSource{path, len(src.channels), labels}
	return src, err
}

// recordingSum identifies a recording's content: the SHA-256 of
// "eusn-recording-1", the channel names (count, then length and bytes of each),
// then per sample in the order of the file length and bytes of stream and
// label, the time (int64), one byte for the end, and the float32 bits of the
// values. All other numbers are 32-bit; all are little-endian.
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

func (s *recordingSum) add(c *RecordingChunk) {
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
		s.h.Write(b)
		s.buf = b
	}
}

// RetrainRecording is Retrain on a recording archive, all of it. Its streams
// are cut as the live stage would cut them. A sequence has the label that all
// its samples have; one whose samples have several, or none, is left out and
// counted. Leave-one-out leaves out together all that comes of one labelled part of a
// stream with one label, or of one sequence under the policies marked and gap,
// which separate theirs. The input transform's constants are those of the
// labelled samples.
//
// The file is read three times, a row group at a time. Beyond that, memory
// holds the samples of open sequences, at most DefaultMaxValues values.
func RetrainRecording(ctx context.Context, path string, opt RetrainOptions, progress Progress) (*reservoir.Model, RetrainReport, error) {
	src, err := openLabelled(ctx, path)
	if err != nil {
		return nil, RetrainReport{}, err
	}
	if len(src.classes) == 0 {
		return nil, RetrainReport{}, InContent(fmt.Errorf("offline: %s has no labels: a CSV recording has them in a column label, on every sample whose class is known", src.what))
	}
	return retrain(ctx, src, opt.withDefaults(len(src.channels)), progress)
}

// EvaluateRecording is Evaluate on all of a recording archive: every
// prediction that the stage would make of its streams.
func EvaluateRecording(ctx context.Context, m *reservoir.Model, path string, opt EvaluateOptions, progress Progress) (*Evaluation, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	src, err := openLabelled(ctx, path)
	if err != nil {
		return nil, err
	}
	opt.Split = "" // a recording is one part
	ev, err := newEvaluation(m, src, opt)
	if err != nil {
		return nil, err
	}
	// From here on classes are the readout's.
	labels := src.sampleSource.(*recordingSource).class
	class := ev.index(src.classes)
	for label, i := range labels {
		labels[label] = class[i]
	}
	if err := ev.run(ctx, m, src, opt, progress); err != nil {
		return nil, err
	}
	return ev, nil
}
