package shard

import (
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// order is what a job asks a shard to do.
type order uint8

const (
	orderMessage order = iota // take an input message
	OrderOpen                 // take over a partition as its snapshot left it
	OrderTick                 // commit and snapshot a partition, if it is time
	OrderClose                // give a partition up
)

// Job is one input message, or an order, on its way to a shard.
type Job struct {
	Part  *Partition
	Order order
	Msg   state.Message
}

// Batch is what one engine call works on, with the way to answer it: the
// predictions of each partition and the input they answer. A shard fills it,
// its emitter publishes it and hands it back; nothing is allocated once
// the slices have grown.
type Batch struct {
	messages int // taken from the queue, repeats included
	full     bool
	Fx       state.Effects // samples, and what the messages led to but predictions
	runs     []reservoir.Run
	scores   []float32
	sets     []int32
	inputs   []float32
	emits    []emit // one per emitting run, in order
	Answers  []Answer
	Touched  []int // indices of answers in use, in order of first message
	Dead     []rejected
	Shadows  []Shadow  // those whose scores the answers have
	Refused  []Shadow  // those that the engine has not taken beside the readouts that answer
	carried  int       // bytes of features in the answers
	traced   bool      // some of its messages are
	Computed time.Time // when it was, of one with traced messages
}

// rejected is a dead letter of a partition.
type rejected struct {
	state.DeadLetter
	Part *Partition
}

// emit says where a score row goes, and which of the readouts makes it.
type emit struct {
	part, index, readout int
	slot                 int32
	carry                bool // it carries its features
	whole                bool // it is of a whole sequence: detectors say how novel
}

// Answer is what a batch has to say on one partition.
type Answer struct {
	Part   *Partition
	InSeq  uint64 // last input message of the partition in the batch
	InTime int64  // when it was stored, ns
	state.Predictions
	Dead     bool // one of the input messages is a dead letter
	Commit   bool // the position is due, whatever there is to say
	Tick     bool // the position is due if its owner has something to say
	Close    bool // the partition's last answer
	touched  bool
	Messages int           // input messages taken into account, repeats and replayed ones included
	Digest   wire.Digest   // of the state after inSeq
	Losses   string        // since the snapshot in the record
	Promoted wire.Promoted // of the state after inSeq; Known is left to the owner
	Snapshot []byte        // of that state, where one is due
	// Shadow are the scores of Batch.Shadows, and behind each one's its novelty, those of
	// each prediction together.
	Shadow []float32
	// Carried are the predictions that carry their features, in order.
	Carried  []Carried
	features []float32
	Traced   []Traced // the messages that are, in order
}

// NewBatch makes the batch of a shard with so many partitions.
func NewBatch(partitions int) *Batch { return &Batch{Answers: make([]Answer, partitions)} }

// Reset empties the batch, which keeps its room.
func (b *Batch) Reset() {
	for _, i := range b.Touched {
		a := &b.Answers[i]
		clear(a.Traced)
		*a = Answer{Predictions: a.WithoutRows(), Shadow: a.Shadow[:0], Carried: a.Carried[:0], features: a.features[:0], Traced: a.Traced[:0]}
	}
	clear(b.Dead) // let the messages go
	clear(b.Fx.Dead)
	*b = Batch{
		Fx:   state.Effects{X: b.Fx.X[:0], Runs: b.Fx.Runs[:0], Extents: b.Fx.Extents[:0], Dead: b.Fx.Dead[:0], Notes: b.Fx.Notes[:0]},
		runs: b.runs[:0], scores: b.scores[:0], sets: b.sets[:0], inputs: b.inputs[:0], emits: b.emits[:0],
		Answers: b.Answers, Touched: b.Touched[:0], Dead: b.Dead[:0],
	}
}

// answerOf is the batch's answer on a partition, taken into use.
func (b *Batch) answerOf(p *Partition) *Answer {
	a := &b.Answers[p.index]
	if !a.touched {
		a.touched, a.Part = true, p
		b.Touched = append(b.Touched, p.index)
	}
	return a
}

// ShadowScores are those of a shadow, of so many, for a prediction of the answer, and
// the novelty that it gives the sequence, where it has a detector.
func (a *Answer) ShadowScores(shadows, shadow, prediction int) (scores []float32, novelty float32) {
	columns := len(a.Preds[prediction].Scores)
	all := a.Shadow[(prediction*shadows+shadow)*(columns+1):]
	return all[:columns], all[columns]
}

// FeaturesOf are those of a prediction that carries them, n of them.
func (a *Answer) FeaturesOf(c Carried, n int) []float32 { return a.features[c.features:][:n:n] }

// Messages is how many messages and orders the batch has, repeats included.
func (b *Batch) Messages() int { return b.messages }
