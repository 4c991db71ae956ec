package watchcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli/live"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/discover"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

const (
	findTime    = 15 * time.Second // before machines and channels are chosen
	fewestSeen  = 5                // messages of a machine before that
	tickEvery   = 250 * time.Millisecond
	reportEvery = 10 * time.Second
	mostValues  = 40_000_000 // kept; then the learning ends early
	extensions  = 4          // of the learning of machines that are not steady
)

// collector finds machines in messages, and collects their samples.
type collector struct {
	w        *watcher
	base     config.Config
	observer discover.Observer
	kind     *discover.Kind // nil: not found yet
	chosen   *discover.Kind // of an address space: kind is nil until its period is known
	conf     config.Config
	text     string // of the configuration file, without model and rules
	intake   *live.Intake
	samples  *discover.Samples
	refused  int
	why      error // of the first refused message

	until    time.Duration // of the learning
	extended int
	reported time.Time
	said     string
	lacked   bool         // the last report named a lack
	results  chan trained // nil: no training runs
}

// trained is the result of a training.
type trained struct {
	learned *learned
	sensors []discover.Sensor
	err     error
}

// watchSource finds machines, learns and saves the configuration.
func (w *watcher) watchSource(ctx context.Context) (*saved, error) {
	base, err := config.Load("", nil, nil, nil)
	if err != nil {
		return nil, err
	}
	if err := checkFolder(w.o.dir); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	messages, calls, failed := make(chan discover.Message, 1<<16), make(chan func(), 1<<10), make(chan error, 1)
	c := &collector{w: w, base: base, until: w.o.learn, reported: time.Now()}
	go func() { failed <- c.observe(ctx, messages, calls) }()
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case m := <-messages:
			c.take(m)
		case f := <-calls:
			f()
		case err := <-failed:
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err == nil {
				err = errors.New("the source has ended")
			}
			return nil, err
		case <-tick.C:
			if err := c.continueLearning(ctx); err != nil {
				return nil, err
			}
		case t := <-c.results:
			c.results = nil
			s, err := c.takeTrained(t)
			if s != nil || err != nil {
				return s, err
			}
		}
	}
}

// observe reads the source until ctx ends: messages, or the calls of an address space.
func (c *collector) observe(ctx context.Context, messages chan<- discover.Message, calls chan<- func()) error {
	if c.w.at.scheme == schemeOPCUA {
		return c.observeVariables(ctx, calls)
	}
	return c.w.at.observe(ctx, c.w.app, c.base, func(m discover.Message) {
		select {
		case messages <- m:
		case <-ctx.Done():
		}
	})
}

// take takes a message.
func (c *collector) take(m discover.Message) {
	if c.kind == nil {
		if !c.observer.Add(m) {
			c.reported = time.Time{} // choose now
		}
		return
	}
	parts, err := c.intake.Take(m.Topic, m.Payload, m.At)
	if err != nil {
		if c.refused++; c.why == nil {
			c.why = err
		}
		return
	}
	if c.samples.Count*len(c.samples.Channels) >= mostValues {
		return
	}
	for _, p := range parts {
		c.samples.Add(p.Key, p.X, p.Times, m.At.UnixNano())
	}
}

// continueLearning goes on with finding or learning.
func (c *collector) continueLearning(ctx context.Context) error {
	elapsed := time.Since(c.w.begin)
	if c.w.at.scheme == schemeOPCUA && c.kind == nil {
		c.reportUnchanged()
		return nil
	}
	if c.kind == nil {
		return c.find(ctx, elapsed)
	}
	full := c.samples.Count*len(c.samples.Channels) >= mostValues
	var l lack
	if due := elapsed >= c.until || full; due && c.results == nil {
		sensors, rate := c.samples.Grade(), c.samples.Rate()
		if l = lackOf(c.samples, sensors, rate); l.text == "" {
			c.w.out.say("training with %d samples of %d %s", c.samples.Count, len(c.samples.Machines), plural(len(c.samples.Machines), "machine"))
			c.startTraining(ctx, c.samples.Snapshot(), sensors, rate)
			return nil
		}
	}
	c.report(elapsed, l)
	return nil
}

// find chooses machines and channels when enough messages were seen.
func (c *collector) find(ctx context.Context, elapsed time.Duration) error {
	if wait := min(findTime, c.w.o.learn/4); elapsed < wait && !c.reported.IsZero() {
		return nil
	}
	if !c.reported.IsZero() && time.Since(c.reported) < time.Second {
		return nil
	}
	l := discover.Find(c.observer.Messages)
	if c.needsMore(l) {
		c.reported = time.Now()
		return nil
	}
	var err error
	if c.kind, err = c.chooseKind(l); err != nil {
		return err
	}
	c.text = c.w.configText(c.base.Gateway, c.kind, c.kind.Channels)
	if c.conf, err = config.Load("", []byte(c.text), nil, nil); err != nil {
		return fmt.Errorf("the configuration of the machines: %w", err)
	}
	if c.w.at.scheme == schemeNATS {
		if err := c.w.checkServer(ctx, c.conf); err != nil {
			return err
		}
		c.conf.Gateway.Topics, c.conf.Input.Keys = c.kind.Topics, c.kind.Keys
	}
	if c.intake, err = live.NewIntake(c.conf, c.kind.Channels); err != nil {
		return err
	}
	c.samples = discover.NewSamples(c.kind.Channels)
	kept := c.observer.Messages
	c.observer = discover.Observer{}
	for _, m := range kept {
		c.take(m)
	}
	c.w.printSensors(c.samples, c.samples.Grade())
	c.reported = time.Now()
	return nil
}

