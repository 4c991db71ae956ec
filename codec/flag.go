package codec

import "strings"

// Flag marks what was unusual about the samples behind a prediction.
type Flag uint8

// The flags, which are part of the output format.
const (
	FlagGap           Flag = 1 << iota // messages of the stream are missing
	FlagReordered                      // messages arrived out of order and were put in order
	FlagHeld                           // missing samples were filled in
	FlagWarmUp                         // too few samples yet for the window
	FlagEarly                          // the sequence has not ended
	FlagPoisonSkipped                  // an undecodable message was skipped
	FlagIdle                           // the sequence was ended for the stream's silence
)

var flagNames = [...]string{"gap", "reordered", "held", "warm-up", "early", "poison-skipped", "idle", "128"}

// String lists the flags that are set, "gap|held"; without any it is empty.
func (f Flag) String() string {
	var set []string
	for i, name := range flagNames {
		if f>>i&1 != 0 {
			set = append(set, name)
		}
	}
	return strings.Join(set, "|")
}

// The integrity of a prediction: how far it rests on all samples of its
// sequence, in one word, from worst to best.
const (
	IntegrityUnknown       = "unknown"        // a flag of a later version of the format
	IntegrityGap           = "gap"            // samples were lost on their way, nobody knows which
	IntegrityPoisonSkipped = "poison-skipped" // samples were left out; the dead letters hold them
	IntegrityHeld          = "held"           // missing values were filled in
	IntegrityIdle          = "idle"           // all samples there were, but silence ended the sequence, not its producer
	IntegrityEarly         = "early"          // all samples so far; the sequence goes on
	IntegrityComplete      = "complete"       // all samples of the sequence, each once, in order
)

// known are the flags that Integrity can judge.
const known = FlagGap | FlagReordered | FlagHeld | FlagWarmUp | FlagEarly | FlagPoisonSkipped | FlagIdle

// Integrity is the worst that the flags say. A gap, a skipped message or a
// filled value concerns every later prediction of the same sequence, for a
// state forgets nothing; a new sequence begins as complete. FlagReordered does
// not lessen integrity: what came out of order was used in order. FlagWarmUp
// comes with FlagEarly only.
func (f Flag) Integrity() string {
	switch {
	case f&^known != 0:
		return IntegrityUnknown
	case f&FlagGap != 0:
		return IntegrityGap
	case f&FlagPoisonSkipped != 0:
		return IntegrityPoisonSkipped
	case f&FlagHeld != 0:
		return IntegrityHeld
	case f&FlagIdle != 0:
		return IntegrityIdle
	case f&(FlagEarly|FlagWarmUp) != 0:
		return IntegrityEarly
	}
	return IntegrityComplete
}
