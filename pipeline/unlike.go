package pipeline

import "github.com/eusn-stream/eusn-stream/codec"

// unlike flags the sequence in hand for samples unlike those of the training,
// and says so once for a stream, until a sequence ends without.
func (s *shard) unlike(m *message, st *stream, flags *codec.Flag, outside, flat bool) {
	if outside {
		*flags |= codec.FlagOutOfRange
	}
	if flat {
		*flags |= codec.FlagFlat
	}
	if st.told || m.silent {
		return
	}
	st.told = true
	s.oddities.warn(s.log, "samples unlike the training's: predictions that rest on them are flagged; is the sensor connected, and its unit the one trained on?",
		"key", st.source.key, "stream", st.id, "flags", (*flags & (codec.FlagOutOfRange | codec.FlagFlat)).String(), "channel", s.names[s.found.Channel()], "input", m.inSeq)
}
