package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// ErrNoAlarms means that no process ever kept the job's alarms.
var ErrNoAlarms = errors.New("the job has no alarm log: its first alarm process creates the log")

const forgetAfter = 30 * time.Second

// ActiveAlarms returns the last event of each active alarm (raised or acknowledged), sorted by rule
// and key.
func ActiveAlarms(ctx context.Context, js jetstream.JetStream, job string) (on []alarm.Event, err error) {
	err = readLog(ctx, js, job, false, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: []string{wire.AlarmEvents(job)}}, func(e alarm.Event) error {
		if e.Kind != alarm.Cleared {
			on = append(on, e)
		}
		return nil
	})
	slices.SortFunc(on, func(a, b alarm.Event) int {
		return cmp.Or(strings.Compare(a.Rule, b.Rule), strings.Compare(a.Key, b.Key))
	})
	return on, err
}

// ReadEvents passes the events of the alarm log to fn in order, starting with events stored at a
// time (zero: only new events). With follow, new events are included until ctx ends (nil) or fn
// returns an error, which ReadEvents returns.
func ReadEvents(ctx context.Context, js jetstream.JetStream, job string, since time.Time, follow bool, fn func(alarm.Event) error) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy, FilterSubjects: []string{wire.AlarmEvents(job), wire.AlarmRulesSubject(job)}}
	if !since.IsZero() {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	}
	return readLog(ctx, js, job, follow, cfg, fn)
}

// ReadKeyEvents passes the stored events of a key (a stream, or the match of a rule's by) since a
// time to fn, in order.
func ReadKeyEvents(ctx context.Context, js jetstream.JetStream, job, key string, since time.Time, fn func(alarm.Event) error) error {
	return readLog(ctx, js, job, false, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since, FilterSubjects: []string{wire.AlarmSubject(job, "*", alarm.Token(key))},
	}, fn)
}

// FollowAlarms passes the last event of each alarm to fn, in order, then new events, until ctx ends
// (nil) or fn returns an error, which FollowAlarms returns.
func FollowAlarms(ctx context.Context, js jetstream.JetStream, job string, fn func(alarm.Event) error) error {
	return readLog(ctx, js, job, true, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: []string{wire.AlarmEvents(job)}}, fn)
}

// ReadLatest returns the bucket's entry for a stream; nil without an entry. The error is
// ErrNoAlarms if the bucket does not exist.
func ReadLatest(ctx context.Context, js jetstream.JetStream, job, stream string) (*alarm.Latest, error) {
	bucket, err := js.KeyValue(ctx, wire.LatestBucket(job))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("watch: job %q: %w", job, ErrNoAlarms)
	}
	if err != nil {
		return nil, fmt.Errorf("watch: bucket %s: %w", wire.LatestBucket(job), err)
	}
	e, err := bucket.Get(ctx, alarm.Token(stream))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("watch: bucket %s: %w", wire.LatestBucket(job), err)
	}
	known := new(alarm.Latest)
	if err := json.Unmarshal(e.Value(), known); err != nil {
		return nil, fmt.Errorf("watch: bucket %s: entry of stream %q: %w", wire.LatestBucket(job), stream, err)
	}
	return known, nil
}

// ReadAllLatest passes the bucket's entries of all streams to fn. Without the bucket there are none.
func ReadAllLatest(ctx context.Context, js jetstream.JetStream, job string, fn func(*alarm.Latest)) error {
	failed := func(err error) error { return fmt.Errorf("watch: bucket %s: %w", wire.LatestBucket(job), err) }
	bucket, err := js.KeyValue(ctx, wire.LatestBucket(job))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil
	}
	if err != nil {
		return failed(err)
	}
	entries, err := bucket.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return failed(err)
	}
	defer entries.Stop()
	for {
		select {
		case <-ctx.Done():
			return failed(ctx.Err())
		case e := <-entries.Updates():
			if e == nil { // the end of the existing entries
				return nil
			}
			known := new(alarm.Latest)
			if json.Unmarshal(e.Value(), known) == nil { // else foreign
				fn(known)
			}
		}
	}
}

