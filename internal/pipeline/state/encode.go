package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// A snapshot is the whole state of a partition after an input message, in little-endian
// words; strings and byte strings follow their 32-bit length:
//
//	"EUSNSNAP" version:u32 network:[32]byte partition:u32 in_seq:u64 in_time:i64
//	words:u32 states:u32 channels:u32 front:u32 timed:u8
//	lossy:u8 clock:u64 sources:u32
//	per source, by key: source, streams:u32, its streams by id
//	  source: key incarnation last:u64 heard_in:u64 lost:u8 flags:u32 held:u32
//	          per held message: seq:u64 in_seq:u64 header data
//	  stream: id heard_at:u64 heard_in:u64 n:i64 last:i64 since:u32 flags:[states]u32
//	          seq:u64 row:u32 time:i64 held:u8, and if it is 1: [channels]f32
//	          per channel: value:f32 run:u32, as in monitor.Channel
//	          if timed is 1: per state: first:i64 longest:i64 count:u32, as in monitor.Clock
//	          front end: [front]f64, as in reservoir.Front.Run
//	          per state: row:u8, 0 = none, 1 = its words follow,
//	          2 = it is stored apart: seq:u64 in <JOB>-ROWS, hash:[2]u64
//	promotions:u32, per promotion: number:u64 at:u64 readout
//	  if there are any, per stream, in the order above: began:u8, and if it is 1: [states]u64
//	sha256 of everything before it
//
// words is the length of the network's row, states the number of the policy's states,
// channels the number of the model's channels. front is the count of numbers that the
// model's front end keeps for a stream, 0 without a front end; timed is 1 for a model
// with a sampling rate. held is 1 if the last sample is kept to fill missing values.
// The version is wire.StateVersion.
const (
	snapshotMagic = "EUSNSNAP"
	// smallest encoded source and stream: a count that exceeds the remaining bytes is
	// refused before any allocation
	minSource = 4 + 4 + 8 + 8 + 1 + 4 + 4 + 4
	minStream = 4 + 8 + 8 + 8 + 8 + 4 + 8 + 4 + 8 + 1
	minHeld   = 8 + 8 + 4 + 4
)

func AppendString(dst []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(s))), s...)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendFlag(dst []byte, f outcome.Flag) []byte {
	return binary.LittleEndian.AppendUint32(dst, uint32(f))
}

func AppendSource(dst []byte, src *Source) []byte {
	le := binary.LittleEndian
	dst = AppendString(AppendString(dst, src.Key), src.incarnation)
	dst = le.AppendUint64(le.AppendUint64(dst, src.Last), src.heardIn)
	dst = appendFlag(append(dst, byte(src.lost)), src.flags)
	dst = le.AppendUint32(dst, uint32(len(src.Held)))
	for _, h := range src.Held {
		dst = le.AppendUint64(le.AppendUint64(dst, h.seq), h.msg.Seq)
		dst = AppendString(dst, headerText(h.msg.Header))
		dst = append(le.AppendUint32(dst, uint32(len(h.msg.Data))), h.msg.Data...)
	}
	return dst
}

// location of a state's row
const (
	RowNone byte = iota
	RowHere
	rowAway
)

// RowAppender writes the row of a stream's state.
type RowAppender interface {
	AppendRow(dst []byte, st *Stream, state int) ([]byte, error)
}

// RowReader reads the row of a state from the owner. The words are valid until the next
// call.
type RowReader interface {
	ReadRow(slot int32) ([]uint32, error)
}

// RowsIn writes a row's words, or the location of a stored row.
type RowsIn struct{ Rows RowReader }

func (c RowsIn) AppendRow(dst []byte, st *Stream, state int) ([]byte, error) {
	if st.Slots[state] >= 0 {
		row, err := c.Rows.ReadRow(st.Slots[state])
		return AppendRowWords(append(dst, RowHere), row), err
	}
	return appendAway(dst, st, state), nil
}

// rowHasher writes the hash of a row instead of the row, so hashing a stream needs no
// read of a stored row.
type rowHasher struct {
	rows RowReader
	buf  []byte
}

func (h *rowHasher) AppendRow(dst []byte, st *Stream, state int) ([]byte, error) {
	switch {
	case st.Slots[state] >= 0:
		row, err := h.rows.ReadRow(st.Slots[state])
		h.buf = AppendRowWords(h.buf[:0], row)
		return wire.AppendDigest(append(dst, RowHere), wire.HashOf(h.buf)), err
	case st.IsAway(state):
		return wire.AppendDigest(append(dst, RowHere), st.Away[state].Hash), nil
	}
	return append(dst, RowNone), nil
}

// DecodedRows writes the rows of a partition that is in no engine.
type DecodedRows struct{}

func (DecodedRows) AppendRow(dst []byte, st *Stream, state int) ([]byte, error) {
	if row := st.Rows[state]; row != nil {
		return AppendRowWords(append(dst, RowHere), row), nil
	}
	return appendAway(dst, st, state), nil
}

func AppendRowWords(dst []byte, row []uint32) []byte {
	for _, w := range row {
		dst = binary.LittleEndian.AppendUint32(dst, w)
	}
	return dst
}

