package wire

import (
	"fmt"
)

// IdleEntries is how many streams one end event may name; the next event follows when
// this event has come back.
const IdleEntries = 1024

// IdleEvent is the body of an end event: the streams and keys that were silent for too
// long when its writer had read the partition's input up to message After. A stream
// with later input is not affected, so the age, the writer and the number of copies of
// an event do not matter.
type IdleEvent struct {
	// Job is the job of the event, if it reads another job's input; empty = the job
	// with the input. Each job ignores other jobs' events. Programs that do not know
	// the field turn the event into a dead letter, which ends nothing either.
	Job       string       `json:"job,omitempty"`
	Partition int          `json:"partition"`
	After     uint64       `json:"after"`
	Streams   []StreamName `json:"streams,omitempty"` // streams whose sequences end
	Gaps      []string     `json:"gaps,omitempty"`    // keys whose missing messages are given up
}

// StreamName is a stream named by an end event.
type StreamName struct {
	Key    string `json:"key"`
	Stream string `json:"stream"`
	Forget bool   `json:"forget,omitempty"` // and the stream is forgotten
}

// Size is more than the name takes in an event, escapes included.
func (n *StreamName) Size() int { return 6*(len(n.Key)+len(n.Stream)) + 48 }

// Empty reports whether an event asks for nothing.
func (e *IdleEvent) Empty() bool { return len(e.Streams)+len(e.Gaps) == 0 }

// ParseIdle reads an end event of a partition, from any source; seq is its number in
// the input.
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
