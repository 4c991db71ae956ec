package page

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

const (
	pastTime   = 1500 * time.Millisecond // to read events and labels
	pastEvents = 30 * 24 * time.Hour
	mostPast   = 50 // events, and labels
)

// Past is what persons and rules have stated about a stream. A list is null if unknown.
type Past struct {
	Events []AlarmEvent `json:"events"` // of the last 30 days, newest first
	Labels []GivenLabel `json:"labels"` // newest first
}

// AlarmEvent is an event of an alarm of a stream.
type AlarmEvent struct {
	Time  time.Time `json:"time"`
	Kind  string    `json:"event"`
	Rule  string    `json:"rule"`
	Class string    `json:"class,omitempty"`
	Who   string    `json:"who,omitempty"`
	Why   string    `json:"why,omitempty"`

	Level    string `json:"level,omitempty"`    // see alarm.Event.NoveltyText
	Channels string `json:"channels,omitempty"` // with shares, see alarm.ChannelShare
}

// GivenLabel is a person's statement about a part of a stream.
type GivenLabel struct {
	Class string    `json:"label"`
	From  time.Time `json:"from,omitzero"` // of the samples; zero: of the sequence of prediction Seq
	To    time.Time `json:"to,omitzero"`
	Seq   uint64    `json:"seq,omitempty"`
	Row   uint32    `json:"row,omitempty"`
	Who   string    `json:"who"`
	When  time.Time `json:"when"`
}

// lookUpMachine returns the last predictions of a stream, its condition and its past.
func (p *Page) lookUpMachine(ctx context.Context, job *Job, stream string) (*Found, error) {
	var past Past
	var reading sync.WaitGroup
	try, cancel := context.WithTimeout(ctx, pastTime)
	defer cancel()
	reading.Go(func() { past.Events = readAlarmEvents(try, job.JS, p.options.Job, stream) })
	reading.Go(func() { past.Labels = readLabels(try, job.JS, p.options.Job, stream) })
	found, err := p.finder.lookUp(ctx, job, p.options.Job, stream)
	reading.Wait()
	if err != nil {
		return nil, err
	}
	found.Past = past
	found.Machine = p.machines.find(found, time.Now(), p.lateness())
	return found, nil
}

// find returns a machine of the table; otherwise as the predictions found show it, nil without any.
func (t *machines) find(found *Found, now time.Time, late time.Duration) *Row {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.all[found.Stream]
	if m == nil {
		if len(found.hits) == 0 {
			return nil
		}
		m = &machine{name: found.Stream, first: t.from}
		for _, h := range slices.Backward(found.hits) {
			m.addPrediction(&h.p, newClasses(h.labels), h.stored)
		}
	}
	j := t.judge(m, t.clock(now, late))
	r := j.row()
	return &r
}

// readAlarmEvents reads the events of a stream's alarms; nil if they are unknown.
func readAlarmEvents(ctx context.Context, js jetstream.JetStream, job, stream string) []AlarmEvent {
	all := []AlarmEvent{}
	err := watch.ReadKeyEvents(ctx, js, job, stream, time.Now().Add(-pastEvents), func(e alarm.Event) error {
		all = append(all, AlarmEvent{e.Time, e.Kind, e.Rule, e.Class, e.Who, e.Why, e.NoveltyText(), e.ChannelsText()})
		all = all[max(0, len(all)-mostPast):]
		return nil
	})
	if err != nil && !errors.Is(err, watch.ErrNoAlarms) {
		return nil
	}
	slices.Reverse(all)
	return all
}

// readLabels reads the labels of a stream; nil if they are unknown.
func readLabels(ctx context.Context, js jetstream.JetStream, job, stream string) []GivenLabel {
	var stored []labels.Stored
	err := labels.Read(ctx, js, job, stream, func(l labels.Stored) error {
		stored = append(stored, l)
		return nil
	}, func(uint64, error) {})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	all := []GivenLabel{}
	for _, l := range labels.Current(stored) {
		g := GivenLabel{Class: l.Label.Class, Seq: l.Label.Seq, Row: l.Label.Row, Who: l.Label.Who, When: l.Label.When}
		if l.Label.Seq == 0 {
			g.From, g.To = time.Unix(0, l.Label.From).UTC(), time.Unix(0, l.Label.To).UTC()
		}
		all = append(all, g)
	}
	slices.SortStableFunc(all, func(a, b GivenLabel) int { return cmp.Compare(b.When.UnixNano(), a.When.UnixNano()) })
	return all[:min(mostPast, len(all))]
}
