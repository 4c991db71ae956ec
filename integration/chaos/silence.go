//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// promoteKind is the Eusn-Kind of a promotion in the input.
const promoteKind = "promote"

// promote applies a promotion, which is a message of the input, to the partition's
// streams.
func (t *truth) promote(s stored) error {
	var e struct {
		Job       string // empty: the job of the input
		Partition int
		Number    uint64
		Readout   string // empty = the first readout
		Now       bool
	}
	if err := json.Unmarshal(s.data, &e); err != nil {
		return fmt.Errorf("chaos: input message %d is no promotion: %w", s.seq, err)
	}
	if e.Job != "" && e.Job != job {
		return nil
	}
	which := max(0, slices.Index(t.readouts.names, e.Readout))
	if e.Partition != s.partition || which == 0 && e.Readout != "" {
		return fmt.Errorf("chaos: the promotion %d in partition %d is for %d, of readout %q, which is none of %q", s.seq, s.partition, e.Partition, e.Readout, t.readouts.names)
	}
	if e.Number <= t.readouts.newest[s.partition].number {
		return nil
	}
	t.readouts.newest[s.partition] = promoted{e.Number, which}
	if !e.Now {
		return nil
	}
	for key, p := range t.keys {
		if t.readouts.partition(key) != s.partition {
			continue
		}
		for _, open := range p.streams {
			open.began = []beganUnder{{0, which}}
		}
	}
	return nil
}

// endEvent is a worker's message in the input for streams with too long a silence.
type endEvent struct {
	Partition int
	After     uint64 // last input message read by the worker
	Streams   []struct {
		Key, Stream string
		Forget      bool
	}
	Gaps []string // keys whose missing messages are abandoned
}

// applySilence applies an end event, which is a message of the input of a job with a number
// of partitions, to the streams of its partition without a message since.
func (t *truth) applySilence(s stored, partitions int) error {
	var e endEvent
	if err := json.Unmarshal(s.data, &e); err != nil {
		return fmt.Errorf("chaos: input message %d is no end event: %w", s.seq, err)
	}
	if t.resized && e.Partition != s.partition { // written for the previous number of partitions
		t.damaged[s.seq], t.position = true, s.seq
		return nil
	}
	if e.Partition != s.partition || e.After >= s.seq {
		return fmt.Errorf("chaos: the end event %d in partition %d is for %d, after message %d", s.seq, s.partition, e.Partition, e.After)
	}
	t.position = s.seq
	moved := func(key string) bool { return partitionOf(key, partitions) != s.partition } // by a resize since
	if err := t.abandonGaps(&e, moved); err != nil {
		return err
	}
	for _, n := range e.Streams {
		p := t.keys[n.Key]
		if p == nil || moved(n.Key) || len(p.waiting) > 0 || p.streams[n.Stream] == nil {
			continue
		}
		if n.Forget {
			return fmt.Errorf("chaos: the end event %d forgets streams, but the job never forgets", s.seq)
		}
		if s := p.streams[n.Stream]; s.heard <= e.After {
			if err := t.endSequences(s, n.Stream); err != nil {
				return err
			}
		}
	}
	return nil
}

// abandonGaps gives up the missing messages of an end event's keys.
func (t *truth) abandonGaps(e *endEvent, moved func(key string) bool) error {
	for _, key := range e.Gaps {
		if p := t.keys[key]; p != nil && !moved(key) && p.heard <= e.After {
			if err := t.giveUp(p, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// endSequences closes a stream's open sequences because of silence.
func (t *truth) endSequences(s *track, id string) error {
	switch t.model.Policy.Kind {
	case reservoir.Marked:
		if s.n == s.start {
			return nil
		}
		if err := t.predict(s, id, s.start, outcome.FlagIdle|s.mark); err != nil {
			return err
		}
		s.start = s.n
		s.forgetBefore(s.n)
	default: // abandoned: the next sample starts a new sequence
		*s = track{mark: s.mark, seq: s.seq, row: s.row, time: s.time, heard: s.heard}
	}
	t.idle++
	return nil
}
