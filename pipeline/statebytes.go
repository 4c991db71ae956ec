package pipeline

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

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A snapshot is everything a partition remembers after an input message, in
// little-endian words; strings and byte strings have a 32-bit length before
// them:
//
//	"EUSNSNAP" version:u32 network:[32]byte partition:u32 in_seq:u64 in_time:i64
//	words:u32 states:u32 channels:u32 inputs:u32 lossy:u8 clock:u64 sources:u32
//	per source, by key: source, streams:u32, its streams by id
//	  source: key incarnation last:u64 heard_in:u64 partial:u8 flags:u32 held:u32
//	          per held message: seq:u64 in_seq:u64 header data
//	  stream: id heard_at:u64 heard_in:u64 n:i64 last:i64 since:u32 flags:[states]u32
//	          seq:u64 row:u32 time:i64 has_sample:u8 sample:[channels]f32
//	          per input: value:f32 run:u32, as in monitor.Channel
//	          per state: row:u8, 0 = none, 1 = its words follow,
//	          2 = it is stored apart: seq:u64 in <JOB>-ROWS, hash:[2]u64
//	sha256 of everything before it
//
// words, states and channels are the network's row, the policy's states and,
// where missing values are held, its channels (else 0). inputs are its channels,
// or 0 where no run of them is known: of a state that was of version 2 when it
// was exported.
//
// Version 2, which is read, has no inputs, neither their number nor them, and
// flags of u8.
const (
	snapshotMagic = "EUSNSNAP"
	// smallest encoded source and stream: a count that claims more of them
	// than bytes are left for is refused before anything is allocated
	minSource = 4 + 4 + 8 + 8 + 1 + 1 + 4 + 4 // flags as in version 2
	minStream = 4 + 8 + 8 + 8 + 8 + 1 + 8 + 4 + 8 + 1
	minHeld   = 8 + 8 + 4 + 4
)

// shape is what states must have in common to be exchanged.
type shape struct {
	network  [sha256.Size]byte // of the model without readouts
	words    int               // of a state row
	states   int               // per stream
	channels int               // of a remembered sample; 0 = none is
	width    int               // of a sample: snapshots with remembered ones and without are read; 0 = only those that fit channels
	inputs   int               // channels that are watched
}

// shapeOf is what states of a model have in common, whatever its readouts.
// Another arithmetic (as in a record) is as good as another network.
func shapeOf(c Config, m *reservoir.Model, arithmetic string) (shape, error) {
	bare := *m
	bare.Readouts, bare.Training = nil, reservoir.Training{}
	print, err := bare.Fingerprint()
	if err != nil {
		return shape{}, fmt.Errorf("pipeline: %w", err)
	}
	sh := shape{network: sha256.Sum256([]byte(print)), words: m.Network.Spec.Layout().Words, states: m.Policy.States(), width: len(m.Channels), inputs: len(m.Channels)}
	if arithmetic != "" {
		sh.network = sha256.Sum256([]byte(print + " " + arithmetic))
	}
	if c.NonFinite == codec.Hold {
		sh.channels = sh.width
	}
	return sh, nil
}

func appendString(dst []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(s))), s...)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// appendFlag adds flags in the given form. All there were in version 2 fit it.
func appendFlag(dst []byte, f codec.Flag, form uint32) []byte {
	if form == wire.OldestState {
		return append(dst, byte(f&(codec.FlagIdle<<1-1)))
	}
	return binary.LittleEndian.AppendUint32(dst, uint32(f))
}

func appendSource(dst []byte, src *source, form uint32) []byte {
	le := binary.LittleEndian
	dst = appendString(appendString(dst, src.key), src.incarnation)
	dst = le.AppendUint64(le.AppendUint64(dst, src.last), src.heardIn)
	dst = appendFlag(appendBool(dst, src.partial), src.flags, form)
	dst = le.AppendUint32(dst, uint32(len(src.held)))
	for _, h := range src.held {
		dst = le.AppendUint64(le.AppendUint64(dst, h.seq), h.job.seq)
		dst = appendString(dst, headerText(h.job.header))
		dst = append(le.AppendUint32(dst, uint32(len(h.job.data))), h.job.data...)
	}
	return dst
}

// where a state's row is
const (
	rowNone byte = iota
	rowHere
	rowAway
)

