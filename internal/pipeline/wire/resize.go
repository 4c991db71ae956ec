package wire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Resize describes how often a job's number of partitions, or its network, has changed,
// and the progress of a current change. It is part of the job's entry. The zero value
// belongs to a job without any change.
type Resize struct {
	// Generation counts completed changes. Records repeat it; during a change, they
	// have the next generation, and no worker modifies them.
	Generation uint64     `json:"generation"`
	Partitions int        `json:"partitions"`       // in this generation
	To         int        `json:"to,omitempty"`     // in the next generation, during a change
	Step       ResizeStep `json:"step,omitempty"`   // the current step; empty = no change
	After      uint64     `json:"after,omitempty"`  // the last input message when the server was to change the mapping
	Mixed      bool       `json:"mixed,omitempty"`  // copies of the input may differ in the partitions of the messages after After up to Cut
	Cut        uint64     `json:"cut,omitempty"`    // the last input message of the old partitions
	Stored     int64      `json:"stored,omitempty"` // time at which the server stored it, ns; 0 = removed
	Epoch      uint64     `json:"epoch,omitempty"`  // of the snapshots and records that begin the new partitions

	// With is the job whose network and states this job will use; empty = the number of
	// partitions changes.
	With string `json:"with,omitempty"`
	// Promoted is the newest promotion before the change; numbers continue from it.
	Promoted uint64 `json:"promoted,omitempty"`
}

// ResizeStep is a step of a change of the number of partitions.
type ResizeStep string

// The steps, in order. Each may be repeated.
const (
	ResizeClaim   ResizeStep = "claim"   // the partitions are taken from all workers
	ResizeSwitch  ResizeStep = "switch"  // the server is to give keys to the new partitions
	ResizeDrain   ResizeStep = "drain"   // the old partitions answer the input stored before the change
	ResizeStore   ResizeStep = "store"   // the states are stored as states of the new partitions
	ResizePublish ResizeStep = "publish" // the new partitions get their records

	// ResizeAbandon follows ResizeClaim if the change is abandoned: the partitions get
	// their previous records.
	ResizeAbandon ResizeStep = "abandon"

	// The steps of a job that is to continue with another job's network and states.
	ReplaceClaim   ResizeStep = "replace-claim"   // the partitions are taken from all workers
	ReplaceDrain   ResizeStep = "replace-drain"   // both jobs answer the input up to the cut
	ReplaceStore   ResizeStep = "replace-store"   // the other job's states are stored as this job's states
	ReplacePublish ResizeStep = "replace-publish" // the partitions get records of the stored states
	ReplaceAbandon ResizeStep = "replace-abandon" // instead, they get their previous records
)

// UnderWay reports whether a change is.
func (r Resize) UnderWay() bool { return r.Step != "" }

// Abandoning reports whether a change is being abandoned.
func (r Resize) Abandoning() bool { return r.Step == ResizeAbandon || r.Step == ReplaceAbandon }

// DescribeStep describes the current change.
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

// ErrChanging reports a change of a job that must be completed or abandoned first. It
// comes with a *ChangeError.
var ErrChanging = errors.New("a change of the job is under way")

// ChangeError is the current change of a job.
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
	b, _ := json.Marshal(r) // only numbers and names
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
