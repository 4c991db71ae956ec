package state

import "github.com/eusn-stream/eusn-stream/codec"

// unlike flags the sequence in hand for samples unlike those of the training,
// and says so once for a stream, until a sequence ends without.
func (s *Machine) unlike(m *step, st *Stream, flags *codec.Flag, outside, flat bool) {
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
	m.note(Note{Kind: NoteUnlike, Stream: st.ID, Flags: *flags & (codec.FlagOutOfRange | codec.FlagFlat), Channel: s.found.Channel()})
}
