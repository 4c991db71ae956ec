package record

import (
	"encoding/binary"
	"math"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Rows are samples in recorded order, one element each, except for Values.
type Rows struct {
	Stream, Key    []string
	Number         []int64   // in the recording, from 1
	Time           []int64   // ns, codec.NoTime without a time
	Values         []float32 // samples x channels; NaN where missing
	End            []bool    // a sequence of the stream ends with the sample
	Input, Message []uint64  // the message: its number in the log, and its Eusn-Seq
	Row            []uint32  // of the sample in the message
	Flags          []uint32  // outcome.Flag: events before the sample
}

// Len returns the number of samples.
func (r *Rows) Len() int { return len(r.Number) }

func (r *Rows) clearRows() {
	*r = Rows{
		r.Stream[:0], r.Key[:0], r.Number[:0], r.Time[:0], r.Values[:0], r.End[:0], r.Input[:0], r.Message[:0], r.Row[:0], r.Flags[:0],
	}
}

// hashRow hashes a sample, without the end mark.
func (r *Rows) hashRow(buf []byte, i, channels int) (wire.Digest, []byte) {
	le := binary.LittleEndian
	b := le.AppendUint64(append(buf[:0], 's'), uint64(r.Number[i]))
	for _, text := range []string{r.Key[i], r.Stream[i]} {
		b = append(le.AppendUint32(b, uint32(len(text))), text...)
	}
	b = le.AppendUint64(b, uint64(r.Time[i]))
	b = le.AppendUint64(le.AppendUint64(b, r.Input[i]), r.Message[i])
	b = le.AppendUint32(le.AppendUint32(b, r.Row[i]), r.Flags[i])
	for _, v := range r.Values[i*channels : (i+1)*channels] {
		b = le.AppendUint32(b, math.Float32bits(v))
	}
	return wire.HashOf(b), b
}

// hashOfEnd is of the end of a sequence with a sample.
func hashOfEnd(number int64, silent bool) wire.Digest {
	b := make([]byte, 0, 9)
	kind := byte('e')
	if silent {
		kind = 'i'
	}
	return wire.HashOf(binary.LittleEndian.AppendUint64(append(b, kind), uint64(number)))
}
