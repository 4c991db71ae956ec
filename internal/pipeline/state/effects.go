package state

import (
	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Effects are what messages lead to, in order, whatever partition they are of.
// Whoever applies them takes runs, dead letters, notes and the tally out.
type Effects struct {
	X                        []float32 // samples of all runs, row by row, behind the front end
	Samples                  int       // that came in for them
	Runs                     []Run
	Extents                  []Extent // of the runs but those that drop, where Machine.Extents asks for them
	Dead                     []DeadLetter
	Notes                    []Note
	Used, Rows, Bytes, Early int // messages that were used, samples and bytes in them, predictions before an end: what is not a replay
	Tally
}

// Run is what an engine is to do to the row of one of a stream's states.
// One with emit makes the next prediction.
type Run struct {
	Stream      *Stream
	Phase       int32 // which of the stream's states
	Reset, Emit bool
	End         bool  // the sequence has ended: its row means nothing any more
	Open        bool  // a sequence of the stream is open behind the samples that the run was cut from
	Drop        bool  // nothing but this: no row of the stream means anything any more
	From, To    int32 // rows of effects.x
}

// Extent is which samples a run is of.
type Extent struct {
	Before, Last     Place // the stream's sample before the run's first (zero: not known), and the run's last
	Samples          int64 // of the sequence up to the run's end, as they came in
	Earliest, Latest int64 // times of the run's samples; codec.NoTime: one of them has none

	Message         uint64 // the input message that holds the run's samples
	FirstRow, Count uint32 // the first of them there, and how many they are
}

// Place is a sample's, in the order in which samples reach their stream.
type Place struct {
	In  uint64 // input message that let it in
	Seq uint64 // Eusn-Seq of its own message, 0 without one
	Row uint32 // there
}

// Predictions are predictions of one partition.
type Predictions struct {
	Preds  []codec.Prediction // in order of input
	At     []uint64           // the input message each belongs to, ascending
	Stored []int64            // when it was stored, ns
	Began  []int64            // time of the sequence's first sample, ns; codec.NoTime: not known, or time went back in it
	Length []int64            // samples of the sequence, as they came in
}

// WithoutRows is p without its predictions, with their room.
func (p Predictions) WithoutRows() Predictions {
	return Predictions{Preds: p.Preds[:0], At: p.At[:0], Stored: p.Stored[:0], Began: p.Began[:0], Length: p.Length[:0]}
}

// DeadLetter is an input message that could not be used.
type DeadLetter struct {
	Msg    Message
	Why    wire.Reason
	Reason string // a line
}

// Tally counts what happened.
type Tally struct {
	Duplicates, Contradictions, Gaps, Reordered, Incarnations uint64
	Missing, Losses, Forgotten, Idle, EndEvents               uint64
	Promotions                                                uint64
	FarTimes                                                  uint64 // samples with times far from when their messages were stored
	New                                                       uint64 // streams that the partition did not know
	Abandoned                                                 uint64 // open sequences of streams that made room
	Streams, Parked                                           int64  // more than before
}

// Note is what happened that people should hear of.
type Note struct {
	Kind    NoteKind
	Key     string
	Stream  string
	Input   uint64       // message in hand
	Number  uint64       // Eusn-Seq
	After   uint64       // the number before it
	Flags   outcome.Flag // of the prediction
	Channel int
	Readout string // of a promotion
	Time    int64  // of a sample, ns since 1970
	Stored  int64  // when the server stored its message, ns since 1970
}

type NoteKind uint8

const (
	NoteKeyForgotten      NoteKind = iota // no room for a key without open sequences
	NoteStreamForgotten                   // one of those longest silent made room
	NoteSequenceForgotten                 // the same, in the middle of a sequence
	NoteContradiction                     // number came again with other content
	NoteGap                               // messages between after and number are given up
	NoteLoss                              // input may have been removed before it was read
	NoteUnlike                            // samples unlike the training's
	NotePromotion                         // another readout answers for the sequences that begin
	NoteFarTimes                          // a sample's time is far from when its message was stored
)
