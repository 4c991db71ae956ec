package outcome

import (
	"strconv"
	"strings"
)

// Flag marks an anomaly of the samples of a prediction.
type Flag uint32

// The flags are part of the output format. The first seven report events of the samples'
// transport, the rest samples unlike the training samples (see package internal/monitor).
const (
	FlagGap           Flag = 1 << iota // messages of the stream are missing
	FlagReordered                      // messages arrived out of order and were put in order
	FlagHeld                           // missing samples were filled in
	FlagWarmUp                         // too few samples yet for the window
	FlagEarly                          // the sequence has not ended
	FlagPoisonSkipped                  // an undecodable message was skipped
	FlagIdle                           // silence of the stream ended the sequence
	FlagOutOfRange                     // a channel had values far outside its range in training, or its settings were of no operating regime
	FlagFlat                           // a channel had one value for far longer than ever in training
	FlagLength                         // the sequence is far shorter or longer than any in training
	FlagRate                           // the samples came at another rate than in training, or with a jump in time
	FlagDecided                        // of an early prediction: by the model's rule the samples so far suffice
	FlagAbstain                        // the model is too uncertain to answer: the class is only the likeliest
)

// FlagNames are the names of the flags, in order of their bits.
var FlagNames = [...]string{"gap", "reordered", "held", "warm-up", "early", "poison-skipped", "idle", "out-of-range", "flat", "length", "rate", "decided", "abstain"}

// String lists the set flags, "gap|held"; without flags it is empty. A flag of a later version
// of the format is its number.
func (f Flag) String() string {
	var set []string
	for i := range 32 {
		switch {
		case f>>i&1 == 0:
		case i < len(FlagNames):
			set = append(set, FlagNames[i])
		default:
			set = append(set, strconv.FormatUint(1<<i, 10))
		}
	}
	return strings.Join(set, "|")
}

// The integrity of a prediction: the trustworthiness, in one word, from worst to best. Samples
// unlike the training are worse than lost samples: a readout without some samples still reads
// valid samples. A readout of a dead sensor knows nothing, but its class and score look normal.
const (
	IntegrityUnknown       = "unknown"         // a flag of a later version of the format
	IntegrityUnlike        = "unlike-training" // samples, a length or a rate unlike the training: the class means nothing
	IntegrityGap           = "gap"             // samples were lost in transport; which samples is not known
	IntegrityPoisonSkipped = "poison-skipped"  // samples were left out; the dead letters hold them
	IntegrityHeld          = "held"            // missing values were filled in
	IntegrityIdle          = "idle"            // all samples arrived, but silence ended the sequence, not its producer
	IntegrityEarly         = "early"           // all samples so far; the sequence continues
	IntegrityComplete      = "complete"        // all samples of the sequence, each once, in order, and like the training
)

// known are the flags judged by Integrity.
const known = 1<<len(FlagNames) - 1

// Integrity returns the worst word of the flags. A gap, a skipped message, a filled value, a
// value out of range or a flat channel concerns every later prediction of the same sequence,
// because a state never forgets; a new sequence begins as complete. FlagReordered does not
// lessen integrity: samples out of order were used in order. Nor does FlagAbstain, which
// describes the model's certainty and not the samples. FlagWarmUp and FlagDecided come with
// FlagEarly only.
func (f Flag) Integrity() string {
	switch {
	case f&^known != 0:
		return IntegrityUnknown
	case f&(FlagOutOfRange|FlagFlat|FlagLength|FlagRate) != 0:
		return IntegrityUnlike
	case f&FlagGap != 0:
		return IntegrityGap
	case f&FlagPoisonSkipped != 0:
		return IntegrityPoisonSkipped
	case f&FlagHeld != 0:
		return IntegrityHeld
	case f&FlagIdle != 0:
		return IntegrityIdle
	case f&(FlagEarly|FlagWarmUp|FlagDecided) != 0:
		return IntegrityEarly
	}
	return IntegrityComplete
}
