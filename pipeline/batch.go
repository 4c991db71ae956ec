package pipeline

import (
	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// order is what a job asks a shard to do.
type order uint8

const (
	orderMessage order = iota // take an input message
	orderOpen                 // take over a partition as its snapshot left it
	orderTick                 // commit and snapshot a partition, if it is time
	orderClose                // give a partition up
)

// job is one input message, or an order, on its way to a shard.
type job struct {
	part  *partition
	order order
	msg   state.Message
}

// batch is what one engine call works on, with the way to answer it: the
// predictions of each partition and the input they answer. A shard fills it,
// its emitter publishes it and hands it back; nothing is allocated once
// the slices have grown.
type batch struct {
	messages int // taken from the queue, repeats included
	full     bool
	fx       state.Effects // samples, and what the messages led to but predictions
	runs     []reservoir.Run
	scores   []float32
	emits    []emit // one per emitting run, in order
	answers  []answer
	touched  []int // indices of answers in use, in order of first message
	dead     []rejected
}

// rejected is a dead letter of a partition.
type rejected struct {
	state.DeadLetter
	part *partition
}

// emit says where a score row goes.
type emit struct{ part, index int }

// answer is what a batch has to say on one partition.
type answer struct {
	part   *partition
	inSeq  uint64 // last input message of the partition in the batch
	inTime int64  // when it was stored, ns
	state.Predictions
	dead     bool // one of the input messages is a dead letter
	commit   bool // the position is due, whatever there is to say
	tick     bool // the position is due if its owner has something to say
	close    bool // the partition's last answer
	touched  bool
	messages int         // input messages taken into account, repeats and replayed ones included
	digest   wire.Digest // of the state after inSeq
	losses   string      // since the snapshot in the record
	snapshot []byte      // of that state, where one is due
}

func newBatch(partitions int) *batch { return &batch{answers: make([]answer, partitions)} }

func (b *batch) reset() {
	for _, i := range b.touched {
		a := &b.answers[i]
		*a = answer{Predictions: state.Predictions{Preds: a.Preds[:0], At: a.At[:0], Stored: a.Stored[:0]}}
	}
	clear(b.dead) // let the messages go
	clear(b.fx.Dead)
	*b = batch{
		fx:   state.Effects{X: b.fx.X[:0], Runs: b.fx.Runs[:0], Dead: b.fx.Dead[:0], Notes: b.fx.Notes[:0]},
		runs: b.runs[:0], scores: b.scores[:0], emits: b.emits[:0],
		answers: b.answers, touched: b.touched[:0], dead: b.dead[:0],
	}
}

// answer is the batch's answer on a partition, taken into use.
func (b *batch) answer(p *partition) *answer {
	a := &b.answers[p.index]
	if !a.touched {
		a.touched, a.part = true, p
		b.touched = append(b.touched, p.index)
	}
	return a
}
