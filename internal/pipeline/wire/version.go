package wire

import "fmt"

// StateVersion is the version of the form of snapshots, and of the states that the
// digest in a record covers.
const StateVersion = 1

// VersionError reports a state written in another version's form. The store is not
// damaged.
type VersionError struct{ Found uint64 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("version %d, this program reads version %d: another program wrote it; run that program, or start a new job, which can predict the same input again", e.Found, StateVersion)
}
