package state

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// decodeMessage decodes a message into s.in and says what is wrong with it.
func (s *Machine) decodeMessage(m *step, j *Message) (wire.Reason, error) {
	if why, err := checkCRC(j.Header, j.Data); err != nil {
		return why, err
	}
	if err := checkEnd(j.Header); err != nil {
		return wire.ReasonHeader, err
	}
	if text := wire.Get(j.Header, wire.HeaderUnreadable); text != "" {
		// Read here, in another way than where it came from, it might be samples
		// that nobody meant.
		return wire.ReasonMalformed, fmt.Errorf("gateway: %s", text)
	}
	if why, err := s.decodePayload(m.fx, j); err != nil {
		return why, err
	}
	return wire.ReasonStreams, s.checkRoom(m)
}

// checkCRC compares a payload with its checksum.
func checkCRC(h wire.Header, data []byte) (wire.Reason, error) {
	text := wire.Get(h, wire.HeaderCRC)
	if text == "" {
		return 0, nil
	}
	want, err := strconv.ParseUint(text, 16, 32)
	if err != nil {
		return wire.ReasonHeader, fmt.Errorf("pipeline: header %s is %q, want up to 8 hex digits", wire.HeaderCRC, text)
	}
	if got := wire.CRC(data); got != uint32(want) {
		return wire.ReasonChecksum, fmt.Errorf("pipeline: payload has CRC-32C %08x, header %s says %08x: damaged on the way", got, wire.HeaderCRC, want)
	}
	return 0, nil
}

// EndsAfter reads the end mark.
func EndsAfter(h wire.Header) bool {
	text := wire.Get(h, wire.HeaderEnd)
	return text == "1" || strings.EqualFold(text, "true")
}

// checkEnd refuses an end mark that is no known word: to take it for no would
// join two sequences into one.
func checkEnd(h wire.Header) error {
	text := wire.Get(h, wire.HeaderEnd)
	if EndsAfter(h) || text == "" || text == "0" || strings.EqualFold(text, "false") {
		return nil
	}
	return fmt.Errorf("pipeline: header %s is %q, want true, false, 1 or 0", wire.HeaderEnd, text)
}

// decodePayload fills s.in from the payload and checks what the codec cannot know.
// The samples of a message of one stream go where the engine reads them. Those
// of many streams are sorted on the way there, from room of their own, which a
// message is given if the one before it had many.
func (s *Machine) decodePayload(fx *Effects, j *Message) (wire.Reason, error) {
	if len(s.in.Keys) > 0 {
		s.in.X = s.mixed
	} else {
		s.in.X = fx.X[len(fx.X):]
	}
	if len(j.Data) == 0 {
		return wire.ReasonMalformed, errors.New("pipeline: empty message, want samples (an Arrow record batch without rows, or [] in JSON, closes a sequence)")
	}
	if err := s.decoder.Decode(j.Data, &s.in); err != nil {
		return wire.ReasonOf(err), err
	}
	if s.Policy.Kind == reservoir.Gap && s.in.Rows > 0 {
		if len(s.in.Times) == 0 || slices.Contains(s.in.Times, codec.NoTime) {
			return wire.ReasonTime, errors.New("pipeline: the model closes sequences by silence, want a time (ts, or input.time) in each row")
		}
	}
	if len(s.in.Missing) == 0 {
		return wire.ReasonValue, engine.CheckInputs(s.in.X, s.Channels)
	}
	for i, x := range s.in.X {
		if math.Abs(float64(x)) > reservoir.MaxInput { // a NaN to be held passes
			return wire.ReasonValue, &reservoir.InputError{Sample: i / s.Channels, Channel: i % s.Channels, Value: x}
		}
	}
	return 0, nil
}
