//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The job's names, as package pipeline documents them.
const (
	job           = "chaos"
	inputStream   = "CHAOS-IN"
	outputStream  = "CHAOS-OUT"
	deadStream    = "CHAOS-DLQ"
	rowStream     = "CHAOS-ROWS"
	subjectPrefix = "sensors."

	snapStream   = "OBJ_CHAOS-SNAP"
	memberStream = "KV_CHAOS-MEMBERS"
	alarmStream  = "CHAOS-ALARMS"

	headerSeq   = "Eusn-Seq"
	headerPlan  = "Chaos-Seq" // of messages without a number
	headerCRC   = "Eusn-Crc"
	headerInSeq = "Eusn-In-Seq"
	headerKind  = "Eusn-Kind"
)

// partitionOf is the server's partition(n,1) of a key.
func partitionOf(key string, n int) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32() % uint32(n))
}

// retryRequest repeats a request until the first answer or the end of ctx: while a
// cluster elects a leader, requests may remain unanswered.
func retryRequest(ctx context.Context, request func(context.Context) error) error {
	for {
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		err := request(try)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// streamsWithin is how long a first worker may take to create the NATS streams.
const streamsWithin = 60 * time.Second

// awaitStreams returns when the job's NATS streams exist, created by a worker.
func awaitStreams(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, streamsWithin)
	defer cancel()
	for _, name := range []string{inputStream, outputStream, deadStream} {
		err := retryRequest(ctx, func(ctx context.Context) error { _, err := js.Stream(ctx, name); return err })
		if err != nil {
			return fmt.Errorf("chaos: no worker made NATS stream %s within %v: %w", name, streamsWithin, err)
		}
	}
	return nil
}

// lastSeq asks the server for the last message number of a NATS stream.
func lastSeq(ctx context.Context, js jetstream.JetStream, name string) (last uint64, err error) {
	state, err := stateOf(ctx, js, name)
	return state.LastSeq, err
}

// stateOf asks the server for the state of a NATS stream.
func stateOf(ctx context.Context, js jetstream.JetStream, name string) (state jetstream.StreamState, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var answered error // by the server; the last try may end without an answer
	err = retryRequest(ctx, func(ctx context.Context) error {
		s, err := js.Stream(ctx, name)
		if err == nil {
			state = s.CachedInfo().State
		}
		if err == nil || errors.Is(err, jetstream.ErrStreamNotFound) {
			answered = err
		}
		return err
	})
	if err != nil {
		err = cmp.Or(answered, err)
		return state, fmt.Errorf("chaos: NATS stream %s: %w", name, err)
	}
	return state, nil
}

// answerWithin is the longest time for an answer while all servers run.
const answerWithin = 20 * time.Second

// stored is a message in a NATS stream.
type stored struct {
	seq       uint64
	time      time.Time
	tokens    []string // of the subject
	partition int
	subject   string
	header    nats.Header
	data      []byte
}

var errEnough = errors.New("enough")

// readOn calls fn with the messages of a NATS stream after number from, up to the current
// last message, and returns the last number. holes: messages or the NATS stream may be
// missing, lost by the servers.
func readOn(ctx context.Context, js jetstream.JetStream, name string, from uint64, holes bool, fn func(stored) error) (uint64, error) {
	state, err := stateOf(ctx, js, name)
	last := state.LastSeq
	switch {
	case holes && errors.Is(err, jetstream.ErrStreamNotFound):
		return from, nil
	case err != nil || last <= from:
		return from, err
	case holes && state.Msgs == 0:
		return last, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("chaos: reading %s from %d to %d took more than a minute", name, from+1, last))
	defer cancel()
	if holes {
		if leader, err := replicated(ctx, js, name); err != nil || leader != nil {
			return last, errors.Join(err, readLeader(ctx, leader, from, last, fn))
		}
	}
	var cons jetstream.Consumer
	err = retryRequest(ctx, func(ctx context.Context) error {
		cons, err = js.OrderedConsumer(ctx, name, jetstream.OrderedConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from + 1,
		})
		return err
	})
	if err != nil {
		return from, fmt.Errorf("chaos: consumer on %s: %w", name, err)
	}
	next := from
	return last, consume(ctx, cons, func(s stored) error {
		if s.seq != next+1 && !holes {
			return fmt.Errorf("chaos: %s: message %d follows %d: messages are missing", name, s.seq, next)
		}
		next = s.seq
		if err := fn(s); err != nil || next < last {
			return err
		}
		return errEnough
	})
}