// rowAppender writes the row of a stream's state.
type rowAppender interface {
	appendRow(dst []byte, st *stream, state int) ([]byte, error)
}

// rowCopier writes a row's words, or where it is stored.
type rowCopier shard

func (c *rowCopier) appendRow(dst []byte, st *stream, state int) ([]byte, error) {
	switch {
	case st.slots[state] >= 0:
		row, err := (*shard)(c).readRow(st.slots[state])
		return appendRowWords(append(dst, rowHere), row), err
	}
	return appendAway(dst, st, state), nil
}

// decodedRows writes the rows of a partition that is in no engine.
type decodedRows struct{}

func (decodedRows) appendRow(dst []byte, st *stream, state int) ([]byte, error) {
	if row := st.rows[state]; row != nil {
		return appendRowWords(append(dst, rowHere), row), nil
	}
	return appendAway(dst, st, state), nil
}

// appendAway writes where a row is stored, or that there is none.
func appendAway(dst []byte, st *stream, state int) []byte {
	if !st.isAway(state) {
		return append(dst, rowNone)
	}
	ref := st.away[state]
	return wire.AppendDigest(binary.LittleEndian.AppendUint64(append(dst, rowAway), ref.seq), ref.hash)
}

// appendStream adds a stream in the given form.
func appendStream(dst []byte, st *stream, rows rowAppender, form uint32) ([]byte, error) {
	le := binary.LittleEndian
	dst = le.AppendUint64(le.AppendUint64(appendString(dst, st.id), st.heardAt), st.heardIn)
	dst = le.AppendUint64(le.AppendUint64(dst, uint64(st.seq.N)), uint64(st.seq.Last))
	dst = appendFlag(dst, st.since, form)
	for _, f := range st.flags {
		dst = appendFlag(dst, f, form)
	}
	dst = le.AppendUint32(le.AppendUint64(dst, st.lastSeq), st.lastRow)
	dst = appendBool(le.AppendUint64(dst, uint64(st.lastTime)), st.heard)
	for _, v := range st.sample {
		dst = le.AppendUint32(dst, math.Float32bits(v))
	}
	if form > wire.OldestState {
		for _, c := range st.channels {
			dst = le.AppendUint32(le.AppendUint32(dst, math.Float32bits(c.Last)), c.Run)
		}
	}
	for i := range st.slots {
		var err error
		if dst, err = rows.appendRow(dst, st, i); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// headerText writes headers in one order, so that equal ones are equal bytes.
// A zero byte ends each name and value; one within stands as a line feed, which
// ends a line of headers on the wire and is in none.
func headerText(h nats.Header) string {
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

func parseHeader(s string) (nats.Header, error) {
	h := nats.Header{}
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

// snapshot encodes a partition as it is now.
func (p *partition) snapshot(sh shape, rows rowAppender) ([]byte, error) {
	return p.encode(sh, rows, wire.StateVersion)
}

// encode writes a snapshot in one of the forms that are read.
func (p *partition) encode(sh shape, rows rowAppender, form uint32) ([]byte, error) {
	le := binary.LittleEndian
	b := append([]byte(snapshotMagic), 0, 0, 0, 0)
	le.PutUint32(b[len(snapshotMagic):], form)
	b = append(b, sh.network[:]...)
	b = le.AppendUint32(b, uint32(p.id))
	b = le.AppendUint64(le.AppendUint64(b, p.done), uint64(p.doneTime))
	for _, n := range []int{sh.words, sh.states, sh.channels} {
		b = le.AppendUint32(b, uint32(n))
	}
	if form > wire.OldestState {
		b = le.AppendUint32(b, uint32(sh.inputs))
	}
	b = le.AppendUint64(appendBool(b, p.lossy), p.clock)
	b = le.AppendUint32(b, uint32(len(p.sources)))
	for _, key := range slices.Sorted(maps.Keys(p.sources)) {
		src := p.sources[key]
		b = appendSource(b, src, form)
		b = le.AppendUint32(b, uint32(len(src.streams)))
		for _, st := range src.sorted() {
			var err error
			if b, err = appendStream(b, st, rows, form); err != nil {
				return nil, fmt.Errorf("pipeline: partition %d: state of stream %q: %w", p.id, st.id, err)
			}
		}
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}
