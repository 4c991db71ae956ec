package pipeline

import (
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/sequence"
)

// message is a decoded message (the samples are in shard.in) on its way into
// a batch.
type message struct {
	b      *batch
	p      *partition
	src    *source
	seq    uint64 // Eusn-Seq, 0 without one
	inSeq  uint64
	stored int64 // when the server stored it, ns
	silent bool
	end    bool
	flags  codec.Flag // of this message's samples alone
}

// spread hands the message's samples to their streams: all to the key's own,
// or each to the stream its row names, rows of a stream joined.
func (s *shard) spread(m *message) error {
	in := &s.in
	switch {
	case in.Rows == 0 && m.end:
		return s.endAll(m)
	case in.Rows == 0:
		return nil
	case len(in.Keys) == 0:
		base := len(m.b.x) / s.channels
		if s.inPlace(m.b) {
			m.b.x = m.b.x[:len(m.b.x)+len(in.X)]
		} else {
			s.appendRows(m.b, in.X)
			s.mixed = in.X // it may have grown
		}
		return s.feed(m, m.src.key, base, group{Samples: sequence.Samples{Rows: in.Rows, Times: in.Times, Ends: in.Ends, EndAfter: m.end}})
	}
	if s.inPlace(m.b) {
		s.mixed = append(s.mixed[:0], in.X...)
		in.X = s.mixed
	}
	s.mixed = in.X // it may have grown
	s.sortByKey()
	for k, id := range in.Keys {
		g := s.gather(m, k)
		base := s.appendRows(m.b, nil)
		for _, r := range g.rows {
			s.appendRows(m.b, in.X[int(r)*s.channels:(int(r)+1)*s.channels])
		}
		if err := s.feed(m, id, base, g); err != nil {
			return err
		}
	}
	return nil
}

// endAll closes every open sequence of the source: a message without rows
// names no stream.
func (s *shard) endAll(m *message) error {
	for _, st := range m.src.sorted() {
		if err := s.feed(m, st.id, 0, group{Samples: sequence.Samples{EndAfter: true}}); err != nil {
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

// appendRows adds samples to the batch's matrix and returns the row number of
// the first.
func (s *shard) appendRows(b *batch, x []float32) int {
	base := len(b.x) / s.channels
	b.x = append(b.x, x...)
	return base
}

// inPlace reports whether the samples in hand stand behind the batch's last
// row already. They do not where there was no room.
func (s *shard) inPlace(b *batch) bool {
	tail := b.x[len(b.x):cap(b.x)]
	return len(tail) > 0 && len(s.in.X) > 0 && &tail[0] == &s.in.X[0]
}

// sortByKey sorts the message's rows by key, rows of a key in order: s.order
// holds them, those of key k from s.first[k] to s.first[k+1].
func (s *shard) sortByKey() {
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
func (s *shard) gather(m *message, k int) group {
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
	return group{Samples: sequence.Samples{Rows: len(rows), Times: s.times, Ends: s.ends, EndAfter: m.end}, rows: rows}
}

// feed cuts one stream's samples, rows base and on of the batch, into runs.
func (s *shard) feed(m *message, id string, base int, g group) error {
	st, err := s.stream(m.p, m.src, id)
	if err != nil {
		return err
	}
	st.since |= m.flags
	for i := range st.flags {
		st.flags[i] |= st.since
	}
	s.cuts = st.seq.Cut(s.cuts[:0], &s.policy, g.Samples)
	x := m.b.x[base*s.channels : (base+g.Rows)*s.channels]
	s.missing = s.missing[:0]
	if len(s.in.Missing) > 0 {
		s.findMissing(x, g)
	}
	s.limits.Watch(st.channels, x, &s.found)
	if len(s.missing) > 0 {
		s.fill(x, st)
	}
	for _, c := range s.cuts {
		if err := s.addRun(m, st, base, g, c); err != nil {
			return err
		}
	}
	if g.Rows > 0 {
		st.since = 0
		s.remember(m, st, base, g)
	}
	return nil
}

// addRun adds one run to the batch, and its prediction where it makes one.
func (s *shard) addRun(m *message, st *stream, base int, g group, c sequence.Cut) error {
	slot := &st.slots[c.Phase]
	flags := &st.flags[c.Phase]
	if *slot < 0 {
		if err := s.place(m.b, st, int(c.Phase), c.Reset); err != nil {
			return err
		}
	}
	s.residents.use(st)
	if c.Reset && s.policy.Kind == reservoir.Window {
		*flags = 0 // a window that begins now misses nothing
	}
	if len(s.missing) > 0 && s.misses(c) {
		*flags |= codec.FlagHeld
	}
	if outside, flat := s.found.In(int(c.From), int(c.To), c.Age); outside || flat {
		s.unlike(m, st, flags, outside, flat)
	}
	answered := m.silent
	if c.Emit && !answered && m.p.skip > 0 {
		m.p.skip--
		answered = true
	}
	m.b.runs = append(m.b.runs, reservoir.Run{
		Slot: *slot, Reset: c.Reset, Emit: c.Emit && !answered, From: int32(base) + c.From, To: int32(base) + c.To,
	})
	if c.Emit && !answered {
		s.predict(m, st, g, c, *flags)
	}
	if c.End {
		st.told = st.told && *flags&(codec.FlagOutOfRange|codec.FlagFlat) != 0
		*flags = 0
		if c.To == 0 && g.Rows > 0 {
			*flags = st.since // what was lost in the silence may belong to either side
		}
		s.closed = append(s.closed, st)
	}
	return nil
}

// predict takes a place in the answer; its scores come with the engine call.
func (s *shard) predict(m *message, st *stream, g group, c sequence.Cut, flags codec.Flag) {
	p := codec.Prediction{Stream: st.id, Seq: st.lastSeq, Row: st.lastRow, Time: st.lastTime, Flags: flags}
	if c.To > 0 {
		p.Seq, p.Row, p.Time = m.seq, g.row(int(c.To)-1), codec.NoTime
		if len(g.Times) > 0 {
			p.Time = g.Times[c.To-1]
		}
	}
	if !c.End {
		p.Flags |= codec.FlagEarly
		m.b.early++
		if s.policy.Kind == reservoir.Window && st.seq.N-int64(g.Rows)+int64(c.To) < int64(s.policy.Length) {
			p.Flags |= codec.FlagWarmUp
		}
	}
	if s.training.Unlike(c.Age+int64(c.To-c.From), !c.End) {
		p.Flags |= codec.FlagLength
	}
	a := m.b.answer(m.p)
	m.b.emits = append(m.b.emits, emit{m.p.index, len(a.preds)})
	a.preds = append(a.preds, p)
	a.at, a.stored = append(a.at, m.inSeq), append(a.stored, m.stored)
}

// remember keeps what a later message's predictions may need of the last
// sample.
func (s *shard) remember(m *message, st *stream, base int, g group) {
	last := g.Rows - 1
	st.lastSeq, st.lastRow, st.lastTime = m.seq, g.row(last), codec.NoTime
	if len(g.Times) > 0 {
		st.lastTime = g.Times[last]
	}
	if s.hold {
		copy(st.sample, m.b.x[(base+last)*s.channels:])
		st.heard = true
	}
}