// replicated returns the NATS stream if it has several replicas, or if its last message was
// deleted, for which a consumer would wait; otherwise nil.
func replicated(ctx context.Context, js jetstream.JetStream, name string) (s jetstream.Stream, err error) {
	err = retryRequest(ctx, func(ctx context.Context) error { s, err = js.Stream(ctx, name); return err })
	if err != nil {
		return nil, fmt.Errorf("chaos: NATS stream %s: %w", name, err)
	}
	if c := s.CachedInfo().Cluster; c != nil && len(c.Replicas) > 0 {
		return s, nil
	}
	if _, err := s.GetMsg(ctx, s.CachedInfo().State.LastSeq); errors.Is(err, jetstream.ErrMsgNotFound) {
		return s, nil
	}
	return nil, nil
}

// readLeader is readOn with requests to the NATS stream's leader for each message. A
// consumer may be on another server. After a power loss of servers with unsynced data,
// the replica of that server may have another history: with nats-server 2.15.2 it keeps
// messages lost by the leader, and skips the leader's new messages.
func readLeader(ctx context.Context, leader jetstream.Stream, from, last uint64, fn func(stored) error) error {
	for next := from + 1; next <= last; {
		var m *jetstream.RawStreamMsg
		err := retryRequest(ctx, func(ctx context.Context) (err error) {
			m, err = leader.GetMsg(ctx, next, jetstream.WithGetMsgSubject(">"))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil
			}
			return err
		})
		if err != nil || m == nil {
			return err
		}
		s, err := parseSubject(stored{seq: m.Sequence, time: m.Time, subject: m.Subject, header: m.Header, data: m.Data})
		if err == nil {
			err = fn(s)
		}
		if err != nil {
			return err
		}
		next = m.Sequence + 1
	}
	return nil
}

// consume calls fn for each message until fn returns an error; errEnough means success.
func consume(ctx context.Context, cons jetstream.Consumer, fn func(stored) error) error {
	end, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cc, err := cons.Consume(func(m jetstream.Msg) {
		if end.Err() != nil {
			return
		}
		meta, err := m.Metadata()
		if err != nil {
			err = fmt.Errorf("chaos: message on %s: %w", m.Subject(), err)
		}
		var s stored
		if err == nil {
			s, err = parseSubject(stored{seq: meta.Sequence.Stream, time: meta.Timestamp, subject: m.Subject(), header: m.Headers(), data: m.Data()})
		}
		if err == nil {
			err = fn(s)
		}
		if err != nil {
			stop(err)
		}
	}, jetstream.PullMaxBytes(8<<20), jetstream.PullHeartbeat(500*time.Millisecond))
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	<-end.Done()
	cc.Stop()
	<-cc.Closed() // from here on fn is not called
	if err := context.Cause(end); err != errEnough {
		return err
	}
	return nil
}

// parseSubject parses the subject of a message of the job: <job>.<in|out|dlq>.<p>...
func parseSubject(s stored) (stored, error) {
	s.tokens = strings.Split(s.subject, ".")
	if len(s.tokens) < 3 || s.tokens[0] != job {
		return s, fmt.Errorf("chaos: subject %s, want %s.<kind>.<partition>", s.subject, job)
	}
	if s.tokens[1] == "out" && s.tokens[2] == "job" { // the job's entry
		s.partition = -1
		return s, nil
	}
	p, err := strconv.Atoi(s.tokens[2])
	s.partition = p
	return s, err
}

// parseNumber parses a numeric header.
func (s *stored) parseNumber(header string) (uint64, error) {
	v, err := strconv.ParseUint(s.header.Get(header), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("chaos: message %d on %s: header %s: %w", s.seq, s.subject, header, err)
	}
	return v, nil
}
