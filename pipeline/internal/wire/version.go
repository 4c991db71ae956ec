package wire

import "fmt"

const (
	// StateVersion changes with the bytes of a snapshot and with what a digest
	// is of. Records without one are of version 2, or of programs before the
	// first release.
	StateVersion = 3
	OldestState  = 2 // that is read
	// TimedState is that of states of a model with a sampling rate, which hold
	// the times of open sequences, or of one with a front end, which hold what it
	// continues from. Programs that know no rate know no such model.
	TimedState  = 4
	NewestState = TimedState
	// PromotedState is the version of the snapshot of a partition that has had a
	// promotion: one of TimedState, with the promotions. No digest is of it.
	PromotedState = 5
)

// VersionError is a state in a form that another version of the program
// writes. Nothing is wrong with the store.
type VersionError struct{ Found, Newest uint64 }

func (e *VersionError) Error() string {
	which := "a newer"
	if e.Found < OldestState {
		which = "an older"
	}
	return fmt.Sprintf("version %d, this program reads %d to %d: %s program wrote it; run that program, or start a new job, which can predict the same input again", e.Found, OldestState, e.Newest, which)
}

// OtherVersion reports a record whose digest this program cannot compute. It
// is told before the partition is claimed, so that its own program continues.
func (r *Record) OtherVersion() error {
	if v := r.Mark.Version; v > 0 && (v < OldestState || v > NewestState) {
		return fmt.Errorf("digest: %w", &VersionError{v, NewestState})
	}
	return nil
}
