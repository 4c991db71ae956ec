package shard

import (
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// order is a request to a shard.
type order uint8

const (
	orderMessage order = iota // take an input message
	OrderOpen                 // install a partition from its snapshot
	OrderTick                 // commit and snapshot a partition, if due
	OrderClose                // give a partition up
)

// Job is an input message, or an order, for a shard.
type Job struct {
	Part  *Partition
	Order order
	Msg   state.Message
}

// Batch is the work of an engine call and the answer: the predictions of each partition
// and the input that the predictions answer. A shard fills the batch; its emitter
// publishes and returns the batch; grown slices are reused without allocation.
type Batch struct {
	messages int // taken from the queue, repeats included
	full     bool
	Fx       state.Effects // samples, and the effects of the messages other than predictions
	runs     []reservoir.Run
	scores   []float32
	sets     []int32
	inputs   []float32
	emits    []emit // one per emitting run, in order
	Answers  []Answer
	Touched  []int // indices of answers in use, in order of first message
	Dead     []rejected
	Shadows  []Shadow  // shadows whose scores the answers have
	Refused  []Shadow  // shadows that the engine did not accept in addition to the active readouts
	carried  int       // bytes of features in the answers
	traced   bool      // some messages are traced
	Computed time.Time // time of the computation, if messages are traced
}

// rejected is a dead letter of a partition.
type rejected struct {
	state.DeadLetter
	Part *Partition
}

// emit assigns a score row to a prediction and its readout.
type emit struct {
	part, index, readout int
	slot                 int32
	carry                bool // the prediction carries its features
	whole                bool // the prediction covers a whole sequence: detectors compute its novelty
}

// Answer is the result of a batch for one partition.
type Answer struct {
	Part   *Partition
	InSeq  uint64 // last input message of the partition in the batch
	InTime int64  // time at which the server stored the message, ns
	state.Predictions
	Dead     bool // one of the input messages is a dead letter
	Commit   bool // the position must be committed in any case
	Tick     bool // the position must be committed if its owner has something to record
	Close    bool // the partition's last answer
	touched  bool
	Messages int           // input messages processed, including repeated and replayed messages
	Digest   wire.Digest   // of the state after inSeq
	Losses   string        // since the snapshot in the record
	Promoted wire.Promoted // of the state after inSeq; Known is left to the owner
	Snapshot []byte        // of the state at InSeq, if a snapshot is due
	// Shadow holds, for each prediction, the scores of Batch.Shadows, each followed by
	// its novelty.
	Shadow []float32
	// Carried are the predictions that carry their features, in order.
	Carried  []Carried
	features []float32
	Traced   []Traced // traced messages, in order
}

// StatisticsOf returns the statistics of the samples of a prediction; empty: the front end
// computes none.
func (a *Answer) StatisticsOf(i int) []float32 {
	width := len(a.Statistics) / max(1, len(a.Preds))
	return a.Statistics[i*width : (i+1)*width]
}

// NewBatch makes the batch of a shard with the given number of partitions.
func NewBatch(partitions int) *Batch { return &Batch{Answers: make([]Answer, partitions)} }

// Reset empties the batch and keeps its memory.
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

// ShadowScores returns a shadow's scores for a prediction of the answer, and the
// novelty of the sequence if the shadow has a detector; shadows is the number of
// shadows.
func (a *Answer) ShadowScores(shadows, shadow, prediction int) (scores []float32, novelty float32) {
	columns := len(a.Preds[prediction].Scores)
	all := a.Shadow[(prediction*shadows+shadow)*(columns+1):]
	return all[:columns], all[columns]
}

// FeaturesOf returns the n features that a prediction carries.
func (a *Answer) FeaturesOf(c Carried, n int) []float32 { return a.features[c.features:][:n:n] }

// Messages is how many messages and orders the batch has, repeats included.
func (b *Batch) Messages() int { return b.messages }
