package producer

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Messages are a Publisher's messages for a source, for use without a server: in the
// order of the source, each stream numbered from 1.
type Messages struct {
	src      lookahead
	rows     int
	channels int
	encoders [2]*codec.InputEncoder // without, with times
	seq      map[string]uint64      // of each stream's last message
	row      int                    // samples of the item in hand already in messages
}

// NewMessages reads a source of samples with these channels; rows are the samples per
// message, 0 = DefaultRowsPerMessage.
func NewMessages(src Source, channels []string, rows int) (*Messages, error) {
	m := &Messages{src: lookahead{Source: src}, rows: rows, channels: len(channels), seq: map[string]uint64{}}
	if rows < 1 {
		m.rows = DefaultRowsPerMessage
	}
	for i := range m.encoders {
		var err error
		if m.encoders[i], err = codec.NewInputEncoder(channels, codec.InputOptions{Times: i == 1}); err != nil {
			return nil, fmt.Errorf("producer: %w", err)
		}
	}
	return m, nil
}

// Next is the next message, or io.EOF. Data is the caller's.
func (m *Messages) Next() (key string, header map[string][]string, data []byte, err error) {
	for {
		it, err := m.src.peekItem()
		if err != nil {
			return "", nil, nil, err
		}
		if it == nil {
			return "", nil, nil, io.EOF
		}
		total := len(it.X) / m.channels
		if total == 0 && !it.End {
			m.src.item = nil
			continue
		}
		from, to := m.row, min(total, m.row+m.rows)
		in, enc := codec.Batch{Rows: to - from, X: it.X[from*m.channels : to*m.channels]}, m.encoders[0]
		if len(it.Times) > 0 {
			in.Times, enc = it.Times[from:to], m.encoders[1]
		}
		encoded, err := enc.Encode(&in)
		if err != nil {
			return "", nil, nil, fmt.Errorf("producer: stream %q: %w", it.Stream, err)
		}
		m.seq[it.Stream]++
		header = map[string][]string{wire.HeaderSeq: {strconv.FormatUint(m.seq[it.Stream], 10)}}
		if it.End && to == total {
			header[wire.HeaderEnd] = []string{endMark}
		}
		key, m.row = it.Stream, to
		if to == total {
			m.src.item, m.row = nil, 0
		}
		return key, header, slices.Clone(encoded), nil
	}
}
