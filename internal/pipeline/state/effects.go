package state

import (
	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Effects are the results of messages, in order, for any partition. The caller takes
// runs, dead letters, notes and the tally from Effects.
type Effects struct {
	X                        []float32 // samples of all runs, row by row, after the front end
	Samples                  int       // input samples before the front end
	Runs                     []Run
	Extents                  []Extent // of the runs without Drop, if Machine.Extents is set
	Dead                     []DeadLetter
	Notes                    []Note
	Used, Rows, Bytes, Early int // messages used, their samples and bytes, early predictions; replays do not count
	Tally
}

// Run is an engine operation on the row of one state of a stream. A run with Emit makes
// the next prediction.
type Run struct {
	Stream      *Stream
	Phase       int32 // index of the state in the stream
	Reset, Emit bool
	End         bool  // the sequence has ended: the row is no longer needed
	Open        bool  // a sequence of the stream is open after the samples that the run was cut from
	Drop        bool  // nothing but this: no row of the stream means anything any more
	From, To    int32 // rows of effects.x
}

// Extent says which samples a run covers.
type Extent struct {
	Before, Last     Place // the stream's sample before the run's first (zero: not known), and the run's last
	Samples          int64 // input samples of the sequence up to the run's end
	Earliest, Latest int64 // times of the run's samples; codec.NoTime: a sample has no time

	Message         uint64 // the input message that holds the run's samples
	FirstRow, Count uint32 // index of the first sample in the message, and number of samples
}

// Place is the position of a sample, in the order in which samples reach the stream.
type Place struct {
	In  uint64 // input message that released the sample
	Seq uint64 // Eusn-Seq of the sample's message, 0 without Eusn-Seq
	Row uint32 // index in the message
}

// Predictions are predictions of one partition.
type Predictions struct {
	Preds  []codec.Prediction // in order of input
	At     []uint64           // the input message each belongs to, ascending
	Stored []int64            // time at which the server stored the message, ns
	Began  []int64            // time of the sequence's first sample, ns; codec.NoTime: unknown, or times went backwards
	Length []int64            // input samples of the sequence

	Statistics []float32 // of the samples (track.Piece.Statistics), equally many of each prediction
}

// WithoutRows returns p without predictions; the memory is reused.
func (p Predictions) WithoutRows() Predictions {
	return Predictions{Preds: p.Preds[:0], At: p.At[:0], Stored: p.Stored[:0], Began: p.Began[:0], Length: p.Length[:0], Statistics: p.Statistics[:0]}
}

// DeadLetter is an unusable input message.
type DeadLetter struct {
	Msg    Message
	Why    wire.Reason
	Reason string // a line
}

// Tally counts events.
type Tally struct {
	Duplicates, Contradictions, Gaps, Reordered, Incarnations uint64
	Missing, Losses, Forgotten, Idle, EndEvents               uint64
	Promotions                                                uint64
	FarTimes                                                  uint64 // samples with times far from when their messages were stored
	New                                                       uint64 // streams new to the partition
	Abandoned                                                 uint64 // open sequences of streams that made room
	Streams, Parked                                           int64  // more than before
}

// Note is an event to log for people.
type Note struct {
	Kind    NoteKind
	Key     string
	Stream  string
	Input   uint64       // message in hand
	Number  uint64       // Eusn-Seq
	After   uint64       // the previous number
	Flags   outcome.Flag // of the prediction
	Channel int
	Readout string // of a promotion
	Time    int64  // of a sample, ns since 1970
	Stored  int64  // time at which the server stored the message, ns since 1970
}

type NoteKind uint8

const (
	NoteKeyForgotten      NoteKind = iota // no room for a key without open sequences
	NoteStreamForgotten                   // a stream silent longest made room
	NoteSequenceForgotten                 // the same, in the middle of a sequence
	NoteContradiction                     // a number was repeated with other content
	NoteGap                               // messages between after and number are given up
	NoteLoss                              // input may have been removed before the partition read it
	NoteUnlike                            // samples unlike the training's
	NotePromotion                         // another readout predicts for new sequences
	NoteFarTimes                          // a sample's time is far from the time at which the message was stored
)
