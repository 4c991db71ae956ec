// Package track advances the sequences of a stream: start and end of sequences,
// replacement of missing values, the model's front end, the limits of the training data,
// sampling rates, and the resulting flags of each prediction.
//
// The live stage and the offline cutter share the package, so that a stream has the same
// sequences, samples and flags in both. The package depends neither on the states of the
// network nor on the scores of a prediction.
package track

import (
	"math"
	"slices"
	"sort"

	"github.com/eusn-stream/eusn-stream/internal/monitor"
	"github.com/eusn-stream/eusn-stream/internal/sequence"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Rules are the inputs of a stream's sequences besides its samples: settings of the model
// and the configuration.
type Rules struct {
	Policy   reservoir.Policy
	Channels int
	Mean     []float32 // replaces a missing value at the start of a sequence, with Hold; one per channel
	Hold     bool      // the previous value of the channel replaces a missing one; else zero
	Front    *reservoir.Front
	Training reservoir.Training

	RateTolerance float64 // tolerated difference of sampling rates, as a share; no state depends on it
}

// Track is the state of a stream's sequences between two messages.
type Track struct {
	Seq      sequence.Sequencer
	Flags    []outcome.Flag // of the samples so far, per state of the policy
	Since    outcome.Flag   // events after the last sample
	LastTime int64          // of the last sample, ns; monitor.NoTime: unknown
	Sample   []float32      // the last sample, with Hold; empty: unknown
	Channels []monitor.Channel
	Clocks   []monitor.Clock // per state; nil: the model has no sampling rate
	Front    []float64       // state of the front end; nil: there is none
}

// Piece is a part of a stream's samples for one state, with the properties of its
// sequence after the part.
type Piece struct {
	sequence.Cut
	RowFrom, RowTo int32         // the rows of the samples after the front end
	Flags          outcome.Flag  // of the sequence; if Emit, of the prediction
	Unlike         outcome.Flag  // signs of this piece: FlagOutOfRange, FlagFlat
	Time           int64         // of the last sample of the sequence, ns; monitor.NoTime: unknown
	Clock          monitor.Clock // of the sequence; zero without clocks
	Statistics     []float32     // if Emit: of the front end's output (reservoir.Front.Statistics); empty: none
}

// Samples returns the length of the sequence up to the end of the piece.
func (p *Piece) Samples() int64 { return p.Age + int64(p.To-p.From) }

// Tracker advances streams under the same rules. It belongs to one goroutine.
type Tracker struct {
	Rules
	limits *monitor.Limits
	rate   monitor.Rate
	front  *sequence.Front // nil: none

	// scratch
	cuts   []sequence.Cut
	pieces []Piece
	found  monitor.Findings
}

// NewTracker returns a Tracker for streams under the given rules.
func NewTracker(r Rules) *Tracker {
	return &Tracker{
		Rules: r, limits: monitor.NewLimits(r.Channels, r.Training.Inputs), rate: monitor.NewRate(r.Training, r.RateTolerance),
		front: sequence.NewFront(r.Front, r.Policy, r.Channels),
	}
}

// New returns the state of a stream without samples: states of the policy,
// channels, numbers of the front end's state. timed adds clocks.
func New(states, channels, front int, timed bool) Track {
	tr := Track{Flags: make([]outcome.Flag, states), LastTime: monitor.NoTime, Channels: make([]monitor.Channel, channels)}
	if timed {
		tr.Clocks = make([]monitor.Clock, states)
	}
	if front > 0 {
		tr.Front = make([]float64, front)
	}
	return tr
}

// NewTrack returns the state of a stream without samples under t's rules. timed
// adds clocks.
func (t *Tracker) NewTrack(timed bool) Track {
	return New(t.Policy.States(), t.Channels, t.front.StateSize(), timed)
}

// RowsBefore returns the number of rows that the front end has made of the first r
// samples of the last call of Feed.
func (t *Tracker) RowsBefore(r int) int { return int(t.front.RowsBefore(int32(r))) }

// Samples are the next samples of a stream.
type Samples struct {
	sequence.Samples
	// X has the values, Count rows of Channels values. Feed replaces X by the network's
	// input. If only the cuts are of interest, X is empty.
	X []float32
	// Missing are the indices of missing values in X, ascending. These values are NaN.
	Missing []int32
	// Flags are the events before each sample, one per sample, or none. In a stream of
	// messages, Track.Since has the events before the first sample.
	Flags []outcome.Flag
}

// Feed advances a stream by samples. It returns the pieces in the order of the network's
// input, valid until the next call, and the number of rows of X after the front end.
func (t *Tracker) Feed(tr *Track, s Samples) (pieces []Piece, rows int) {
	for i := range tr.Flags {
		tr.Flags[i] |= tr.Since
	}
	before := tr.Seq.N
	t.cuts = tr.Seq.Cut(t.cuts[:0], &t.Policy, s.Samples)
	rows = t.transformSamples(tr, s, before)
	t.pieces = t.pieces[:0]
	for i, c := range t.cuts {
		t.pieces = append(t.pieces, t.advance(tr, &s, i, c))
	}
	if s.Count > 0 {
		tr.Since, tr.LastTime = 0, monitor.NoTime
		if len(s.Times) > 0 {
			tr.LastTime = s.Times[s.Count-1]
		}
	}
	return t.pieces, rows
}

// EndSilent ends the open sequence of a silent stream. It returns the pieces, none if the
// policy makes no prediction: then the next sample starts a sequence like the stream's
// first sample.
func (t *Tracker) EndSilent(tr *Track, happened outcome.Flag) []Piece {
	t.cuts = tr.Seq.Silence(t.cuts[:0], &t.Policy)
	if len(t.cuts) == 0 {
		clear(tr.Flags)
		tr.Sample = tr.Sample[:0]
		return nil
	}
	for i := range tr.Flags {
		tr.Flags[i] |= tr.Since | happened | outcome.FlagIdle
	}
	var none Samples
	t.transformSamples(tr, none, 0)
	t.pieces = t.pieces[:0]
	for i, c := range t.cuts {
		t.pieces = append(t.pieces, t.advance(tr, &none, i, c))
	}
	return t.pieces
}

// transformSamples replaces missing values and runs the front end. before is the
// sequencer's count before the samples.
func (t *Tracker) transformSamples(tr *Track, s Samples, before int64) (rows int) {
	if s.Count > 0 && len(s.X) == 0 {
		return t.front.Place(before, t.cuts, s.Count)
	}
	t.limits.Watch(tr.Channels, s.X, &t.found)
	if len(s.Missing) > 0 {
		t.fillMissing(tr, s)
	}
	if s.Count > 0 {
		tr.Sample = tr.Sample[:0]
		if t.Hold {
			tr.Sample = append(tr.Sample, s.X[len(s.X)-t.Channels:]...)
		}
	}
	if t.front == nil {
		return s.Count
	}
	t.limits.WatchRegimes(t.Front.Regimes, s.X, &t.found)
	return t.front.Run(tr.Front, before, t.cuts, s.X)
}

// fillMissing replaces each missing value: by zero, or, with Hold, by the stream's
// previous value of the channel. A sequence does not use values of the previous sequence:
// at its start the value is the mean of the training data, which standardization turns
// into 0, as in training. Windows overlap, so there only the stream's first sample has no
// previous value.
func (t *Tracker) fillMissing(tr *Track, s Samples) {
	for _, m := range s.Missing {
		row, ch := int(m)/t.Channels, int(m)%t.Channels
		switch {
		case !t.Hold:
			s.X[m] = 0
		case t.beginsAt(row) || row == 0 && len(tr.Sample) == 0:
			s.X[m] = t.Mean[ch]
		case row == 0:
			s.X[m] = tr.Sample[ch]
		default:
			s.X[m] = s.X[int(m)-t.Channels]
		}
	}
}

// beginsAt reports whether a sequence begins at a row of the samples.
func (t *Tracker) beginsAt(row int) bool {
	return t.Policy.Kind != reservoir.Window &&
		slices.ContainsFunc(t.cuts, func(c sequence.Cut) bool { return c.Reset && int(c.From) == row && c.To > c.From })
}

// advance makes the piece of the cut with index i, and updates flags and clock of its state.
func (t *Tracker) advance(tr *Track, s *Samples, i int, c sequence.Cut) Piece {
	flags := &tr.Flags[c.Phase]
	if c.Reset && t.Policy.Kind == reservoir.Window {
		*flags = 0 // a new window misses nothing
	}
	if len(s.Flags) > 0 {
		*flags |= t.eventFlags(s, c)
	}
	if t.hasFilled(s, c) {
		*flags |= outcome.FlagHeld
	}
	p := Piece{Cut: c, RowFrom: t.front.RowsBefore(c.From), RowTo: t.front.RowsBefore(c.To), Time: tr.timeAfter(s, c), Unlike: t.unlikeFlags(c)}
	*flags |= p.Unlike
	if tr.Clocks != nil {
		tr.watchTimes(s, c)
		p.Clock = tr.Clocks[c.Phase]
	}
	p.Flags = *flags
	if c.Emit {
		p.Flags |= t.predictionFlags(tr, s, &p)
		p.Statistics = t.front.Statistics(i)
		if tr.Clocks != nil && t.Policy.Kind == reservoir.Endless {
			tr.Clocks[c.Phase].Begin(p.Time) // the sequence never ends: the rate is measured since the previous prediction
		}
	}
	if c.End {
		*flags = 0
		if c.To == 0 && s.Count > 0 {
			*flags = tr.Since // data lost in the silence may belong to either side
		}
	}
	return p
}

// unlikeFlags returns the signs that a cut's samples differ from the training data.
func (t *Tracker) unlikeFlags(c sequence.Cut) (f outcome.Flag) {
	outside, flat := t.found.In(int(c.From), int(c.To), c.Age)
	if outside {
		f |= outcome.FlagOutOfRange
	}
	if flat {
		f |= outcome.FlagFlat
	}
	return f
}

// predictionFlags returns the flags of a prediction besides the flags of its samples.
func (t *Tracker) predictionFlags(tr *Track, s *Samples, p *Piece) (f outcome.Flag) {
	if !p.End {
		f |= outcome.FlagEarly
		if t.Policy.Kind == reservoir.Window && tr.Seq.N-int64(s.Count)+int64(p.To) < int64(t.Policy.Length) {
			f |= outcome.FlagWarmUp
		}
	}
	if t.Training.Unlike(p.Samples(), !p.End) {
		f |= outcome.FlagLength
	}
	if tr.Clocks != nil && t.rate.IsOff(&tr.Clocks[p.Phase], p.Time) {
		f |= outcome.FlagRate
	}
	return f
}

// eventFlags returns the flags of the events before a cut's samples. A new window misses
// nothing; data lost in a silence may belong to either side.
func (t *Tracker) eventFlags(s *Samples, c sequence.Cut) (f outcome.Flag) {
	from := c.From
	if c.Reset && t.Policy.Kind == reservoir.Window {
		from++
	}
	for r := from; r < c.To; r++ {
		f |= s.Flags[r]
	}
	marked := c.To > 0 && len(s.Ends) > 0 && s.Ends[c.To-1]
	if c.End && t.Policy.Kind == reservoir.Gap && int(c.To) < len(s.Flags) && !marked {
		f |= s.Flags[c.To]
	}
	return f
}

// hasFilled reports whether a value of the cut's rows was missing.
func (t *Tracker) hasFilled(s *Samples, c sequence.Cut) bool {
	if len(s.Missing) == 0 {
		return false
	}
	at := sort.Search(len(s.Missing), func(k int) bool { return s.Missing[k] >= c.From*int32(t.Channels) })
	return at < len(s.Missing) && s.Missing[at] < c.To*int32(t.Channels)
}

// Began returns the time of the first sample of a piece's sequence, ns; monitor.NoTime if
// unknown. Under policy endless the time is unknown, because the clock restarts with each
// prediction.
func (t *Tracker) Began(tr *Track, p *Piece) int64 {
	if tr.Clocks == nil || t.Policy.Kind == reservoir.Endless {
		return monitor.NoTime
	}
	return p.Clock.Began()
}

// FirstUnlike returns the first channel with a sign in the last samples, if a piece has
// Unlike.
func (t *Tracker) FirstUnlike() int { return t.found.Channel() }

// watchTimes adds the times of a cut's samples to the clock of its state.
func (tr *Track) watchTimes(s *Samples, c sequence.Cut) {
	clock, from := &tr.Clocks[c.Phase], c.From
	switch {
	case c.From == c.To:
		return
	case len(s.Times) == 0:
		clock.Lose()
		return
	case c.Reset:
		clock.Begin(s.Times[from])
		from++
	}
	before := tr.LastTime
	if from > 0 {
		before = s.Times[from-1]
	}
	clock.AddTimes(s.Times[from:c.To], before)
}

// timeAfter returns the time of the last sample of a cut, or of the previous sample if
// the cut is empty.
func (tr *Track) timeAfter(s *Samples, c sequence.Cut) int64 {
	switch {
	case c.To == 0:
		return tr.LastTime
	case len(s.Times) == 0:
		return monitor.NoTime
	}
	return s.Times[c.To-1]
}

// AppendMissing appends the indices of the NaNs in x.
func AppendMissing(dst []int32, x []float32) []int32 {
	for i, v := range x {
		if math.IsNaN(float64(v)) {
			dst = append(dst, int32(i))
		}
	}
	return dst
}
