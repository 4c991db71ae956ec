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

// decodeMessage decodes a message into s.in and reports the reason if the message is
// unusable.
func (s *Machine) decodeMessage(m *step, j *Message) (wire.Reason, error) {
	if why, err := checkCRC(j.Header, j.Data); err != nil {
		return why, err
	}
	if err := checkEnd(j.Header); err != nil {
		return wire.ReasonHeader, err
	}
	if text := wire.Get(j.Header, wire.HeaderUnreadable); text != "" {
		// A different decoding than at the origin could give wrong samples.
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
		return wire.ReasonChecksum, fmt.Errorf("pipeline: payload has CRC-32C %08x, but header %s has %08x: damaged in transit", got, wire.HeaderCRC, want)
	}
	return 0, nil
}

// EndsAfter reads the end mark.
func EndsAfter(h wire.Header) bool {
	text := wire.Get(h, wire.HeaderEnd)
	return text == "1" || strings.EqualFold(text, "true")
}

// checkEnd refuses an unknown end mark: treating an unknown mark as "no" would join two
// sequences.
func checkEnd(h wire.Header) error {
	text := wire.Get(h, wire.HeaderEnd)
	if EndsAfter(h) || text == "" || text == "0" || strings.EqualFold(text, "false") {
		return nil
	}
	return fmt.Errorf("pipeline: header %s is %q, want true, false, 1 or 0", wire.HeaderEnd, text)
}

// decodePayload fills s.in from the payload and checks the properties that the codec
// cannot check. Samples of one stream go directly to the engine's input. Samples of
// many streams are sorted on the way and need their own buffer, which a message gets if
// the previous message had many streams.
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
