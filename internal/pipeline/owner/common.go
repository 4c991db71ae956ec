package owner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	// nearby is how many input messages a common consumer may be behind a partition for
	// the partition to join: the partition receives nothing new until the consumer has
	// caught up.
	nearby = 4096
	// queuePatience is how long a common consumer waits for room in a shard's queue
	// while the partitions of other shards wait.
	queuePatience = 100 * time.Millisecond
	// ApartTime is how long a partition that has left a common consumer reads with its
	// own consumer, and the pause between the end of a common reading and the next.
	ApartTime = 5 * time.Second
	// createTimeout limits how long partitions receive nothing while a common consumer
	// is created; refusedTime is the pause after a failure.
	createTimeout = 2 * time.Second
	refusedTime   = 10 * time.Minute
)

// Common reads the input for a worker with all of a job's partitions, with a single
// consumer without a filter, and passes the messages to the partitions. The server
// finds the next message of a filtered consumer by looking at every message between two
// of its own, so a consumer for each partition costs more (docs/results.md).
//
// Common is an optimization of normal operation; everything else is left to the
// consumers of the partitions. A partition joins (takeMember) when the shard has all of
// the partition's messages up to the common consumer's position. A partition leaves,
// and reads with a separate consumer after the last message in the shard, if the shard
// accepts no messages for a while, or input may have been lost. All partitions leave if
// the worker no longer owns all partitions, or the consumer has a fault.
//
// No message is skipped or comes too early: the messages from the common consumer and
// from a partition's own consumer are each in order and without gaps, and each sequence
// begins no later than after the last message in the shard. The shard drops a message
// delivered by both, as a repeat.
type Common struct {
	w     *Worker
	open  func() (jetstream.JetStream, error) // opens the reader's connection
	apart time.Duration

	whole  atomic.Bool // the worker has all partitions
	mu     sync.Mutex  // never held during a wait
	gather *gathering  // nil: no gathering
	after  time.Time   // no reading begins before
	now    *commonReading
	beside sync.WaitGroup // consumers being created or stopped
}

// commonReading is the lifetime of a common consumer. Common.mu guards all fields,
// except the members' asked.
type commonReading struct {
	at      uint64 // messages up to this message are assigned
	handed  uint64 // the partitions have the messages up to this message
	members []*member
	joined  int64  // members
	unread  int64  // input messages unread on the server when the last message came
	count   uint64 // messages received from the consumer
	over    bool
	stop    func()       // nil while the consumer is being made
	behind  func() int64 // number of received messages that wait for acceptMessage; nil as stop
}

// member is a partition read by a common consumer.
type member struct {
	t     *Ownership
	asked bool // the input was compared with the partition's last message
}

// NewCommon makes the common reader of a worker; the reader works only while the worker
// owns all partitions. open opens the connection. apart is ApartTime except in tests.
func NewCommon(w *Worker, apart time.Duration, open func() (jetstream.JetStream, error)) *Common {
	return &Common{w: w, open: open, apart: apart}
}

// SetWhole records whether the worker owns all partitions.
func (c *Common) SetWhole(whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole.Store(whole && c.w.Partitions > 1); !whole {
		c.endReading()
	}
}

// CountReads returns the number of partitions read.
func (c *Common) CountReads() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil {
		return 0
	}
	return int(c.now.joined)
}

// StopSharing makes every partition read with a separate consumer.
func (c *Common) StopSharing() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endReading()
}

// Close ends the common reader permanently.
func (c *Common) Close() {
	c.SetWhole(false)
	c.beside.Wait()
}

// startReading begins a reading after message at; the lock is held.
func (c *Common) startReading(at uint64) {
	r := &commonReading{at: at, members: make([]*member, c.w.Partitions)}
	c.now = r
	c.beside.Go(func() { c.readCommon(r, at+1) })
}

// joinMember takes a partition in; the lock is held.
func (c *Common) joinMember(t *Ownership) {
	c.now.members[t.part.State.ID] = &member{t: t}
	c.now.joined++
	t.Input.common.Store(true)
	t.watchChanges()
}

// takeMember lets a partition join if its shard has all messages of the partition up to
// seq, and reports whether the partition joined: from then on, the partition's messages
// come from here. A partition without waiting messages (current) begins a reading if
// there is none.
func (c *Common) takeMember(t *Ownership, seq uint64, current bool) bool {
	if c == nil || !c.whole.Load() || t.w.Drain != nil || t.w.Server.In.Mixed != nil || t.Input.Doubt.Load() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !c.whole.Load() || t.ctx.Err() != nil || now.Before(t.Input.apart) { // an ended partition does not return
		return false
	}
	if c.now == nil {
		if !current || now.Before(c.after) {
			return false
		}
		c.startReading(seq)
	}
	if seq < c.now.at || seq-c.now.at > nearby {
		return false
	}
	c.joinMember(t)
	return true
}

// leaveReading takes a partition out.
func (c *Common) leaveReading(t *Ownership) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.now; r != nil && t.Input.common.Load() {
		c.splitOff(r, t)
		if r.joined == 0 {
			c.endReading()
		}
	}
}

