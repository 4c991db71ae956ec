//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// compare reads the output until every expected prediction is there, or no more
// come. Then it stops the workers and looks for predictions that are too many.
func (r *run) compare(ctx context.Context, js jetstream.JetStream) error {
	r.audit = newAudit(r.truth.predictions)
	r.audit.may = r.scenario.May
	if r.next != nil {
		r.audit.replaced(r.next.predictions)
	}
	if names := r.truth.readouts.names; len(names) > 0 {
		r.audit.first = names[0]
	}
	holes := r.scenario.May.lenient()
	var read uint64
	var stopped stops
	var err error
	asked := time.Now()
	for last := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		before := r.audit.seen
		if holes && time.Since(last) > askAgainAfter && time.Since(asked) > askAgainAfter {
			// Servers that come back one by one from a power loss may have
			// lost more than they could report.
			asked = time.Now()
			if err := r.sendAgain(ctx, js); err != nil {
				return err
			}
		}
		if read, err = readOn(ctx, js, outputStream, read, holes, r.audit.message); err != nil {
			return err
		}
		if r.scenario.May.Stop {
			if stopped, err = r.fleet.stopped(r.dir, r.partitions()); err != nil {
				return err
			}
		}
		if r.audit.open(r.partition, stopped) == 0 {
			break
		}
		if r.audit.seen > before {
			last = time.Now()
		} else if quiet := time.Since(last); quiet > noProgress || r.scenario.control() != "" && quiet > controlPatience {
			break // what is missing is counted as lost
		}
	}
	time.Sleep(settleTime)
	if unclean := r.fleet.stopAll(); len(unclean) > 0 && r.scenario.control() == "" && len(stopped) == 0 {
		r.result.fail("at the end, workers did not stop cleanly: %v", unclean)
	}
	if _, err := readOn(ctx, js, outputStream, read, holes, r.audit.message); err != nil {
		return err
	}
	r.audit.finish(r.partition, stopped)
	for _, p := range slices.Sorted(maps.Keys(stopped)) {
		r.result.Stopped = append(r.result.Stopped, fmt.Sprintf("%d: %s", p, stopped[p]))
	}
	return r.deadLetters(ctx, js)
}

// deadLetters expects one dead letter for each damaged message, and no others.
// More than one copy is not an error: a dead letter is published before the
// commit that covers it.
func (r *run) deadLetters(ctx context.Context, js jetstream.JetStream) error {
	if r.scenario.May.lenient() {
		return nil // which messages are damaged is not planned; which are lost is
	}
	missing := maps.Clone(r.truth.damaged)
	_, err := readOn(ctx, js, deadStream, 0, false, func(s stored) error {
		in, err := s.number(headerInSeq)
		if err == nil && !r.truth.damaged[in] {
			r.audit.fault("input message %d is a dead letter, and was good", in)
		}
		delete(missing, in)
		return err
	})
	for _, in := range slices.Sorted(maps.Keys(missing)) {
		r.audit.fault("input message %d is damaged, and no dead letter", in)
	}
	return err
}
