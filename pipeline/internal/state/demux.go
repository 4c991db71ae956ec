package state

import (
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/sequence"
)

// demux hands the message's samples to their streams: all to the key's own,
// or each to the stream its row names, rows of a stream joined.
func (s *Machine) demux(m *step) error {
	in := &s.in
	switch {
	case in.Rows == 0 && m.end:
		return s.endAll(m)
	case in.Rows == 0:
		return nil
	case len(in.Keys) == 0:
		base := len(m.fx.X) / s.Channels
		if s.inPlace(m.fx) {
			m.fx.X = m.fx.X[:len(m.fx.X)+len(in.X)]
		} else {
			s.appendRows(m.fx, in.X)
			s.mixed = in.X // it may have grown
		}
		return s.feed(m, m.src.Key, base, group{Samples: sequence.Samples{Count: in.Rows, Times: in.Times, Ends: in.Ends, EndAfter: m.end}})
	}
	if s.inPlace(m.fx) {
		s.mixed = append(s.mixed[:0], in.X...)
		in.X = s.mixed
	}
	s.mixed = in.X // it may have grown
	s.sortByKey()
	for k, id := range in.Keys {
		g := s.gather(m, k)
		base := s.appendRows(m.fx, nil)
		for _, r := range g.rows {
			s.appendRows(m.fx, in.X[int(r)*s.Channels:(int(r)+1)*s.Channels])
		}
		if err := s.feed(m, id, base, g); err != nil {
			return err
		}
	}
	return nil
}

// endAll closes every open sequence of the source: a message without rows
// names no stream.
func (s *Machine) endAll(m *step) error {
	for _, st := range m.src.sorted() {
		if err := s.feed(m, st.ID, 0, group{Samples: sequence.Samples{EndAfter: true}}); err != nil {
			return err
		}
	}
	return nil
}

// group is one stream's part of a message.
type group struct {
	sequence.Samples
	rows []int32 // their rows in the message; nil = all, in order
}