// splitOff takes a member out; the lock is held.
func (c *Common) splitOff(r *commonReading, t *Ownership) {
	r.members[t.part.State.ID] = nil
	r.joined--
	t.Input.common.Store(false)
	t.Input.apart = time.Now().Add(c.apart)
	t.watchChanges()
}

// endReading ends the reading, if any; the lock is held.
func (c *Common) endReading() {
	r := c.now
	if r == nil {
		return
	}
	for _, m := range r.members {
		if m != nil {
			c.splitOff(r, m.t)
		}
	}
	r.over, c.now, c.after = true, nil, time.Now().Add(c.apart)
	if r.stop != nil {
		c.beside.Go(r.stop)
	}
}

// readCommon makes the consumer of a reading.
func (c *Common) readCommon(r *commonReading, start uint64) {
	p, err := c.consumeInput(r, start)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.w.Log.Debug("no common consumer of the input: each partition reads by its own", "err", err)
		if !r.over {
			c.endReading()
		}
		c.after = time.Now().Add(refusedTime)
	case r.over:
		c.beside.Go(p.stopPush)
	default:
		r.stop, r.behind = p.stopPush, p.countBehind
	}
}

func (c *Common) consumeInput(r *commonReading, start uint64) (*pushed, error) {
	js, err := c.open()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.w.Shards, createTimeout)
	defer cancel()
	p, err := startPush(ctx, js, c.w.Server.In.Name(), start, func(m *nats.Msg) { c.acceptMessage(r, m) }, func(err error) { c.loseReading(r, err) })
	if err != nil {
		return nil, fmt.Errorf("pipeline: common consumer: %w", err)
	}
	return p, nil
}

// loseReading ends a reading after a fault of the consumer.
func (c *Common) loseReading(r *commonReading, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.over {
		return
	}
	c.w.Counters.Resets.Add(1)
	c.w.Log.Debug("common consumer lost: each partition reads by its own for a while", "err", err)
	if c.endReading(); errors.Is(err, errNoFlow) {
		c.after = time.Now().Add(refusedTime)
	}
}

// acceptMessage passes a message to the message's partition.
func (c *Common) acceptMessage(r *commonReading, m *nats.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		c.StopSharing() // the message's partition will report the problem
		return
	}
	at := wire.Place{Seq: meta.Sequence.Stream, Stored: meta.Timestamp.UnixNano()}
	defer c.passMember(r, at.Seq)
	member := c.followMember(r, m.Subject, at.Seq, meta.Sequence.Consumer, int64(meta.NumPending))
	if member == nil || member.handMessage(m, at) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != r {
		return
	}
	for _, other := range r.members { // other members of the shard would wait as long
		if other != nil && other.t.shard == member.t.shard {
			c.splitOff(r, other.t)
		}
	}
	if r.joined == 0 {
		c.endReading()
	}
}

// passMember records a message as passed on, or as a message of no member.
func (c *Common) passMember(r *commonReading, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.handed = seq
}

// followMember records a received message, and returns the member; nil = none. If
// earlier messages may be missing, all partitions leave.
func (c *Common) followMember(r *commonReading, subject string, seq, ofConsumer uint64, unread int64) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.over {
		return nil
	}
	if ofConsumer != r.count+1 || r.count > 0 && unread+1 < r.unread { // see Receive
		c.w.Counters.Resets.Add(1)
		c.endReading()
		return nil
	}
	r.count, r.at, r.unread = ofConsumer, seq, unread
	if part, _, ok := c.w.Server.In.PlaceOf(subject); ok && part >= 0 && part < len(r.members) {
		return r.members[part]
	}
	return nil
}

// handMessage passes the message to the partition's shard. If it returns false, the
// partition has not received the message and must leave.
func (m *member) handMessage(msg *nats.Msg, at wire.Place) bool {
	t := m.t
	v := &t.Input
	switch {
	case t.ctx.Err() != nil || at.Seq <= v.passed.Load():
		return true
	case v.Doubt.Load():
		return false
	}
	lost, same := false, true
	if !m.asked {
		if lost, same = t.checkSameInput(at); !same {
			return true
		}
		m.asked = true
	}
	t.part.Waiting.Add(1)
	if !t.queueJob(t.newJob(msg.Subject, msg.Header, msg.Data, at, lost)) {
		t.part.Waiting.Add(-1)
		return t.ctx.Err() != nil
	}
	v.Came.Store(at)
	v.brought.Store(at.Seq)
	v.passed.Store(at.Seq)
	return true
}

// queueJob waits for room in the shard's queue, but not for long.
func (t *Ownership) queueJob(j shard.Job) bool {
	select {
	case t.shard.Queue <- j:
		return true
	default:
	}
	late := time.NewTimer(queuePatience)
	defer late.Stop()
	select {
	case t.shard.Queue <- j:
		return true
	case <-t.ctx.Done():
	case <-late.C:
	}
	return false
}

// memberShare returns the number of unread messages per partition, as far as known: the
// server's count at the last message, or the messages received since, if larger. Under
// overload, tens of thousands of messages wait in this process.
func (c *Common) memberShare() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.now
	if r == nil {
		return 0
	}
	unread := max(0, r.unread)
	if r.behind != nil {
		unread = max(unread, r.behind())
	}
	n := max(1, r.joined)
	return (unread + n - 1) / n
}