// appendAway writes the location of a stored row, or the absence of a row.
func appendAway(dst []byte, st *Stream, state int) []byte {
	if !st.IsAway(state) {
		return append(dst, RowNone)
	}
	ref := st.Away[state]
	return wire.AppendDigest(binary.LittleEndian.AppendUint64(append(dst, rowAway), ref.Seq), ref.Hash)
}

// AppendStream adds a stream.
func AppendStream(dst []byte, st *Stream, rows RowAppender) ([]byte, error) {
	le := binary.LittleEndian
	dst = le.AppendUint64(le.AppendUint64(AppendString(dst, st.ID), st.heardAt), st.heardIn)
	dst = le.AppendUint64(le.AppendUint64(dst, uint64(st.Seq.N)), uint64(st.Seq.Last))
	dst = appendFlag(dst, st.Since)
	for _, f := range st.Flags {
		dst = appendFlag(dst, f)
	}
	dst = le.AppendUint32(le.AppendUint64(dst, st.lastSeq), st.lastRow)
	dst = appendBool(le.AppendUint64(dst, uint64(st.LastTime)), len(st.Sample) > 0)
	for _, v := range st.Sample {
		dst = le.AppendUint32(dst, math.Float32bits(v))
	}
	for _, c := range st.Channels {
		dst = le.AppendUint32(le.AppendUint32(dst, math.Float32bits(c.Last)), c.Run)
	}
	for _, c := range st.Clocks {
		dst = le.AppendUint64(le.AppendUint64(dst, uint64(c.First)), uint64(c.Longest))
		dst = le.AppendUint32(dst, c.Count)
	}
	for _, v := range st.Front {
		dst = le.AppendUint64(dst, math.Float64bits(v))
	}
	for i := range st.Slots {
		var err error
		if dst, err = rows.AppendRow(dst, st, i); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// headerText writes headers in a fixed order, so equal headers give equal bytes. A zero
// byte ends each name and value; a zero byte within a value is written as a line feed,
// which cannot occur in a header value.
func headerText(h wire.Header) string {
	var b bytes.Buffer
	for _, k := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[k] {
			b.WriteString(strings.ReplaceAll(k, "\x00", "\n"))
			b.WriteByte(0)
			b.WriteString(strings.ReplaceAll(v, "\x00", "\n"))
			b.WriteByte(0)
		}
	}
	return b.String()
}

func parseHeader(s string) (wire.Header, error) {
	h := wire.Header{}
	for s != "" {
		var kv [2]string
		for i := range kv {
			end := bytes.IndexByte([]byte(s), 0)
			if end < 0 {
				return nil, errors.New("headers of a held message are cut short")
			}
			kv[i], s = strings.ReplaceAll(s[:end], "\n", "\x00"), s[end+1:]
		}
		h[kv[0]] = append(h[kv[0]], kv[1])
	}
	return h, nil
}

// Encode encodes the current state of a partition.
func (p *Partition) Encode(sh Shape, rows RowAppender) ([]byte, error) {
	le := binary.LittleEndian
	b := append(make([]byte, 0, p.rowBytes(sh)), snapshotMagic...)
	b = le.AppendUint32(b, wire.StateVersion)
	b = append(b, sh.network[:]...)
	b = le.AppendUint32(b, uint32(p.ID))
	b = le.AppendUint64(le.AppendUint64(b, p.Done), uint64(p.DoneTime))
	for _, n := range []int{sh.Words, sh.states, sh.channels, sh.front} {
		b = le.AppendUint32(b, uint32(n))
	}
	b = le.AppendUint64(appendBool(appendBool(b, sh.timed), p.lossy), p.clock)
	b = le.AppendUint32(b, uint32(len(p.Sources)))
	for _, key := range slices.Sorted(maps.Keys(p.Sources)) {
		src := p.Sources[key]
		b = AppendSource(b, src)
		b = le.AppendUint32(b, uint32(len(src.Streams)))
		for _, st := range src.sortedStreams() {
			var err error
			if b, err = AppendStream(b, st, rows); err != nil {
				return nil, fmt.Errorf("pipeline: partition %d: state of stream %q: %w", p.ID, st.ID, err)
			}
		}
	}
	b = p.appendPromotions(b)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

// rowBytes returns the bytes of the rows in slots, and 1/16 more for the rest of a snapshot. A
// buffer that grows while Encode appends rows takes the memory of two snapshots.
func (p *Partition) rowBytes(sh Shape) int {
	rows := 0
	for _, src := range p.Sources {
		for _, st := range src.Streams {
			for _, slot := range st.Slots {
				if slot >= 0 {
					rows++
				}
			}
		}
	}
	return rows * sh.Words * 4 * 17 / 16
}

// appendPromotions writes the active promotions, and the promotion under which each
// sequence began.
func (p *Partition) appendPromotions(b []byte) []byte {
	le := binary.LittleEndian
	if p.promotions == nil {
		return le.AppendUint32(b, 0)
	}
	all := p.neededPromotions()
	b = le.AppendUint32(b, uint32(len(all)))
	for _, a := range all {
		b = AppendString(le.AppendUint64(le.AppendUint64(b, a.Number), a.At), a.Readout)
	}
	for _, key := range slices.Sorted(maps.Keys(p.Sources)) {
		for _, st := range p.Sources[key].sortedStreams() {
			b = appendBool(b, st.began != nil)
			for _, n := range st.began {
				b = le.AppendUint64(b, n)
			}
		}
	}
	return b
}
