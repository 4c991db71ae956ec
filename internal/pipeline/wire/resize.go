package wire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Resize says how often a job's number of partitions, or its network, has changed, and
// how far the change has come that is under way. It is part of the job's entry. The
// zero value is that of a job in which neither ever changed.
type Resize struct {
	// Generation counts the changes that are complete. Records repeat it; while a
	// change is under way, they have the next one, and no worker touches them.
	Generation uint64     `json:"generation"`
	Partitions int        `json:"partitions"`       // in this generation
	To         int        `json:"to,omitempty"`     // in the next one, while a change is under way
	Step       ResizeStep `json:"step,omitempty"`   // the one that is under way; empty = no change is
	After      uint64     `json:"after,omitempty"`  // the last input message when the server was to change the mapping
	Mixed      bool       `json:"mixed,omitempty"`  // copies of the input may differ in the partitions of the messages after After up to Cut
	Cut        uint64     `json:"cut,omitempty"`    // the last input message that belongs to the partitions of before
	Stored     int64      `json:"stored,omitempty"` // when the server stored it, ns; 0 = it is gone
	Epoch      uint64     `json:"epoch,omitempty"`  // of the snapshots and records that begin the new partitions

	// With is the job whose network and states this job is to continue with; empty = its
	// number of partitions changes.
	With string `json:"with,omitempty"`
	// Promoted is the newest promotion of before, from which numbers continue.
	Promoted uint64 `json:"promoted,omitempty"`
}

// ResizeStep is a step of a change of the number of partitions.
type ResizeStep string

// The steps, in order. Each may be repeated.
const (
	ResizeClaim   ResizeStep = "claim"   // the partitions are taken from all workers
	ResizeSwitch  ResizeStep = "switch"  // the server is to give keys to the new partitions
	ResizeDrain   ResizeStep = "drain"   // the old partitions answer what was stored before
	ResizeStore   ResizeStep = "store"   // the states are stored as those of new partitions
	ResizePublish ResizeStep = "publish" // the new partitions get their records

	// ResizeAbandon follows ResizeClaim where the change is abandoned: the
	// partitions get the records of before.
	ResizeAbandon ResizeStep = "abandon"

	// The steps of a job that is to continue with another one's network and states.
	ReplaceClaim   ResizeStep = "replace-claim"   // the partitions are taken from all workers
	ReplaceDrain   ResizeStep = "replace-drain"   // both jobs answer what was stored up to the cut
	ReplaceStore   ResizeStep = "replace-store"   // the other job's states are stored as this one's
	ReplacePublish ResizeStep = "replace-publish" // the partitions get records of these
	ReplaceAbandon ResizeStep = "replace-abandon" // instead, they get the records of before
)

// UnderWay reports whether a change is.
func (r Resize) UnderWay() bool { return r.Step != "" }

// Abandoning reports whether a change is being abandoned.
func (r Resize) Abandoning() bool { return r.Step == ResizeAbandon || r.Step == ReplaceAbandon }

// DescribeStep says which change is under way.
func (r Resize) DescribeStep() string {
	switch {
	case r.With != "" && r.Abandoning():
		return fmt.Sprintf("the change to the network and states of job %q is being abandoned", r.With)
	case r.Abandoning():
		return fmt.Sprintf("the change of its number of partitions from %d to %d is being abandoned", r.Partitions, r.To)
	case r.With != "":
		return fmt.Sprintf("it is being given the network and states of job %q, step %s", r.With, r.Step)
	}
	return fmt.Sprintf("its number of partitions is being changed from %d to %d, step %s", r.Partitions, r.To, r.Step)
}

// ErrChanging is a change of a job that must be completed or abandoned first. It comes with
// a *ChangeError.
var ErrChanging = errors.New("a change of the job is under way")

// ChangeError is the change of a job that is under way.
type ChangeError struct {
	Job    string
	Change Resize
}

func (e *ChangeError) Error() string {
	return fmt.Sprintf("job %q: %s", e.Job, e.Change.DescribeStep())
}

// Is makes every ChangeError an ErrChanging.
func (e *ChangeError) Is(target error) bool { return target == ErrChanging }

// String is empty for a job whose number of partitions never changed.
func (r Resize) String() string {
	if r == (Resize{}) {
		return ""
	}
	b, _ := json.Marshal(r) // numbers and names alone
	return string(b)
}

func parseResize(text string) (r Resize, err error) {
	if text == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("header %s is %q: %w", HeaderResize, text, err)
	}
	switch r.Step {
	case "", ResizeClaim, ResizeSwitch, ResizeDrain, ResizeStore, ResizePublish, ResizeAbandon:
		r.With = ""
	case ReplaceClaim, ReplaceDrain, ReplaceStore, ReplacePublish, ReplaceAbandon:
		if err := CheckToken(r.With); err != nil {
			return r, fmt.Errorf("header %s is %q: the job to continue with: %w", HeaderResize, text, err)
		}
	default:
		return r, fmt.Errorf("header %s names the step %q, which this program does not know: continue with the program that began it", HeaderResize, r.Step)
	}
	if r.Partitions < 1 || r.UnderWay() && r.To < 1 {
		return r, fmt.Errorf("header %s is %q: want numbers of partitions", HeaderResize, text)
	}
	return r, nil
}
