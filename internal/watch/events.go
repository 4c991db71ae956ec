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

// ErrNoAlarms is that of a job whose alarms nobody has kept.
var ErrNoAlarms = errors.New("there is no alarm log: alarms run begins it, and has not run for this job")

const forgetAfter = 30 * time.Second

// On are the alarms that are on: the event of each that raised or acknowledged it, by
// rule and key.
func On(ctx context.Context, js jetstream.JetStream, job string) (on []alarm.Event, err error) {
	err = read(ctx, js, job, false, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: []string{wire.AlarmEvents(job)}}, func(e alarm.Event) error {
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

// Events hands the events of the alarm log to fn in their order: those that were stored
// since a time (zero: those that come from now on), then with follow those that come, until
// ctx ends (nil) or fn returns an error, which it returns.
func Events(ctx context.Context, js jetstream.JetStream, job string, since time.Time, follow bool, fn func(alarm.Event) error) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy, FilterSubjects: []string{wire.AlarmEvents(job), wire.AlarmRulesSubject(job)}}
	if !since.IsZero() {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	}
	return read(ctx, js, job, follow, cfg, fn)
}

// State hands the last event of each alarm to fn, in their order, then those that come,
// until ctx ends (nil) or fn returns an error, which it returns.
func State(ctx context.Context, js jetstream.JetStream, job string, fn func(alarm.Event) error) error {
	return read(ctx, js, job, true, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: []string{wire.AlarmEvents(job)}}, fn)
}

// LatestOf is what is known of a stream; nil where nothing is. The error is ErrNoAlarms
// where nobody has kept it yet.
func LatestOf(ctx context.Context, js jetstream.JetStream, job, stream string) (*alarm.Latest, error) {
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
		return nil, fmt.Errorf("watch: bucket %s: what is known of stream %q: %w", wire.LatestBucket(job), stream, err)
	}
	return known, nil
}

// CurrentRules are the rules that hold, and the event that says so; nil without any.
func CurrentRules(ctx context.Context, js jetstream.JetStream, job string) (*alarm.Event, error) {
	s, err := open(ctx, js, job)
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
		e, err = before(ctx, js, job, m.Subject, true)
	}
	if errors.Is(err, errNone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("watch: NATS stream %s: %w", wire.AlarmStream(job), err)
	}
	return &e, nil
}

// before is the last event of a subject whose last message is none; errNone without one, or
// where it is not wanted.
func before(ctx context.Context, js jetstream.JetStream, job, subject string, wanted bool) (last alarm.Event, err error) {
	if !wanted {
		return last, errNone
	}
	cons, err := js.OrderedConsumer(ctx, wire.AlarmStream(job), jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}, InactiveThreshold: forgetAfter})
	if err != nil {
		return last, err
	}
	if info := cons.CachedInfo(); info != nil && info.NumPending == 0 {
		return last, errNone
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
		return last, errNone
	case errors.Is(err, errEnough):
		return last, nil
	}
	return last, err
}

func open(ctx context.Context, js jetstream.JetStream, job string) (jetstream.Stream, error) {
	s, err := js.Stream(ctx, wire.AlarmStream(job))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("watch: job %q: %w", job, ErrNoAlarms)
	}
	if err != nil {
		return nil, fmt.Errorf("watch: NATS stream %s: %w", wire.AlarmStream(job), err)
	}
	return s, nil
}

func read(ctx context.Context, js jetstream.JetStream, job string, follow bool, cfg jetstream.OrderedConsumerConfig, fn func(alarm.Event) error) error {
	s, err := open(ctx, js, job)
	if err != nil {
		return err
	}
	if !follow && s.CachedInfo().State.LastSeq == 0 { // a stage has made it
		return fmt.Errorf("watch: job %q: %w", job, ErrNoAlarms)
	}
	failed := func(err error) error { return readFailure(ctx, job, follow, err) }
	it, err := openMessages(ctx, js, job, follow, cfg)
	if err != nil {
		return failed(err)
	}
	if it == nil {
		return nil
	}
	defer it.Stop()
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			return failed(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return failed(err)
		}
		e, err := alarm.Unmarshal(m.Data())
		if err != nil { // it is no event; an event of that alarm may be before it
			e, err = before(ctx, js, job, m.Subject(), cfg.DeliverPolicy == jetstream.DeliverLastPerSubjectPolicy)
		}
		switch {
		case errors.Is(err, errNone):
		case err != nil:
			return failed(err)
		default:
			if err := fn(e); err != nil {
				return err
			}
		}
		if !follow && meta.NumPending == 0 {
			return nil
		}
	}
}

// readFailure is the error of reading the alarm log. What follows the log ends without one
// when ctx does.
func readFailure(ctx context.Context, job string, follow bool, err error) error {
	if err == nil || ctx.Err() != nil && follow {
		return nil
	}
	return fmt.Errorf("watch: NATS stream %s: %w", wire.AlarmStream(job), err)
}

// openMessages opens the messages of the alarm log; it is nil if there are none and none are
// waited for.
func openMessages(ctx context.Context, js jetstream.JetStream, job string, wait bool, cfg jetstream.OrderedConsumerConfig) (it jetstream.MessagesContext, err error) {
	cfg.InactiveThreshold = forgetAfter
	cons, err := js.OrderedConsumer(ctx, wire.AlarmStream(job), cfg)
	if err != nil {
		return nil, err
	}
	if info := cons.CachedInfo(); !wait && info != nil && info.NumPending == 0 {
		return nil, nil
	}
	return cons.Messages()
}
