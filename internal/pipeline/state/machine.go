package state

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/sequence"
	"github.com/eusn-stream/eusn-stream/internal/track"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// maxIncarnation is the longest Eusn-Incarnation, bytes: every source keeps
// its own, and a UUID or a time takes less than half of it.
const maxIncarnation = 128

// errRoom is a partition full of open sequences, for a message that has no samples.
var errRoom = errors.New("pipeline: too many streams with open sequences")

// Rules are what a partition's state depends on besides its messages. They are
// the model's and the configuration's.
type Rules struct {
	track.Rules
	Shape Shape

	MaxStreams            int             // that a partition remembers
	Reorder, ReorderBytes int             // messages of a key, and bytes of a partition, that may wait
	MaxKey                int             // bytes of a key; 0 = any number
	Keys                  *names.Patterns // that a key must fit; nil: any key

	Events     string // the job in end events that are for these states; see wire.IdleEvent
	Begun      string // when the job's output was made: promotions of an earlier job of that name are passed over
	OneReadout bool   // promotions in the log are passed over
}

// decoder reads the samples of a message.
type decoder interface {
	Decode(data []byte, to *codec.Batch) error
}

// Machine advances the states of partitions, a message at a time. It belongs to
// one goroutine; what it does is a function of the rules, a partition's state
// and the message.
type Machine struct {
	Rules
	decoder decoder
	tracker *track.Tracker

	// scratch of the message in hand
	in                 codec.Batch
	mixed              []float32 // samples of a message of many streams
	cuts               []sequence.Cut
	missing            []int32
	order, first, next []int32
	times              []int64
	ends               []bool
	bytes              []byte // of the stream to be hashed
	hasher             rowHasher

	// Extents says that runs tell which samples they are of.
	Extents bool
	// Turn says where a number stands; TurnOf, but for who has to see what
	// that is for.
	Turn func(src *Source, n uint64) Turn

	// Taken, where it is set, is told what each stream gets, in order.
	Taken func(*Taken)
}

// NewMachine makes a machine. The decoder's channels must be the rules'.
func NewMachine(r Rules, d decoder) *Machine {
	return &Machine{Rules: r, decoder: d, tracker: track.NewTracker(r.Rules), Turn: TurnOf}
}

// DecodedMessage is the last message that was decoded.
func (s *Machine) DecodedMessage() *codec.Batch { return &s.in }

// step is a message on its way through the machine. Its samples are in
// Machine.in.
type step struct {
	fx     *Effects
	out    *Predictions
	p      *Partition
	src    *Source
	seq    uint64 // Eusn-Seq, 0 without one
	inSeq  uint64
	from   uint64 // the message that the samples came in, which may have waited
	stored int64  // when the server stored it, ns
	silent bool   // it was answered before
	asked  uint64 // held messages before this one are of before what is asked for
	end    bool
	flags  outcome.Flag // of this message's samples alone
}

// addNote takes down what happened to the key in hand.
func (m *step) addNote(n Note) {
	n.Input = m.inSeq
	if m.src != nil {
		n.Key = m.src.Key
	}
	m.fx.Notes = append(m.fx.Notes, n)
}

// Apply takes one message into a partition's state. What it leads to is added to
// fx, and its predictions, whose scores are still to come, to out. A message that
// cannot be used becomes a dead letter; the error is only for what must stop the
// partition. While a restart replays, states advance and nothing
// is answered. A message that was applied before changes nothing.
func (s *Machine) Apply(p *Partition, j *Message, fx *Effects, out *Predictions) error {
	if j.Seq <= p.Done {
		return nil // an ordered consumer never goes back; if one did, the state must not
	}
	before := p.Done
	p.Done, p.DoneTime, p.heardNow = j.Seq, j.Stored, j.Heard
	m := step{fx: fx, out: out, p: p, inSeq: j.Seq, stored: j.Stored, silent: j.Seq <= p.ReplayTo}
	if !m.silent {
		fx.Used++
	}
	if j.Lost || p.Losses.mayPrecede(j.Seq) {
		m.flagLoss(before)
	}
	if !utf8.ValidString(j.Key) { // no reader could decode a prediction that names it
		m.addDeadLetter(j, wire.ReasonKey, fmt.Errorf("pipeline: key %q, what the wildcards of the input subject stand for, is not UTF-8", j.Key))
		return nil
	}
	if s.MaxKey > 0 && len(j.Key) > s.MaxKey {
		m.addDeadLetter(j, wire.ReasonKey, fmt.Errorf("pipeline: the key, what the wildcards of the input subject stand for, has %d bytes, want at most %d: publish under shorter names", len(j.Key), s.MaxKey))
		return nil
	}
	switch wire.Get(j.Header, wire.HeaderKind) {
	case wire.KindIdle:
		return s.applyIdleEvent(&m, j)
	case wire.KindPromote:
		return s.applyPromotion(&m, j)
	}
	if !s.Keys.Allow(j.Key) {
		m.addDeadLetter(j, wire.ReasonKey, fmt.Errorf("pipeline: key %q is none of input.keys: %s", names.Cut(j.Key, 40), names.Cut(s.Keys.String(), 200)))
		return nil
	}
	var isNew bool
	m.src, isNew = p.findSource(j.Key)
	m.src.heardIn, m.src.HeardTime = j.Seq, j.Heard
	if err := s.orderMessage(&m, j, isNew); err != nil {
		return err
	}
	return s.nameKey(&m)
}

