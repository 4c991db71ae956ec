package wire

import (
	"fmt"
)

// IdleEntries is how many streams one end event may name; the next event
// follows when this one has come back.
const IdleEntries = 1024

// IdleEvent is an end event's body: what its writer had not heard of for too
// long when it had read the partition's input up to message After. Whatever
// has been heard of since then in the input is left alone. So it does not
// matter how old an event is, who wrote it and how often.
type IdleEvent struct {
	// Job is the job that the event is for, where that reads another job's input;
	// empty = the job whose input it is. Each job leaves the others' events alone.
	// Programs that do not know the field make a dead letter of such an event, which
	// ends nothing either.
	Job       string       `json:"job,omitempty"`
	Partition int          `json:"partition"`
	After     uint64       `json:"after"`
	Streams   []StreamName `json:"streams,omitempty"` // whose sequences end
	Gaps      []string     `json:"gaps,omitempty"`    // keys whose missing messages are given up
}

// StreamName is one of the streams that an end event names.
type StreamName struct {
	Key    string `json:"key"`
	Stream string `json:"stream"`
	Forget bool   `json:"forget,omitempty"` // and the stream is forgotten
}

// Size is more than the name takes in an event, escapes included.
func (n *StreamName) Size() int { return 6*(len(n.Key)+len(n.Stream)) + 48 }

// Empty reports whether an event asks for nothing.
func (e *IdleEvent) Empty() bool { return len(e.Streams)+len(e.Gaps) == 0 }

// ParseIdle reads an end event of a partition, which may come from anywhere;
// seq is its own number in the input.
func ParseIdle(data []byte, part int, seq uint64) (*IdleEvent, error) {
	e := new(IdleEvent)
	err := readEvent(data, e, &e.Partition, part)
	if err == nil && e.After >= seq {
		err = fmt.Errorf("it describes the input up to message %d, but is itself message %d: was it copied from another input?", e.After, seq)
	}
	if err == nil && len(e.Streams)+len(e.Gaps) > IdleEntries {
		err = fmt.Errorf("it names %d streams, want at most %d", len(e.Streams)+len(e.Gaps), IdleEntries)
	}
	if err != nil {
		return nil, fmt.Errorf("pipeline: end event (header %s is %q): %w", HeaderKind, KindIdle, err)
	}
	return e, nil
}
