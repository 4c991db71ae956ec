package record

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
)

// Keys of a file's metadata.
const (
	keyPosition = "eusn.record"
	keyState    = "eusn.record.state"
	// keyRecording names the recording of a file.
	keyRecording = "eusn.recording"
	// keyEnds lists the numbers of samples that end a sequence according to a later
	// message, keySilent the numbers of samples after which silence ended the sequence:
	// JSON.
	keyEnds, keySilent = "eusn.ends", "eusn.silent"
)

// Keys are all metadata keys.
var Keys = []string{keyPosition, keyState, keyRecording, keyEnds, keySilent}

const (
	positionVersion = 1
	// largestState limits the size read into memory.
	largestState = 4 << 30
	// namedDead is how many dead letters a file names.
	namedDead = 100
)

// Done counts the recorded data.
type Done struct {
	Messages     uint64 `json:"messages"`
	Samples      uint64 `json:"samples"`
	Ends         uint64 `json:"ends"`         // of sequences
	Repeats      uint64 `json:"repeats"`      // messages dropped as repeats
	Gaps         uint64 `json:"gaps"`         // numbers of keys whose messages never came
	Removed      uint64 `json:"removed"`      // messages removed from the log before they could be read
	Incarnations uint64 `json:"incarnations"` // producers that restarted their numbers
	Unusable     uint64 `json:"unusable"`     // messages that are dead letters of the stage
	Unnamed      uint64 `json:"unnamed"`      // samples skipped, of streams with a name not allowed in an archive
	Fingerprint  string `json:"fingerprint"`
}

// Dead is a message not usable by the stage.
type Dead struct {
	Input  uint64 `json:"input"`
	Key    string `json:"key"`
	Reason string `json:"reason"`
}

// Position describes a file, and all earlier files.
type Position struct {
	Version   int         `json:"version"`
	Recording string      `json:"recording"` // its name: a new recording has another name
	Asked     inlog.Asked `json:"asked"`
	Begin     uint64      `json:"begin"` // the first message read; earlier than First only for the states
	First     uint64      `json:"first"` // the first message recorded
	File      int         `json:"file"`  // its number, from 1
	After     inlog.Place `json:"after"` // the file has the messages after this message
	To        inlog.Place `json:"to"`    // up to this message
	Waiting   int         `json:"waiting"`
	Released  bool        `json:"released,omitempty"` // the log ended here, and held messages were used
	Part      Done        `json:"part"`
	Total     Done        `json:"total"`
	Dead      []Dead      `json:"dead,omitempty"` // of the file, the first few
}

// place is the message position of a stream's last sample.
type place struct{ key, stream string }

// encodeMeta encodes a position and the state as metadata.
func (p *Position) encodeMeta(part *state.Partition, shape state.Shape, open map[place]int64) (map[string]string, error) {
	head, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("record: position: %w", err)
	}
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(len(open)))
	for _, at := range slices.SortedFunc(maps.Keys(open), func(a, b place) int {
		return bytes.Compare([]byte(a.key+"\x00"+a.stream), []byte(b.key+"\x00"+b.stream))
	}) {
		b = state.AppendString(state.AppendString(b, at.key), at.stream)
		b = le.AppendUint64(b, uint64(open[at]))
	}
	id := part.ID
	part.ID = 0 // each message has its own partition
	encoded, err := part.Encode(shape, state.NoRows{})
	part.ID = id
	if err != nil {
		return nil, err
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	defer w.Close()
	packed := w.EncodeAll(append(b, encoded...), nil)
	return map[string]string{keyPosition: string(head), keyState: base64.StdEncoding.EncodeToString(packed), keyRecording: p.Recording}, nil
}

// errForeign reports a file outside any recording.
var errForeign = errors.New("it is not a file of a recorded job")

// decodePosition reads a position.
func decodePosition(meta map[string]string) (p Position, err error) {
	text := meta[keyPosition]
	if text == "" {
		return p, errForeign
	}
	var form struct{ Version int }
	if err := json.Unmarshal([]byte(text), &form); err != nil {
		return p, fmt.Errorf("its position cannot be read: %w", err)
	}
	if form.Version != positionVersion {
		return p, fmt.Errorf("its position has version %d, and this program reads version %d: use the program that wrote it, or another folder", form.Version, positionVersion)
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("its position cannot be read: %w", err)
	}
	if p.Recording == "" || p.File < 1 || p.To.Seq < p.After.Seq {
		return p, errors.New("its position contradicts itself")
	}
	return p, nil
}

// decodeState reads the state at a position.
func decodeState(meta map[string]string, shape state.Shape) (*state.Partition, map[place]int64, error) {
	fail := func(err error) (*state.Partition, map[place]int64, error) {
		return nil, nil, fmt.Errorf("its state cannot be read: %w", err)
	}
	r, err := zstd.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader([]byte(meta[keyState]))), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return fail(err)
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, largestState))
	if err != nil {
		return fail(err)
	}
	le, open, cut := binary.LittleEndian, map[place]int64{}, errors.New("it is cut short")
	text := func() (s string) {
		if err != nil || len(b) < 4 || uint64(le.Uint32(b)) > uint64(len(b)-4) {
			err = cut
			return ""
		}
		n := int(le.Uint32(b))
		s, b = string(b[4:4+n]), b[4+n:]
		return s
	}
	if len(b) < 4 {
		return fail(cut)
	}
	n := le.Uint32(b)
	b = b[4:]
	for range n {
		at := place{text(), text()}
		if err != nil || len(b) < 8 {
			return fail(cut)
		}
		open[at], b = int64(le.Uint64(b)), b[8:]
	}
	part, err := state.Decode(b, shape, 0)
	if err != nil {
		return fail(err)
	}
	return part, open, nil
}