// flagLoss says what a message means that may follow others that were lost;
// before is the partition's message before it.
func (m *step) flagLoss(before uint64) {
	p := m.p
	p.Losses = p.Losses.addLoss(before, m.inSeq)
	p.lossy = true
	for _, src := range p.Sources {
		if src.flags&outcome.FlagGap == 0 {
			src.flags |= outcome.FlagGap
			p.touchSource(src)
		}
		if src.Last > 0 {
			continue // its numbers say whether any of its messages are missing
		}
		for _, st := range src.Streams {
			if st.Since&outcome.FlagGap == 0 {
				st.Since |= outcome.FlagGap
				p.Touch(st)
			}
		}
	}
	if !m.silent {
		m.fx.Losses++
		m.addNote(Note{Kind: NoteLoss})
	}
}

// nameKey gives a key without streams one of its name, so that MaxStreams
// bounds keys too. A message that opened none must not end a sequence where all
// are open: its key is forgotten at once.
func (s *Machine) nameKey(m *step) error {
	if len(m.src.Streams) > 0 {
		return nil
	}
	_, err := s.findStream(m, m.src.Key, len(m.src.Held) > 0)
	if errors.Is(err, errRoom) {
		m.p.forgetSource(m.src)
		m.fx.Forgotten++
		m.addNote(Note{Kind: NoteKeyForgotten})
		return nil
	}
	return err
}

