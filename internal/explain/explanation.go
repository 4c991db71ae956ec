package explain

import (
	"time"

	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// Explanation is how a prediction came about.
type Explanation struct {
	Prediction Prediction `json:"prediction"`
	Commit     Commit     `json:"commit"`
	Readout    Readout    `json:"readout"`
	Samples    *Samples   `json:"samples,omitempty"` // nil: the log does not have them
	Again      Again      `json:"computed_again"`
	Score      *Score     `json:"score,omitempty"` // what made it; nil: it could not be computed again
	Held       []Held     `json:"channel_held,omitempty"`
	Stretches  []Stretch  `json:"stretch_held,omitempty"`
	HeldWhy    string     `json:"channel_held_missing,omitempty"` // why there is nothing of both
	Values     []float32  `json:"-"`                              // samples as the network got them, one after the other, channels as in Held; nil: not all are known
}

// Prediction is what the output says.
type Prediction struct {
	Stream      string     `json:"stream"`
	Seq         uint64     `json:"seq"`
	Row         uint32     `json:"row"`
	Time        *time.Time `json:"time"`
	Class       string     `json:"class"`
	Score       float32    `json:"score"`
	Probability float32    `json:"probability,omitempty"`
	Scores      []float32  `json:"scores,omitempty"`
	Classes     []string   `json:"classes"`
	Flags       string     `json:"flags"`
	Integrity   string     `json:"integrity"`
}

// Commit is the message that brought the prediction.
type Commit struct {
	Output    uint64    `json:"output"` // its number in the job's output
	Stored    time.Time `json:"stored"`
	Partition int       `json:"partition"`
	Index     int       `json:"index"`  // of the message's predictions, from 1
	Of        int       `json:"of"`     // predictions in the message
	Number    uint64    `json:"number"` // of the partition's predictions, from 1
	InSeq     uint64    `json:"in_seq"` // input up to this message is answered with it
	Worker    string    `json:"worker"`
	Epoch     uint64    `json:"epoch"` // how often the partition had been claimed
}

// Readout is what made the scores of the states.
type Readout struct {
	Fingerprint string              `json:"fingerprint"`
	First       bool                `json:"first"` // the job began with it
	Model       string              `json:"model"`
	SHA256      string              `json:"sha256"` // of the model
	Network     string              `json:"network"`
	Entry       *registry.Entry     `json:"entry,omitempty"` // in the job's registry
	Promotion   *pipeline.Promotion `json:"promotion,omitempty"`
}

// Samples are those of the sequence, as far as the prediction.
type Samples struct {
	Count   int64      `json:"count"` // as they came in
	Whole   bool       `json:"whole"` // false: the sequence began before what was read
	From    *time.Time `json:"from,omitempty"`
	To      *time.Time `json:"to,omitempty"`
	By      uint64     `json:"by"` // the input message that led to the prediction
	ByTime  time.Time  `json:"by_stored"`
	Inputs  []Input    `json:"inputs,omitempty"` // the messages that hold the samples, in the samples' order
	Missing bool       `json:"inputs_incomplete,omitempty"`
}

// Input is an input message's part of a sequence.
type Input struct {
	Message uint64     `json:"message"`
	Row     uint32     `json:"row"` // of the first of the samples
	Samples uint32     `json:"samples"`
	From    *time.Time `json:"from,omitempty"`
	To      *time.Time `json:"to,omitempty"`
}

// Again is what came of computing the prediction once more.
type Again struct {
	Found bool   `json:"found"` // the log gives such a prediction
	Same  bool   `json:"same"`  // its scores are the same bits
	Why   string `json:"why,omitempty"`

	Class        string    `json:"class,omitempty"`
	Scores       []float32 `json:"scores,omitempty"`
	OtherFlags   bool      `json:"other_flags"`
	Flags        string    `json:"flags,omitempty"`
	OtherReadout bool      `json:"other_readout"` // by the log, another one should have answered

	Begins   uint64 `json:"log_begins"` // the first input message that there is
	Snapshot string `json:"snapshot,omitempty"`
	After    uint64 `json:"snapshot_after,omitempty"` // it holds the state after this input message
	Messages uint64 `json:"messages_read"`

	// Broken: all that the computing needs is there, and it does not come out as it was.
	Broken bool `json:"broken"`

	otherInput bool
	replaced   uint64 // see replaced
}

// describe is what the output and the registry say.
func describe(f *Found, m *models) *Explanation {
	p, r := &f.Prediction, &f.record
	e := &Explanation{
		Prediction: Prediction{
			Stream: p.Stream, Seq: p.Seq, Row: p.Row, Time: when(p.Time), Class: f.Meta.Labels[p.Class], Score: p.Score,
			Probability: p.Probability, Scores: p.Scores, Classes: f.Meta.Labels, Flags: p.Flags.String(), Integrity: p.Flags.Integrity(),
		},
		Commit: Commit{
			Output: f.Output, Stored: f.Stored.UTC(), Partition: f.Partition, Index: f.Index + 1, Of: f.Of, Number: f.Number,
			InSeq: r.InSeq, Worker: r.Worker, Epoch: r.Epoch,
		},
		Readout: Readout{
			Fingerprint: m.name, First: m.first, Model: f.Meta.Model, SHA256: f.Meta.SHA256, Network: r.Network, Entry: m.entry, Promotion: m.took,
		},
	}
	if m.entry != nil && !m.first {
		e.Readout.Model, e.Readout.SHA256 = m.entry.Model, m.entry.SHA256
	}
	return e
}

// samplesOf are those of a sequence of the log.
func samplesOf(q *replay.Sequence) *Samples {
	s := &Samples{
		Count: q.Samples, Whole: q.Whole, From: when(q.Earliest), To: when(q.Latest), By: q.In, ByTime: time.Unix(0, q.Stored).UTC(),
		Missing: q.Kept.More || !q.Whole,
	}
	for _, p := range q.Kept.Parts {
		s.Inputs = append(s.Inputs, Input{p.Message, p.Row, p.Samples, when(p.Earliest), when(p.Latest)})
	}
	return s
}
