package wire

import (
	"encoding/json"
	"fmt"
)

// Resize says how often a job's number of partitions has changed, and how far
// the change has come that is under way. It is part of the job's entry. The zero
// value is that of a job whose number never changed.
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
)

// UnderWay reports whether a change is.
func (r Resize) UnderWay() bool { return r.Step != "" }

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
	default:
		return r, fmt.Errorf("header %s names the step %q, which this program does not know: a newer program began it; go on with that one", HeaderResize, r.Step)
	}
	if r.Partitions < 1 || r.UnderWay() && r.To < 1 {
		return r, fmt.Errorf("header %s is %q: want numbers of partitions", HeaderResize, text)
	}
	return r, nil
}
