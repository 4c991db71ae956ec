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

// maxIncarnation is the longest Eusn-Incarnation, bytes: every source stores its
// incarnation, and a UUID or a time needs less than half.
const maxIncarnation = 128

// errRoom reports a partition full of open sequences, for a message without samples.
var errRoom = errors.New("pipeline: too many streams with open sequences")

// Rules are the inputs of a partition's state other than its messages: the model's and
// the configuration's rules.
type Rules struct {
	track.Rules
	Shape Shape

	MaxStreams            int             // streams that a partition remembers
	Reorder, ReorderBytes int             // held messages of a key, and bytes of held messages of a partition
	MaxKey                int             // bytes of a key; 0 = any number
	Keys                  *names.Patterns // patterns of allowed keys; nil: any key

	Events     string // the job named in end events for these states; see wire.IdleEvent
	Begun      string // creation time of the job's output: promotions of an earlier job with the same name are ignored
	OneReadout bool   // promotions in the log are passed over
}

// decoder reads the samples of a message.
type decoder interface {
	Decode(data []byte, to *codec.Batch) error
}

// Machine advances the states of partitions, one message at a time. A machine belongs
// to one goroutine; its result is a function of the rules, a partition's state and the
// message.
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

	// Extents makes runs report which samples they cover.
	Extents bool
	// Turn compares a message number with the received numbers. It is TurnOf, except in
	// tests that show the purpose of the comparison.
	Turn func(src *Source, n uint64) Turn

	// Taken, if set, receives the samples of each stream, in order.
	Taken func(*Taken)
}

// NewMachine makes a machine. The decoder's channels must be the rules'.
func NewMachine(r Rules, d decoder) *Machine {
	return &Machine{Rules: r, decoder: d, tracker: track.NewTracker(r.Rules), Turn: TurnOf}
}

// DecodedMessage returns the samples of the last decoded message.
func (s *Machine) DecodedMessage() *codec.Batch { return &s.in }

// step is a message in processing. The message's samples are in Machine.in.
type step struct {
	fx     *Effects
	out    *Predictions
	p      *Partition
	src    *Source
	seq    uint64 // Eusn-Seq, 0 without Eusn-Seq
	inSeq  uint64
	from   uint64 // the message that brought the samples; it may have been held
	stored int64  // time at which the server stored the message, ns
	silent bool   // the message was answered before
	asked  uint64 // held messages before this message precede the requested range
	end    bool
	flags  outcome.Flag // of this message's samples only
}

// addNote records an event of the current key.
func (m *step) addNote(n Note) {
	n.Input = m.inSeq
	if m.src != nil {
		n.Key = m.src.Key
	}
	m.fx.Notes = append(m.fx.Notes, n)
}

// Apply applies one message to a partition's state. Results are added to fx, and
// predictions, whose scores follow later, to out. An unusable message becomes a dead
// letter; an error stops the partition. During a replay after a restart, states advance
// without answers. A message that was applied before changes nothing.
func (s *Machine) Apply(p *Partition, j *Message, fx *Effects, out *Predictions) error {
	if j.Seq <= p.Done {
		return nil // an ordered consumer never goes back; the state must not go back either
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
	if !utf8.ValidString(j.Key) { // no reader could decode a prediction with this key
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

// flagLoss flags the streams that a loss before this message may have affected; before
// is the partition's previous message.
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
			continue // the message numbers show whether messages are missing
		}
		if src.lost&outcome.FlagGap == 0 {
			src.lost |= outcome.FlagGap
			p.touchSource(src)
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

// nameKey gives a key without streams a stream with the key's name, so that MaxStreams
// limits keys, too. A message without samples must not end a sequence if all are open:
// its key is then forgotten at once.
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

// orderMessage uses, holds or drops a message according to its number.
func (s *Machine) orderMessage(m *step, j *Message, isNew bool) error {
	src := m.src
	if err := wire.SpellHeaders(j.Header); err != nil {
		return s.rejectAndFlag(m, j, wire.ReasonHeader, err)
	}
	text := wire.Get(j.Header, wire.HeaderSeq)
	if text == "" {
		if isNew && m.p.lossy {
			src.lost |= outcome.FlagGap
		}
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
	src.noteArrived(n, j.Data) // even if the message is unusable: the message has arrived
	if err := s.useMessage(m, j, n); err != nil {
		return err
	}
	return s.useHeld(m, outcome.FlagReordered)
}

// countContradiction reports a repeated number with other content: a producer restarted
// its numbers without a new incarnation, or two producers use one key. Such messages
// are dropped.
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

// useMessage passes a message that is in order to its streams, or to the dead letters.
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

// compareTimes counts samples whose times are far from the time at which the server
// stored their message, and notes the first such sample of each key.
func (s *Machine) compareTimes(m *step, j *Message) {
	n, first := wire.CountFarTimes(s.in.Times, j.Stored)
	m.fx.FarTimes += uint64(n)
	if n > 0 && !m.src.toldTimes {
		m.src.toldTimes = true
		m.addNote(Note{Kind: NoteFarTimes, Time: first, Stored: j.Stored})
	}
}

// rejectAndFlag turns a message into a dead letter. The affected streams may be
// unknown, so all streams of the source are flagged.
func (s *Machine) rejectAndFlag(m *step, j *Message, why wire.Reason, err error) error {
	m.p.raiseFlag(m.src, outcome.FlagPoisonSkipped)
	m.addDeadLetter(j, why, err)
	return nil
}

// addDeadLetter adds a message to the dead letters, except in a replay.
func (m *step) addDeadLetter(j *Message, why wire.Reason, err error) {
	if m.silent {
		return
	}
	if j.Seq == m.inSeq {
		m.fx.Used--
	}
	m.fx.Dead = append(m.fx.Dead, DeadLetter{Msg: *j, Why: why, Reason: wire.OneLine(err.Error())})
}

// findStream finds or creates a stream of a source, and marks the stream as just heard.
// In a full partition, a new stream takes the place of another stream; a stream with an
// open sequence is replaced only if mayEnd.
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

// oldestStreams is the number of streams of a full partition, from the stream silent
// longest, that are searched for a stream between two sequences. The number is small,
// so that a flood of new names costs little per name and affects no stream in use.
const oldestStreams = 64

// makeRoom forgets a stream of a full partition: among the streams silent longest, a
// stream between two sequences; otherwise, if mayEnd, the stream silent longest, whose
// open sequence is lost. So invented names displace each other instead of streams in
// use: with MaxStreams streams, a stream is forgotten after MaxStreams other streams
// were heard. The loss is known later: keys unknown to the partition from then on are
// flagged FlagGap. makeRoom reports whether there is room.
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

// rejectHeld turns the held messages of a key into dead letters.
func (s *Machine) rejectHeld(m *step, src *Source) {
	for i := range src.Held {
		h := &src.Held[i]
		m.p.HeldBytes -= h.byteSize()
		m.fx.Parked--
		m.addDeadLetter(&h.msg, wire.ReasonStreams, fmt.Errorf("pipeline: the message waited for number %d of key %q, and partition %d has more streams than max_streams: the key was forgotten, of those that were silent longest", src.Last+1, src.Key, m.p.ID))
	}
	src.Held = nil
}