// orderMessage puts a message in its place among its key's: used, held or dropped.
func (s *Machine) orderMessage(m *step, j *Message, isNew bool) error {
	src := m.src
	if err := wire.SpellHeaders(j.Header); err != nil {
		return s.rejectAndFlag(m, j, wire.ReasonHeader, err)
	}
	text := wire.Get(j.Header, wire.HeaderSeq)
	if text == "" {
		src.partial = src.partial || isNew && m.p.lossy
		return s.useMessage(m, j, 0)
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 {
		return s.rejectAndFlag(m, j, wire.ReasonHeader, fmt.Errorf("pipeline: header %s is %q, want a number from 1 to 2^63-1", wire.HeaderSeq, text))
	}
	inc := wire.Get(j.Header, wire.HeaderIncarnation)
	if len(inc) > maxIncarnation {
		return s.rejectAndFlag(m, j, wire.ReasonHeader, fmt.Errorf("pipeline: header %s has %d bytes, want at most %d", wire.HeaderIncarnation, len(inc), maxIncarnation))
	}
	if err := s.followIncarnation(m, inc); err != nil {
		return err
	}
	switch s.Turn(src, n) {
	case Repeat:
		if !m.silent {
			m.fx.Used--
			m.fx.Duplicates++
			m.countContradiction(n, j)
		}
		return nil
	case TooEarly:
		return s.holdMessage(m, j, n)
	}
	src.noteArrived(n, j.Data) // even if the message turns out to be unusable: it has arrived
	if err := s.useMessage(m, j, n); err != nil {
		return err
	}
	return s.useHeld(m, outcome.FlagReordered)
}

// countContradiction tells of a number that comes again with other content: nobody repeats
// that message, somebody starts counting again under an incarnation that has these
// numbers behind it, or two count under one key. What they send is dropped.
func (m *step) countContradiction(n uint64, j *Message) {
	src := m.src
	if !src.differsFromArrived(n, j.Data) {
		return
	}
	m.fx.Contradictions++
	if !src.told {
		src.told = true
		m.addNote(Note{Kind: NoteContradiction, Number: n})
	}
}

// useMessage gives a message whose turn it is to its streams, or to the dead
// letters.
func (s *Machine) useMessage(m *step, j *Message, seq uint64) error {
	m.seq, m.end, m.from = seq, EndsAfter(j.Header), j.Seq
	if why, err := s.decodeMessage(m, j); err != nil {
		return s.rejectAndFlag(m, j, why, err)
	}
	if err := s.splitByStream(m); err != nil {
		return err
	}
	m.src.flags = 0
	if !m.silent {
		s.compareTimes(m, j)
		m.fx.Rows += s.in.Rows
		m.fx.Bytes += len(j.Data)
	}
	return nil
}

// compareTimes counts samples whose times are far from when the server stored their
// message, and notes the first of each key.
func (s *Machine) compareTimes(m *step, j *Message) {
	n, first := wire.CountFarTimes(s.in.Times, j.Stored)
	m.fx.FarTimes += uint64(n)
	if n > 0 && !m.src.toldTimes {
		m.src.toldTimes = true
		m.addNote(Note{Kind: NoteFarTimes, Time: first, Stored: j.Stored})
	}
}

// rejectAndFlag turns a message into a dead letter. Which streams it was about may
// be unknown, so all of its source are flagged.
func (s *Machine) rejectAndFlag(m *step, j *Message, why wire.Reason, err error) error {
	m.p.raiseFlag(m.src, outcome.FlagPoisonSkipped)
	m.addDeadLetter(j, why, err)
	return nil
}

// addDeadLetter sends a message to the dead letters, unless that was done before.
func (m *step) addDeadLetter(j *Message, why wire.Reason, err error) {
	if m.silent {
		return
	}
	if j.Seq == m.inSeq {
		m.fx.Used--
	}
	m.fx.Dead = append(m.fx.Dead, DeadLetter{Msg: *j, Why: why, Reason: wire.OneLine(err.Error())})
}

// findStream finds or makes a stream of a source, and marks it as just heard. In a full
// partition a new one takes the place of another, of one with an open sequence only if
// mayEnd.
func (s *Machine) findStream(m *step, id string, mayEnd bool) (*Stream, error) {
	p, src := m.p, m.src
	if st := src.Streams[id]; st != nil {
		p.markHeard(st)
		return st, nil
	}
	if p.recency.Len() >= s.MaxStreams {
		if !s.makeRoom(m, mayEnd) {
			return nil, fmt.Errorf("%w: partition %d: no space for stream %q", errRoom, p.ID, id)
		}
		m.fx.Streams--
		m.fx.Forgotten++
	}
	m.fx.Streams++
	if !m.silent {
		m.fx.New++
	}
	return p.addStream(src, id, &s.Shape), nil
}

// oldestStreams is how many of a full partition's streams are looked at, those silent
// longest, for one that is between two sequences. The number is small, so that a flood
// of new names costs little for each, and touches no stream that is in use.
const oldestStreams = 64

// makeRoom forgets a stream of a full partition: of those silent longest, one between
// two sequences, or else, if mayEnd, the one silent longest, whose open sequence is lost.
// So names that somebody invents displace each other, and no stream that is in use: with
// MaxStreams streams, a stream is forgotten after that many others were heard. What is
// lost is known later: keys that the partition does not know then are flagged FlagGap.
// It reports whether there is room.
func (s *Machine) makeRoom(m *step, mayEnd bool) bool {
	p, seen := m.p, 0
	for st := range p.Oldest() {
		if st.canForget() {
			p.forgetStream(st, m.src)
			m.addNote(Note{Kind: NoteStreamForgotten})
			return true
		}
		if seen++; seen == oldestStreams {
			break
		}
	}
	if !mayEnd {
		return false
	}
	st := p.recency.Back().Value.(*Stream)
	if st.Seq.Open() {
		m.fx.Runs = append(m.fx.Runs, Run{Stream: st, Drop: true})
		m.fx.Abandoned++
	}
	if src := st.Source; src != m.src && len(src.Streams) == 1 {
		s.rejectHeld(m, src)
	}
	p.lossy = true
	p.forgetStream(st, m.src)
	m.addNote(Note{Kind: NoteSequenceForgotten, Stream: st.ID})
	return true
}

// rejectHeld makes dead letters of the messages that a key holds.
func (s *Machine) rejectHeld(m *step, src *Source) {
	for i := range src.Held {
		h := &src.Held[i]
		m.p.HeldBytes -= h.byteSize()
		m.fx.Parked--
		m.addDeadLetter(&h.msg, wire.ReasonStreams, fmt.Errorf("pipeline: the message waited for number %d of key %q, and partition %d has more streams than max_streams: the key was forgotten, of those that were silent longest", src.Last+1, src.Key, m.p.ID))
	}
	src.Held = nil
}
