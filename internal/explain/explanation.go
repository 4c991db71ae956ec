package explain

import (
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/internal/replay"
)

// Explanation explains a prediction.
type Explanation struct {
	Prediction Prediction    `json:"prediction"`
	Commit     Commit        `json:"commit"`
	Readout    Readout       `json:"readout"`
	Samples    *Samples      `json:"samples,omitempty"` // nil: not in the log
	Again      Recomputation `json:"computed_again"`
	Score      *Score        `json:"score,omitempty"`         // contributions; nil: the prediction could not be recomputed
	Segments   *SegmentScore `json:"segment_score,omitempty"` // instead of Score, for a readout that reads segments
	Held       []HeldChannel `json:"channel_held,omitempty"`
	Stretches  []Stretch     `json:"stretch_held,omitempty"`
	HeldWhy    string        `json:"channel_held_missing,omitempty"` // reason for missing Held and Stretches
	Values     []float32     `json:"-"`                              // consecutive samples at the network's input, channels as in Held; nil: incomplete
}

// Prediction is a prediction of the output.
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

// Commit is the message with the prediction.
type Commit struct {
	Output    uint64    `json:"output"` // number in the job's output
	Stored    time.Time `json:"stored"`
	Partition int       `json:"partition"`
	Index     int       `json:"index"`  // in the message, from 1
	Of        int       `json:"of"`     // number of predictions in the message
	Number    uint64    `json:"number"` // in the partition, from 1
	InSeq     uint64    `json:"in_seq"` // input up to this message is answered
	Worker    string    `json:"worker"`
	Epoch     uint64    `json:"epoch"` // number of claims of the partition before
}

// Readout is the readout that computed the scores.
type Readout struct {
	Fingerprint string          `json:"fingerprint"`
	First       bool            `json:"first"` // the job's first readout
	Model       string          `json:"model"`
	SHA256      string          `json:"sha256"` // of the model
	Network     string          `json:"network"`
	Entry       *registry.Entry `json:"entry,omitempty"` // in the job's registry
	Promotion   *wire.Promotion `json:"promotion,omitempty"`
}

// Samples are the samples of the sequence up to the prediction.
type Samples struct {
	Count   int64      `json:"count"` // before the front end
	Whole   bool       `json:"whole"` // false: the sequence started before the first message read
	From    *time.Time `json:"from,omitempty"`
	To      *time.Time `json:"to,omitempty"`
	By      uint64     `json:"by"` // input message that caused the prediction
	ByTime  time.Time  `json:"by_stored"`
	Inputs  []Input    `json:"inputs,omitempty"` // messages with the samples, in sample order
	Missing bool       `json:"inputs_incomplete,omitempty"`
}

// Input is an input message's part of a sequence.
type Input struct {
	Message uint64     `json:"message"`
	Row     uint32     `json:"row"` // of the first sample
	Samples uint32     `json:"samples"`
	From    *time.Time `json:"from,omitempty"`
	To      *time.Time `json:"to,omitempty"`
}

// Recomputation is the result of recomputing the prediction.
type Recomputation struct {
	Found bool   `json:"found"` // the log has this prediction
	Same  bool   `json:"same"`  // bit-identical scores
	Why   string `json:"why,omitempty"`

	Class        string    `json:"class,omitempty"`
	Scores       []float32 `json:"scores,omitempty"`
	OtherFlags   bool      `json:"other_flags"`
	Flags        string    `json:"flags,omitempty"`
	OtherReadout bool      `json:"other_readout"` // by the log, another readout should have answered

	Begins   uint64 `json:"log_begins"` // first existing input message
	Snapshot string `json:"snapshot,omitempty"`
	After    uint64 `json:"snapshot_after,omitempty"` // the snapshot's state is after this input message
	Messages uint64 `json:"messages_read"`

	// Broken: all required data exists, but the result differs.
	Broken bool `json:"broken"`

	otherInput    bool
	replacedAfter uint64 // see networkReplacedAfter
}

// describe returns the data of the output and the registry.
func describe(f *Found, m *predictionModel) *Explanation {
	p, r := &f.Prediction, &f.record
	e := &Explanation{
		Prediction: Prediction{
			Stream: p.Stream, Seq: p.Seq, Row: p.Row, Time: predictionTime(p.Time), Class: f.Meta.Labels[p.Class], Score: p.Score,
			Probability: p.Probability, Scores: p.Scores, Classes: f.Meta.Labels, Flags: p.Flags.String(), Integrity: p.Flags.Integrity(),
		},
		Commit: Commit{
			Output: f.Output, Stored: f.Stored.UTC(), Partition: f.Partition, Index: f.Index + 1, Of: f.Of, Number: f.Number,
			InSeq: r.InSeq, Worker: r.Worker, Epoch: r.Epoch,
		},
		Readout: Readout{
			Fingerprint: m.name, First: m.first, Model: f.Meta.Model, SHA256: f.Meta.SHA256, Network: r.Network, Entry: m.entry, Promotion: m.promotion,
		},
	}
	if m.entry != nil && !m.first {
		e.Readout.Model, e.Readout.SHA256 = m.entry.Model, m.entry.SHA256
	}
	return e
}

// samplesOf returns the samples of a sequence of the log.
func samplesOf(q *replay.Sequence) *Samples {
	s := &Samples{
		Count: q.Samples, Whole: q.Whole, From: predictionTime(q.Earliest), To: predictionTime(q.Latest), By: q.In, ByTime: time.Unix(0, q.Stored).UTC(),
		Missing: q.Kept.More || !q.Whole,
	}
	for _, p := range q.Kept.Parts {
		s.Inputs = append(s.Inputs, Input{p.Message, p.Row, p.Samples, predictionTime(p.Earliest), predictionTime(p.Latest)})
	}
	return s
}
