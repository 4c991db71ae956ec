package state

import (
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/sequence"
	"github.com/eusn-stream/eusn-stream/internal/track"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// splitByStream hands the message's samples to their streams: all to the key's own,
// or each to the stream its row names, rows of a stream joined.
func (s *Machine) splitByStream(m *step) error {
	in := &s.in
	switch {
	case in.Rows == 0 && m.end:
		return s.endAll(m)
	case in.Rows == 0:
		return nil
	case len(in.Keys) == 0:
		base := len(m.fx.X) / s.Channels
		if s.samplesInPlace(m.fx) {
			m.fx.X = m.fx.X[:len(m.fx.X)+len(in.X)]
		} else {
			s.appendRows(m.fx, in.X)
			s.mixed = in.X // decoding may have grown the buffer
		}
		return s.feedStream(m, m.src.Key, base, group{Samples: sequence.Samples{Count: in.Rows, Times: in.Times, Ends: in.Ends, EndAfter: m.end}})
	}
	if s.samplesInPlace(m.fx) {
		s.mixed = append(s.mixed[:0], in.X...)
		in.X = s.mixed
	}
	s.mixed = in.X // decoding may have grown the buffer
	s.sortByKey()
	for k, id := range in.Keys {
		g := s.gatherGroup(m, k)
		base := s.appendRows(m.fx, nil)
		for _, r := range g.rows {
			s.appendRows(m.fx, in.X[int(r)*s.Channels:(int(r)+1)*s.Channels])
		}
		if err := s.feedStream(m, id, base, g); err != nil {
			return err
		}
	}
	return nil
}

// endAll closes every open sequence of the source: a message without rows
// names no stream.
func (s *Machine) endAll(m *step) error {
	for _, st := range m.src.sortedStreams() {
		if err := s.feedStream(m, st.ID, 0, group{Samples: sequence.Samples{EndAfter: true}}); err != nil {
			return err
		}
	}
	return nil
}

// group is the part of a message that belongs to one stream.
type group struct {
	sequence.Samples
	rows []int32 // their rows in the message; nil = all, in order
}

func (g *group) rowOf(i int) uint32 {
	if g.rows == nil {
		return uint32(i)
	}
	return uint32(g.rows[i])
}

// appendRows adds samples to the samples of the runs and returns the row number of
// the first.
func (s *Machine) appendRows(fx *Effects, x []float32) int {
	base := len(fx.X) / s.Channels
	fx.X = append(fx.X, x...)
	return base
}

// samplesInPlace reports whether the decoded samples already follow the last row. The
// samples are elsewhere if there was no room.
func (s *Machine) samplesInPlace(fx *Effects) bool {
	tail := fx.X[len(fx.X):cap(fx.X)]
	return len(tail) > 0 && len(s.in.X) > 0 && &tail[0] == &s.in.X[0]
}

// sortByKey sorts the message's rows by key and keeps the row order within a key:
// s.order holds the rows; key k has the rows s.first[k] to s.first[k+1].
func (s *Machine) sortByKey() {
	keys := len(s.in.Keys)
	s.first = append(s.first[:0], make([]int32, keys+1)...)
	for _, k := range s.in.Key {
		s.first[k+1]++
	}
	for k := range keys {
		s.first[k+1] += s.first[k]
	}
	s.order = slices.Grow(s.order[:0], s.in.Rows)[:s.in.Rows]
	s.next = append(s.next[:0], s.first[:keys]...)
	for r, k := range s.in.Key {
		s.order[s.next[k]] = int32(r)
		s.next[k]++
	}
}

// gatherGroup collects times and marks of key k's rows.
func (s *Machine) gatherGroup(m *step, k int) group {
	rows := s.order[s.first[k]:s.first[k+1]]
	s.times, s.ends = s.times[:0], s.ends[:0]
	for _, r := range rows {
		if len(s.in.Times) > 0 {
			s.times = append(s.times, s.in.Times[r])
		}
		if len(s.in.Ends) > 0 {
			s.ends = append(s.ends, s.in.Ends[r])
		}
	}
	return group{Samples: sequence.Samples{Count: len(rows), Times: s.times, Ends: s.ends, EndAfter: m.end}, rows: rows}
}

// feedStream passes samples to one stream: the rows of the batch from base on.
func (s *Machine) feedStream(m *step, id string, base int, g group) error {
	st, err := s.findStream(m, id, true)
	if err != nil {
		return err
	}
	st.Since |= m.flags
	m.fx.Samples += g.Count
	if st.Seq.N == 0 && g.Count > 0 {
		m.p.noteOpened(st)
	}
	x := m.fx.X[base*s.Channels : (base+g.Count)*s.Channels]
	s.missing = s.missing[:0]
	if len(s.in.Missing) > 0 {
		s.findMissing(m, x, g)
	}
	s.reportTaken(m, st, g, x)
	pieces, rows := s.tracker.Feed(&st.Track, track.Samples{Samples: g.Samples, X: x, Missing: s.missing})
	if g.Count > 0 { // without a sample, base is none
		m.fx.X = m.fx.X[:(base+rows)*s.Channels]
	}
	for i := range pieces {
		s.addRun(m, st, base, g, &pieces[i])
	}
	if g.Count > 0 {
		st.lastIn, st.lastSeq, st.lastRow = m.inSeq, m.seq, g.rowOf(g.Count-1)
	}
	return nil
}

// addRun adds the run of a piece, and the prediction if the piece makes a prediction.
func (s *Machine) addRun(m *step, st *Stream, base int, g group, c *track.Piece) {
	if c.Reset {
		m.p.noteBegun(st, c.Phase)
	}
	if c.Unlike != 0 && !st.told && !m.silent {
		st.told = true
		m.addNote(Note{Kind: NoteUnlike, Stream: st.ID, Flags: c.Flags & (outcome.FlagOutOfRange | outcome.FlagFlat), Channel: s.tracker.FirstUnlike()})
	}
	answered := m.silent
	if c.Emit && !answered && m.p.Skip > 0 {
		m.p.Skip--
		answered = true
	}
	m.fx.Runs = append(m.fx.Runs, Run{
		Stream: st, Phase: int32(c.Phase), Reset: c.Reset, Emit: c.Emit && !answered, End: c.End, Open: st.Seq.Open(),
		From: int32(base) + c.RowFrom, To: int32(base) + c.RowTo,
	})
	if s.Extents {
		m.fx.Extents = append(m.fx.Extents, st.makeExtent(m, g, c.Cut))
	}
	if c.Emit && !answered {
		s.addPrediction(m, st, g, c)
	}
	if c.End {
		st.told = st.told && c.Flags&(outcome.FlagOutOfRange|outcome.FlagFlat) != 0
	}
}

// makeExtent returns which samples a cut covers.
func (st *Stream) makeExtent(m *step, g group, c sequence.Cut) Extent {
	at := func(to int32) Place {
		if to > 0 {
			return Place{m.inSeq, m.seq, g.rowOf(int(to) - 1)}
		}
		return Place{st.lastIn, st.lastSeq, st.lastRow}
	}
	e := Extent{
		Before: at(c.From), Last: at(c.To), Samples: c.Age + int64(c.To-c.From), Earliest: math.MaxInt64, Latest: math.MinInt64,
		Message: m.from, Count: uint32(c.To - c.From),
	}
	if c.To > c.From {
		e.FirstRow = g.rowOf(int(c.From))
	}
	for i := c.From; i < c.To; i++ {
		if len(g.Times) == 0 || g.Times[i] == codec.NoTime {
			e.Earliest, e.Latest = codec.NoTime, codec.NoTime
			break
		}
		e.Earliest, e.Latest = min(e.Earliest, g.Times[i]), max(e.Latest, g.Times[i])
	}
	return e
}

// addPrediction reserves a prediction in the answer; the engine call fills the scores
// later.
func (s *Machine) addPrediction(m *step, st *Stream, g group, c *track.Piece) {
	p := codec.Prediction{Stream: st.ID, Seq: st.lastSeq, Row: st.lastRow, Time: c.Time, Answer: outcome.Answer{Flags: c.Flags}, Readout: m.p.readoutOf(st, c.Phase)}
	if c.To > 0 {
		p.Seq, p.Row = m.seq, g.rowOf(int(c.To)-1)
	}
	if !c.End {
		m.fx.Early++
	}
	a := m.out
	a.Preds = append(a.Preds, p)
	a.At, a.Stored, a.Began = append(a.At, m.inSeq), append(a.Stored, m.stored), append(a.Began, s.tracker.Began(&st.Track, c))
	a.Length = append(a.Length, c.Samples())
	a.Statistics = append(a.Statistics, c.Statistics...)
}
