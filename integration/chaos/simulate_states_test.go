//go:build simulation && chaos && linux

package main

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// checkFinalStates is run.checkStates for a history: the states of the job are compared with
// the states of a worker that processes the whole input undisturbed.
func (h *history) checkFinalStates(ctx context.Context, js jetstream.JetStream) error {
	if err := h.endWorkers(ctx, js); err != nil {
		return err
	}
	broken, err := h.readRecords(ctx, js)
	if err != nil {
		return err
	}
	rows, err := lastSeq(ctx, js, rowStream)
	if err != nil {
		return err
	}
	h.spilled = rows > 0
	if err := forgetBegun(ctx, js); err != nil {
		return err
	}
	for _, name := range []string{outputStream, deadStream, rowStream, snapStream, memberStream} {
		if err := retryRequest(ctx, func(ctx context.Context) error { return js.DeleteStream(ctx, name) }); err != nil {
			return fmt.Errorf("chaos: deleting %s: %w", name, err)
		}
	}
	job := h.job
	job.Config.Idle, job.Config.MaxSlots = 0, 0
	h.world.setScale(1, job)
	if err := awaitStreams(ctx, js); err != nil {
		return err
	}
	a := newAudit(h.truth.readouts.first)
	read := uint64(0)
	for last := time.Now(); a.total < h.truth.total && time.Since(last) < noProgress; time.Sleep(100 * time.Millisecond) {
		before := a.total
		if read, err = readOn(ctx, js, outputStream, read, false, a.checkMessage); err != nil {
			return err
		}
		if a.total > before {
			last = time.Now()
		}
	}
	h.world.setScale(0, job)
	<-h.world.all[len(h.world.all)-1].done
	if a.countMissing(h.partitionOfStream, nil); a.lost+a.duplicated+a.wrong > 0 {
		return fmt.Errorf("chaos: even undisturbed, %d lost, %d duplicated, %d wrong: %v", a.lost, a.duplicated, a.wrong, a.notes)
	}
	whole, err := h.readRecords(ctx, js)
	if err == nil {
		h.compareStates(broken, whole)
	}
	return err
}

// endWorkers ends all workers; their last commits have the final states. An end event of an ended
// worker may be stored after these commits: the next worker reads it.
func (h *history) endWorkers(ctx context.Context, js jetstream.JetStream) error {
	for {
		if err := h.awaitOwners(ctx, js); err != nil {
			return err
		}
		before, err := lastSeq(ctx, js, inputStream)
		if err != nil {
			return err
		}
		h.world.setScale(0, h.job)
		for _, v := range h.world.all {
			if !v.cable.ended {
				<-v.done
			}
		}
		if after, err := lastSeq(ctx, js, inputStream); err != nil || after == before {
			return err
		}
		h.world.setScale(1, h.job)
	}
}

var workerID = regexp.MustCompile(` job=` + job + ` worker=(\S+)`)

// awaitOwners waits until the last record of each partition is from a running worker, and
// the input has no new message, such as an end event, for a while. A partition whose
// worker was killed shortly before has no released record until its next worker ends.
func (h *history) awaitOwners(ctx context.Context, js jetstream.JetStream) error {
	var read uint64
	changed := time.Now()
	for begin := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		last, err := lastSeq(ctx, js, inputStream)
		if err != nil {
			return err
		}
		if last != read {
			read, changed = last, time.Now()
		}
		orphan, err := h.findOrphan(ctx, js)
		switch {
		case err != nil:
			return err
		case orphan == "" && time.Since(changed) > 2*h.scenario.Idle+settleTime:
			return nil
		case time.Since(begin) > noProgress && orphan != "":
			h.fail("%s %v after the load", orphan, noProgress)
			return nil
		case time.Since(begin) > noProgress:
			h.fail("the input still grows %v after the load", noProgress)
			return nil
		}
	}
}

// findOrphan describes a partition whose last record is not from a running worker.
func (h *history) findOrphan(ctx context.Context, js jetstream.JetStream) (string, error) {
	running := map[string]bool{}
	h.world.mu.Lock()
	for _, s := range h.world.workers {
		for _, m := range workerID.FindAllSubmatch(s.worker.log.Bytes(), -1) {
			running[string(m[1])] = true
		}
	}
	h.world.mu.Unlock()
	for p := range h.partitions() {
		m, err := lastRecord(ctx, js, p)
		if err != nil {
			return "", err
		}
		// A worker that did not hear of a claim since may hold a partition without messages.
		if w := m.Header.Get("Eusn-Worker"); !running[w] && m.Header.Get(headerInSeq) != "0" {
			return fmt.Sprintf("the last record of partition %d is from worker %q, which does not run,", p, w), nil
		}
	}
	return "", nil
}