// needsMore reports whether more messages are needed to choose the kind, and prints the reason.
func (c *collector) needsMore(l discover.Layout) bool {
	text, n := fmt.Sprintf("no machines with numbers yet: %d messages", len(c.observer.Messages)), len(l.Kinds)
	if n > 0 && n < c.w.o.kind {
		text = fmt.Sprintf("no machines of kind %d yet: the messages have %d %s of machines", c.w.o.kind, n, plural(n, "kind"))
	}
	if n >= c.w.o.kind && c.seenEnough(l) || n > 0 && c.reported.IsZero() {
		return false
	}
	if text != c.said {
		c.said = text
		if len(l.Other) > 0 {
			text += fmt.Sprintf(", such as %s (%s)", names.Cut(l.Other[0].Topic, 80), names.Cut(l.Other[0].Why, 100))
		}
		c.w.out.say("%s", text)
		c.w.out.event("waiting", map[string]any{"lacks": text})
	}
	return true
}

// chooseKind prints the kinds, and returns the kind to watch.
func (c *collector) chooseKind(l discover.Layout) (*discover.Kind, error) {
	c.w.out.event("found", c.w.foundFields(l))
	c.w.printKinds(l)
	if c.w.kinds = l.Kinds; c.w.o.kind > len(l.Kinds) {
		return nil, fmt.Errorf("--kind %d: there are %d kinds of machines", c.w.o.kind, len(l.Kinds))
	}
	return &l.Kinds[c.w.o.kind-1], nil
}

// reportUnchanged reports that the period of the variables is not known yet.
func (c *collector) reportUnchanged() {
	if c.chosen == nil || time.Since(c.reported) < reportEvery {
		return
	}
	c.reported = time.Now()
	n := len(c.chosen.Machines) * len(c.chosen.Channels)
	text := fmt.Sprintf("measuring how often %d %s change: at least half of the machines must change", n, plural(n, "variable"))
	c.w.out.say("%s", text)
	c.w.out.event("waiting", map[string]any{"lacks": text})
}

// seenEnough reports whether a machine of the chosen kind has enough messages.
func (c *collector) seenEnough(l discover.Layout) bool {
	machines := 0
	for _, k := range l.Kinds {
		machines += len(k.Machines) * map[bool]int{true: len(k.Channels), false: 1}[k.Single]
	}
	return len(c.observer.Messages) >= fewestSeen*machines
}

// report reports the progress of the learning.
func (c *collector) report(elapsed time.Duration, l lack) {
	if told := l.text == "" || c.lacked; told && time.Since(c.reported) < reportEvery {
		return
	}
	c.lacked = l.text != ""
	c.reported = time.Now()
	machines := len(c.samples.Machines)
	text := fmt.Sprintf("learning healthy: %.0f of %.0f s, %d %s of one kind, %d samples", elapsed.Seconds(), c.until.Seconds(), machines, plural(machines, "machine"), c.samples.Count)
	fields := map[string]any{"of": c.until.Seconds(), "machines": machines, "samples": c.samples.Count}
	switch {
	case c.results != nil:
		text = fmt.Sprintf("training: %d samples", c.samples.Count)
	case l.text != "":
		text += "; not enough yet: " + l.text
		if l.more > 0 {
			text += fmt.Sprintf("; about %v more", l.more.Round(time.Second))
		}
		fields["lacks"] = l.text
	}
	if c.refused > 0 {
		text += fmt.Sprintf("; %d messages refused (%s)", c.refused, names.Cut(c.why.Error(), 100))
	}
	c.w.out.say("%s", text)
	c.w.out.event("learning", fields)
}

// startTraining trains while messages are collected.
func (c *collector) startTraining(ctx context.Context, s *discover.Samples, sensors []discover.Sensor, rate float64) {
	results := make(chan trained, 1)
	c.results = results
	go func() {
		l, err := c.w.train(ctx, s, sensors, rate)
		results <- trained{l, sensors, err}
	}()
}

// takeTrained saves the configuration of a training, or extends the learning (nil).
func (c *collector) takeTrained(t trained) (*saved, error) {
	if t.err != nil {
		return nil, t.err
	}
	if changed := t.learned.changed(); changed != "" && c.extended < extensions {
		c.extended++
		c.until = time.Since(c.w.begin) + c.w.o.learn/2
		c.w.out.say("%s; learning until %.0f s", changed, c.until.Seconds())
		c.w.out.event("unsteady", map[string]any{"lacks": changed, "until": c.until.Seconds()})
		return nil, nil
	} else if changed != "" {
		c.w.out.say("warning: %s; there will be more false alarms", changed)
	}
	c.w.printSensors(c.samples, t.sensors)
	names, _ := usedChannels(t.sensors)
	return c.w.save(t.learned, c.w.configText(c.base.Gateway, c.kind, names))
}
