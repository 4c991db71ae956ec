package modbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/image"
	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/loop"
)

// A unit that does not answer is asked again after firstWait, then twice that, and so
// on.
const (
	firstWait = 500 * time.Millisecond
	mostWait  = 10 * time.Second
)

// heldAfter is how long a gateway that holds back takes for a message, at least. One
// that does not may take some milliseconds, where the machine has other work.
const heldAfter = 100 * time.Millisecond

// Options say what a client polls.
type Options struct {
	Addr      string            // host:port; several servers are separated by commas
	Unit      int               // of registers that name none
	Registers map[string]string // by KEY/CHANNEL; one of another server than the first begins with its address and a /
	Channels  []string          // of the model
	Interval  time.Duration     // between two polls
	Timeout   time.Duration     // for an answer
	Period    time.Duration     // between two samples; 0: a sample for each poll
	Log       *slog.Logger
}

// sink is a gateway.
type sink interface {
	Take(context.Context, *gateway.Message) error
	Miss(in gateway.Input, samples int, why error)
}

// client polls one server.
type client struct {
	to     sink
	o      Options
	regs   []register
	images []*image.Image // by stream
	units  []*unit
	link   *link // nil: none
	poll   poll
	slow   error // why the poll before took long, if it is known
}

// unit is a device behind the server's address.
type unit struct {
	id       byte
	of       []int // registers
	requests []request
	said     bool          // that it answers
	again    time.Time     // it is left alone until then
	wait     time.Duration // how long the next time
	why      error         // it did not answer
}

// poll is what one has read.
type poll struct {
	values []float32 // by register
	failed []bool    // by stream
	why    error     // a stream has failed
	noLink error     // no connection can be had
}

// Follow polls each server, until end.
func Follow(g *gateway.Gateway, o Options) (end func(), err error) {
	all, err := newClients(g, o)
	if err != nil {
		return nil, err
	}
	var ends []func()
	for _, c := range all {
		ends = append(ends, loop.Run(c.run))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}, nil
}

// newClients makes a client for each server.
func newClients(to sink, o Options) ([]*client, error) {
	servers, err := divide(o)
	if err != nil {
		return nil, err
	}
	var all []*client
	for _, s := range servers {
		c, err := newClient(to, s)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func newClient(to sink, o Options) (*client, error) {
	host, port, err := net.SplitHostPort(o.Addr)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" {
		return nil, fmt.Errorf("gateway: gateway.modbus.servers is %q: want host:port, such as plc:502", o.Addr)
	}
	if o.Unit < 0 || o.Unit > 255 {
		return nil, fmt.Errorf("gateway: gateway.modbus.unit is %d, want 0 to 255", o.Unit)
	}
	if o.Interval <= 0 || o.Timeout <= 0 {
		return nil, fmt.Errorf("gateway: gateway.modbus.interval is %v and gateway.modbus.timeout %v: want more than 0", o.Interval, o.Timeout)
	}
	c := &client{to: to, o: o}
	keys, regs, err := parseRegisters(o.Registers, o.Channels, byte(o.Unit))
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		c.images = append(c.images, image.New(key, len(o.Channels), o.Period))
	}
	c.regs = regs
	by := map[byte]*unit{}
	for i := range regs {
		u := by[regs[i].unit]
		if u == nil {
			u = &unit{id: regs[i].unit}
			by[u.id] = u
			c.units = append(c.units, u)
		}
		u.of = append(u.of, i)
	}
	for _, u := range c.units {
		u.requests = group(regs, u.of)
	}
	c.poll = poll{values: make([]float32, len(regs)), failed: make([]bool, len(keys))}
	return c, nil
}

func (c *client) run(ctx context.Context) {
	defer c.drop()
	for _, m := range c.images {
		m.Gap() // of what was before
	}
	interval := int64(c.o.Interval)
	for due := next(time.Now().UnixNano(), interval); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(due - time.Now().UnixNano())):
		}
		missed := int64(0)
		if missed, due = plan(due, time.Now().UnixNano(), interval); missed != 0 {
			c.miss(missed)
			continue
		}
		if err := c.make(ctx, due); err != nil {
			return // the gateway ends
		}
		due += interval
	}
}

// next is the first multiple of the interval after a time.
func next(now, interval int64) int64 { return now - now%interval + interval }

// plan looks at a poll that is due, now. It is made if missed is 0. Otherwise so many
// are left out, -1 for those of a clock that was set back, and another one is due.
func plan(due, now, interval int64) (missed, then int64) {
	switch late := now - due; {
	case late < -interval:
		return -1, next(now, interval)
	case late > interval/2:
		missed = (late + interval/2) / interval
		return missed, due + missed*interval
	}
	return 0, due
}