// CurrentRules returns the event that set the current rules; nil without any.
func CurrentRules(ctx context.Context, js jetstream.JetStream, job string) (*alarm.Event, error) {
	s, err := openLog(ctx, js, job)
	if err != nil {
		return nil, err
	}
	m, err := s.GetLastMsgForSubject(ctx, wire.AlarmRulesSubject(job))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("watch: NATS stream %s: %w", wire.AlarmStream(job), err)
	}
	e, err := alarm.Unmarshal(m.Data)
	if err != nil {
		e, err = lastValidEvent(ctx, js, job, m.Subject, true)
	}
	if errors.Is(err, errNoMessage) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("watch: NATS stream %s: %w", wire.AlarmStream(job), err)
	}
	return &e, nil
}

// lastValidEvent returns the last event of a subject whose newest message is foreign. The error is
// errNoMessage if the subject has no event, or if wanted is false.
func lastValidEvent(ctx context.Context, js jetstream.JetStream, job, subject string, wanted bool) (last alarm.Event, err error) {
	if !wanted {
		return last, errNoMessage
	}
	cons, err := js.OrderedConsumer(ctx, wire.AlarmStream(job), jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}, InactiveThreshold: forgetAfter})
	if err != nil {
		return last, err
	}
	if info := cons.CachedInfo(); info != nil && info.NumPending == 0 {
		return last, errNoMessage
	}
	err = natsclient.Each(ctx, cons, stopTimeout, func(m jetstream.Msg) error {
		if e, err := alarm.Unmarshal(m.Data()); err == nil {
			last = e
		}
		if meta, err := m.Metadata(); err != nil || meta.NumPending == 0 {
			return cmp.Or(err, errEnough)
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough) && last.Number == 0:
		return last, errNoMessage
	case errors.Is(err, errEnough):
		return last, nil
	}
	return last, err
}

func openLog(ctx context.Context, js jetstream.JetStream, job string) (jetstream.Stream, error) {
	s, err := js.Stream(ctx, wire.AlarmStream(job))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("watch: job %q: %w", job, ErrNoAlarms)
	}
	if err != nil {
		return nil, fmt.Errorf("watch: NATS stream %s: %w", wire.AlarmStream(job), err)
	}
	return s, nil
}

func readLog(ctx context.Context, js jetstream.JetStream, job string, follow bool, cfg jetstream.OrderedConsumerConfig, fn func(alarm.Event) error) error {
	s, err := openLog(ctx, js, job)
	if err != nil {
		return err
	}
	if !follow && s.CachedInfo().State.LastSeq == 0 { // the stage created the empty stream
		return fmt.Errorf("watch: job %q: %w", job, ErrNoAlarms)
	}
	failed := func(err error) error { return readFailure(ctx, job, follow, err) }
	cfg.InactiveThreshold = forgetAfter
	cons, err := js.OrderedConsumer(ctx, wire.AlarmStream(job), cfg)
	if err != nil {
		return failed(err)
	}
	if info := cons.CachedInfo(); !follow && info != nil && info.NumPending == 0 {
		return nil
	}
	var refused error // by fn
	err = natsclient.Each(ctx, cons, stopTimeout, func(m jetstream.Msg) error {
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		switch e, err := readEvent(ctx, js, job, m, cfg.DeliverPolicy == jetstream.DeliverLastPerSubjectPolicy); {
		case errors.Is(err, errNoMessage):
		case err != nil:
			return err
		default:
			refused = fn(e)
		}
		if refused != nil || !follow && meta.NumPending == 0 {
			return errEnough
		}
		return nil
	})
	if err != errEnough {
		return failed(err)
	}
	return refused
}

// readEvent returns the event of a message. A foreign message has none; if only the newest
// messages of subjects are read, the last event before it counts.
func readEvent(ctx context.Context, js jetstream.JetStream, job string, m jetstream.Msg, newest bool) (alarm.Event, error) {
	e, err := alarm.Unmarshal(m.Data())
	if err != nil {
		return lastValidEvent(ctx, js, job, m.Subject(), newest)
	}
	return e, nil
}

// readFailure returns the error of reading the alarm log; nil if a following reader's ctx ended.
func readFailure(ctx context.Context, job string, follow bool, err error) error {
	if err == nil || ctx.Err() != nil && follow {
		return nil
	}
	return fmt.Errorf("watch: NATS stream %s: %w", wire.AlarmStream(job), err)
}
