package wire

import "fmt"

// The forms of a state. They differ in what they hold, not in age.
const (
	// StateVersion is the form of a snapshot, and of the states that a digest covers.
	StateVersion = 1
	// TimedState is the form for a model with a sampling rate, whose states hold
	// the times of open sequences, or with a front end, whose states hold what it
	// continues from.
	TimedState  = 2
	NewestState = TimedState
	// PromotedState is the form of the snapshot of a partition that has had a
	// promotion: TimedState and the promotions. No digest is of this form.
	PromotedState = 3
)

// VersionError is a state in a form that another version of the program
// writes. The store is not damaged.
type VersionError struct{ Found, Newest uint64 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("version %d, this program reads %d to %d: another program wrote it; run that program, or start a new job, which can predict the same input again", e.Found, StateVersion, e.Newest)
}

// OtherVersion reports a record whose digest this program cannot compute. It
// is told before the partition is claimed, so that its own program continues.
func (r *Record) OtherVersion() error {
	if v := r.Mark.Version; r.Mark.Seq > 0 && (v < StateVersion || v > NewestState) {
		return fmt.Errorf("digest: %w", &VersionError{v, NewestState})
	}
	return nil
}