func (g *group) row(i int) uint32 {
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

// inPlace reports whether the samples in hand stand behind the last
// row already. They do not where there was no room.
func (s *Machine) inPlace(fx *Effects) bool {
	tail := fx.X[len(fx.X):cap(fx.X)]
	return len(tail) > 0 && len(s.in.X) > 0 && &tail[0] == &s.in.X[0]
}

// sortByKey sorts the message's rows by key, rows of a key in order: s.order
// holds them, those of key k from s.first[k] to s.first[k+1].
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

// gather collects times and marks of key k's rows.
func (s *Machine) gather(m *step, k int) group {
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

// feed cuts one stream's samples, rows base and on of the batch, into runs.
func (s *Machine) feed(m *step, id string, base int, g group) error {
	st, err := s.stream(m, id, true)
	if err != nil {
		return err
	}
	st.Since |= m.flags
	for i := range st.Flags {
		st.Flags[i] |= st.Since
	}
	m.fx.Samples += g.Count
	before := st.Seq.N
	if before == 0 && g.Count > 0 {
		m.p.opens(st)
	}
	s.cuts = st.Seq.Cut(s.cuts[:0], &s.Policy, g.Samples)
	x := m.fx.X[base*s.Channels : (base+g.Count)*s.Channels]
	s.missing = s.missing[:0]
	if len(s.in.Missing) > 0 {
		s.findMissing(m, x, g)
	}
	s.tell(m, st, g, x)
	s.limits.Watch(st.Channels, x, &s.found)
	if len(s.missing) > 0 {
		s.fill(x, st)
	}
	if g.Count > 0 {
		st.sample = st.sample[:0]
		if s.Hold {
			st.sample = append(st.sample, x[len(x)-s.Channels:]...)
		}
	}
	if out := s.front.Run(st.front, before, s.cuts, x); s.front != nil && g.Count > 0 { // without a sample, base is none
		m.fx.X = m.fx.X[:(base+out)*s.Channels]
	}
	for _, c := range s.cuts {
		s.addRun(m, st, base, g, c)
	}
	if g.Count > 0 {
		st.Since = 0
		st.remember(m, g)
	}
	return nil
}

// addRun adds one run, and its prediction where it makes one.
func (s *Machine) addRun(m *step, st *Stream, base int, g group, c sequence.Cut) {
	flags := &st.Flags[c.Phase]
	if c.Reset {
		m.p.begins(st, c.Phase)
	}
	if c.Reset && s.Policy.Kind == reservoir.Window {
		*flags = 0 // a window that begins now misses nothing
	}
	if len(s.missing) > 0 && s.misses(c) {
		*flags |= outcome.FlagHeld
	}
	if outside, flat := s.found.In(int(c.From), int(c.To), c.Age); outside || flat {
		s.unlike(m, st, flags, outside, flat)
	}
	answered := m.silent
	if c.Emit && !answered && m.p.Skip > 0 {
		m.p.Skip--
		answered = true
	}
	m.fx.Runs = append(m.fx.Runs, Run{
		Stream: st, Phase: int32(c.Phase), Reset: c.Reset, Emit: c.Emit && !answered, End: c.End, Open: st.Seq.Open(),
		From: int32(base) + s.front.At(c.From), To: int32(base) + s.front.At(c.To),
	})
	if s.Extents {
		m.fx.Extents = append(m.fx.Extents, st.extent(m, g, c))
	}
	if st.clocks != nil {
		st.watchTimes(g, c)
	}
	if c.Emit && !answered {
		s.predict(m, st, g, c, *flags)
	}
	if c.Emit && st.clocks != nil && s.Policy.Kind == reservoir.Endless {
		st.clocks[c.Phase].Begin(st.timeBehind(g, c)) // it never ends: the rate is that since the prediction before
	}
	if c.End {
		st.told = st.told && *flags&(outcome.FlagOutOfRange|outcome.FlagFlat) != 0
		*flags = 0
		if c.To == 0 && g.Count > 0 {
			*flags = st.Since // what was lost in the silence may belong to either side
		}
	}
}

// extent is which samples a cut is of.
func (st *Stream) extent(m *step, g group, c sequence.Cut) Extent {
	at := func(to int32) Place {
		if to > 0 {
			return Place{m.inSeq, m.seq, g.row(int(to) - 1)}
		}
		return Place{st.lastIn, st.lastSeq, st.lastRow}
	}
	e := Extent{
		Before: at(c.From), Last: at(c.To), Samples: c.Age + int64(c.To-c.From), Earliest: math.MaxInt64, Latest: math.MinInt64,
		Message: m.from, Count: uint32(c.To - c.From),
	}
	if c.To > c.From {
		e.FirstRow = g.row(int(c.From))
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

// watchTimes takes the times of a cut's samples.
func (st *Stream) watchTimes(g group, c sequence.Cut) {
	clock, from := &st.clocks[c.Phase], c.From
	switch {
	case c.From == c.To:
		return
	case len(g.Times) == 0:
		clock.Lose()
		return
	case c.Reset:
		clock.Begin(g.Times[from])
		from++
	}
	before := st.lastTime
	if from > 0 {
		before = g.Times[from-1]
	}
	clock.Take(g.Times[from:c.To], before)
}

// timeBehind is the time of the last sample of a cut, or of the one before it
// where it has none.
func (st *Stream) timeBehind(g group, c sequence.Cut) int64 {
	switch {
	case c.To == 0:
		return st.lastTime
	case len(g.Times) == 0:
		return codec.NoTime
	}
	return g.Times[c.To-1]
}

// unlike flags the sequence in hand for samples unlike those of the training,
// and says so once for a stream, until a sequence ends without.
func (s *Machine) unlike(m *step, st *Stream, flags *outcome.Flag, outside, flat bool) {
	if outside {
		*flags |= outcome.FlagOutOfRange
	}
	if flat {
		*flags |= outcome.FlagFlat
	}
	if st.told || m.silent {
		return
	}
	st.told = true
	m.note(Note{Kind: NoteUnlike, Stream: st.ID, Flags: *flags & (outcome.FlagOutOfRange | outcome.FlagFlat), Channel: s.found.Channel()})
}

// predict takes a place in the answer; its scores come with the engine call.
func (s *Machine) predict(m *step, st *Stream, g group, c sequence.Cut, flags outcome.Flag) {
	p := codec.Prediction{Stream: st.ID, Seq: st.lastSeq, Row: st.lastRow, Time: st.lastTime, Answer: outcome.Answer{Flags: flags}, Readout: m.p.readout(st, c.Phase)}
	if c.To > 0 {
		p.Seq, p.Row, p.Time = m.seq, g.row(int(c.To)-1), st.timeBehind(g, c)
	}
	if !c.End {
		p.Flags |= outcome.FlagEarly
		m.fx.Early++
		if s.Policy.Kind == reservoir.Window && st.Seq.N-int64(g.Count)+int64(c.To) < int64(s.Policy.Length) {
			p.Flags |= outcome.FlagWarmUp
		}
	}
	if s.Training.Unlike(c.Age+int64(c.To-c.From), !c.End) {
		p.Flags |= outcome.FlagLength
	}
	if st.clocks != nil && s.rate.Off(&st.clocks[c.Phase], p.Time) {
		p.Flags |= outcome.FlagRate
	}
	a := m.out
	a.Preds = append(a.Preds, p)
	a.At, a.Stored, a.Began = append(a.At, m.inSeq), append(a.Stored, m.stored), append(a.Began, s.began(st, c.Phase))
	a.Length = append(a.Length, c.Age+int64(c.To-c.From))
}

// began is when the sequence of a state began, where its samples' times say so.
func (s *Machine) began(st *Stream, phase int32) int64 {
	if st.clocks == nil || s.Policy.Kind == reservoir.Endless { // there the clock begins again with each prediction
		return codec.NoTime
	}
	return st.clocks[phase].Began()
}

// remember keeps what a later message's predictions may need of the last
// sample.
func (st *Stream) remember(m *step, g group) {
	last := g.Count - 1
	st.lastIn, st.lastSeq, st.lastRow, st.lastTime = m.inSeq, m.seq, g.row(last), codec.NoTime
	if len(g.Times) > 0 {
		st.lastTime = g.Times[last]
	}
}