// miss says that polls were left out.
func (c *client) miss(polls int64) {
	why := errors.New("the clock was set back")
	if polls > 0 {
		out := fmt.Sprintf("%d polls are left out", polls)
		if polls == 1 {
			out = "1 poll is left out"
		}
		why = fmt.Errorf("%s: the one before has taken longer than gateway.modbus.interval (%v): raise it, or name fewer registers", out, c.o.Interval)
		if c.slow != nil {
			why = fmt.Errorf("%s: %w", out, c.slow)
		}
	}
	for _, m := range c.images {
		m.Gap()
	}
	c.to.Miss(gateway.Modbus, int(max(polls, 0))*len(c.images), why)
}

// make makes the poll of a time, and gives its samples to the gateway.
func (c *client) make(ctx context.Context, at int64) error {
	p := &c.poll
	clear(p.failed)
	p.why, p.noLink = nil, nil
	for _, u := range c.units {
		if err := c.ask(ctx, u); err != nil {
			c.fail(u.of, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	c.slow = p.why
	for i := range c.regs {
		if r := &c.regs[i]; !p.failed[r.Stream] {
			c.images[r.Stream].Set(r.Channel, at, p.values[i])
		}
	}
	missed, parts := 0, []gateway.Part{}
	for s, m := range c.images {
		if p.failed[s] {
			m.Gap()
			missed++
		}
		parts = append(parts, m.Parts()...)
	}
	if missed > 0 {
		c.to.Miss(gateway.Modbus, missed, p.why)
	}
	if len(parts) == 0 {
		return nil
	}
	begin := time.Now()
	err := c.to.Take(ctx, &gateway.Message{Input: gateway.Modbus, Parts: parts})
	if heldBack(time.Since(begin), c.o.Interval) {
		c.slow = gateway.ErrHeldBack
	}
	if refused := new(gateway.Refused); errors.As(err, &refused) { // counted, and in the log
		for _, m := range c.images {
			m.Gap()
		}
		return nil
	}
	return err
}

// heldBack reports whether a gateway that took so long for a poll holds back, and the
// next one comes too late for that.
func heldBack(took, interval time.Duration) bool { return took > max(interval/2, heldAfter) }

// fail notes that registers were not read.
func (c *client) fail(of []int, why error) {
	for _, i := range of {
		c.poll.failed[c.regs[i].Stream] = true
	}
	if c.poll.why == nil {
		c.poll.why = why
	}
}

// ask reads what a unit has. Registers that it refuses have failed; an error is that
// it does not answer.
func (c *client) ask(ctx context.Context, u *unit) error {
	if time.Now().Before(u.again) {
		return u.why
	}
	var all []request
	for _, q := range u.requests {
		now, err := c.read(ctx, q)
		if err != nil {
			u.wait = min(max(2*u.wait, firstWait), mostWait)
			u.again, u.why, u.said = time.Now().Add(u.wait), err, false
			u.requests = group(c.regs, u.of)
			return err
		}
		all = append(all, now...)
	}
	u.requests, u.wait = all, 0
	if !u.said {
		u.said = true
		c.o.Log.Info("Modbus: the unit answers", "server", c.o.Addr, "unit", u.id, "registers", len(u.of), "requests", len(all), "interval", c.o.Interval)
	}
	return nil
}

// read makes a request, in halves if the device wants it so, and returns what to ask
// the next time.
func (c *client) read(ctx context.Context, q request) ([]request, error) {
	if c.link == nil && c.poll.noLink == nil {
		c.link, c.poll.noLink = dial(ctx, c.o.Addr, c.o.Timeout)
	}
	if c.link == nil {
		return nil, fmt.Errorf("modbus: server %s: %w", c.o.Addr, c.poll.noLink)
	}
	answer, err := c.link.ask(&q)
	said := exception(0)
	switch refused := errors.As(err, &said); {
	case err == nil:
		for _, i := range q.of {
			r := &c.regs[i]
			c.poll.values[i] = r.value(&q, answer)
			if r.suspect(&q, answer) {
				c.o.Log.Warn("Modbus: a register has a value that often means that there is none, and is accepted: if so, add to the register: without sunspec", "server", c.o.Addr, "register", r.name, "bits", fmt.Sprintf("%#x", sunspec[r.kind]))
			}
		}
		return []request{q}, nil
	case refused && said.illegal() && len(q.of) > 1:
		var all []request
		for _, half := range q.halve(c.regs) {
			now, err := c.read(ctx, half)
			if err != nil {
				return nil, err
			}
			all = append(all, now...)
		}
		return all, nil
	case refused && !said.away():
		c.fail(q.of, fmt.Errorf("modbus: server %s, %s: %w", c.o.Addr, q.say(c.regs), err))
		return []request{q}, nil
	case !refused:
		c.drop()
	}
	return nil, fmt.Errorf("modbus: server %s, %s: %w", c.o.Addr, q.say(c.regs), err)
}

// drop ends the connection.
func (c *client) drop() {
	if c.link != nil {
		c.link.close()
		c.link = nil
	}
}
