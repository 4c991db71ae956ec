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

// The client retries a silent unit after firstWait, then after twice the previous wait, up to
// mostWait.
const (
	firstWait = 500 * time.Millisecond
	maxWait   = 10 * time.Second
)

// minHold is the shortest time of a gateway under backpressure for one message. A gateway
// without backpressure may take some milliseconds if the computer is busy.
const minHold = 100 * time.Millisecond

// Options configure the polling.
type Options struct {
	Addr      string            // host:port; several servers are separated by commas
	Unit      int               // unit of registers without a unit
	Registers map[string]string // by KEY/CHANNEL; a register of another server than the first begins with the server's address and a /
	Channels  []string          // of the model
	Interval  time.Duration     // between two polls
	Timeout   time.Duration     // timeout of one request
	Period    time.Duration     // between two samples; 0: one sample per poll
	Log       *slog.Logger
}

// sink is the gateway.
type sink interface {
	Take(context.Context, *gateway.Message) error
	Miss(in gateway.Input, samples int, why error)
}

// client polls one server.
type client struct {
	gateway    sink
	options    Options
	regs       []register
	images     []*image.Image // by stream
	units      []*unit
	link       *link // nil if not connected
	poll       poll
	slowReason error // reason why the previous poll was slow, if known
}

// unit is a device at the server's address.
type unit struct {
	id        byte
	registers []int // indices of the unit's registers
	requests  []request
	reported  bool          // whether the log reports the unit as answering
	retryAt   time.Time     // no request before this time
	wait      time.Duration // the current wait between retries
	err       error         // error of the newest request
}

// poll is the result of one poll.
type poll struct {
	values  []float32 // by register
	failed  []bool    // by stream
	err     error     // first error of a stream
	dialErr error     // error of the connection attempt
}

// Follow polls each server until the caller calls end.
func Follow(g *gateway.Gateway, o Options) (end func(), err error) {
	clients, err := newClients(g, o)
	if err != nil {
		return nil, err
	}
	var ends []func()
	for _, c := range clients {
		ends = append(ends, loop.Run(c.pollUntil))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}, nil
}

// newClients makes one client per server.
func newClients(gateway sink, options Options) ([]*client, error) {
	servers, err := splitOptions(options)
	if err != nil {
		return nil, err
	}
	var clients []*client
	for _, s := range servers {
		c, err := newClient(gateway, s)
		if err != nil {
			return nil, err
		}
		clients = append(clients, c)
	}
	return clients, nil
}

func newClient(gateway sink, options Options) (*client, error) {
	host, port, err := net.SplitHostPort(options.Addr)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" {
		return nil, fmt.Errorf("gateway: gateway.modbus.servers is %q: want host:port, such as plc:502", options.Addr)
	}
	if options.Unit < 0 || options.Unit > 255 {
		return nil, fmt.Errorf("gateway: gateway.modbus.unit is %d, want 0 to 255", options.Unit)
	}
	if options.Interval <= 0 || options.Timeout <= 0 {
		return nil, fmt.Errorf("gateway: gateway.modbus.interval is %v and gateway.modbus.timeout %v: want more than 0", options.Interval, options.Timeout)
	}
	c := &client{gateway: gateway, options: options}
	keys, regs, err := parseRegisters(options.Registers, options.Channels, byte(options.Unit))
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		c.images = append(c.images, image.New(key, len(options.Channels), options.Period))
	}
	c.regs = regs
	unitsByID := map[byte]*unit{}
	for i := range regs {
		u := unitsByID[regs[i].unit]
		if u == nil {
			u = &unit{id: regs[i].unit}
			unitsByID[u.id] = u
			c.units = append(c.units, u)
		}
		u.registers = append(u.registers, i)
	}
	for _, u := range c.units {
		u.requests = groupRegisters(regs, u.registers)
	}
	c.poll = poll{values: make([]float32, len(regs)), failed: make([]bool, len(keys))}
	return c, nil
}

func (c *client) pollUntil(ctx context.Context) {
	defer c.disconnect()
	for _, m := range c.images {
		m.MarkGap() // earlier samples are missing
	}
	interval := int64(c.options.Interval)
	for due := nextDue(time.Now().UnixNano(), interval); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(due - time.Now().UnixNano())):
		}
		missed := int64(0)
		if missed, due = planPoll(due, time.Now().UnixNano(), interval); missed != 0 {
			c.reportMissed(missed)
			continue
		}
		if err := c.makePoll(ctx, due); err != nil {
			return // the gateway ends
		}
		due += interval
	}
}

// nextDue returns the first multiple of the interval after a time.
func nextDue(now, interval int64) int64 { return now - now%interval + interval }

// planPoll decides at the time now about a poll that is due. If missed is 0, the client polls.
// Otherwise the client skips the missed polls (-1: the clock was set back), and the next poll
// is due at then.
func planPoll(due, now, interval int64) (missed, then int64) {
	switch late := now - due; {
	case late < -interval:
		return -1, nextDue(now, interval)
	case late > interval/2:
		missed = (late + interval/2) / interval
		return missed, due + missed*interval
	}
	return 0, due
}

// reportMissed reports skipped polls.
func (c *client) reportMissed(polls int64) {
	err := errors.New("the clock was set back")
	if polls > 0 {
		skipped := fmt.Sprintf("%d polls were skipped", polls)
		if polls == 1 {
			skipped = "1 poll was skipped"
		}
		err = fmt.Errorf("%s: the previous poll has taken longer than gateway.modbus.interval (%v): raise the interval, or configure fewer registers", skipped, c.options.Interval)
		if c.slowReason != nil {
			err = fmt.Errorf("%s: %w", skipped, c.slowReason)
		}
	}
	for _, m := range c.images {
		m.MarkGap()
	}
	c.gateway.Miss(gateway.Modbus, int(max(polls, 0))*len(c.images), err)
}

// makePoll polls all units for a due time and gives the samples to the gateway.
func (c *client) makePoll(ctx context.Context, due int64) error {
	p := &c.poll
	clear(p.failed)
	p.err, p.dialErr = nil, nil
	for _, u := range c.units {
		if err := c.readUnit(ctx, u); err != nil {
			c.failStreams(u.registers, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	c.slowReason = p.err
	for i := range c.regs {
		if r := &c.regs[i]; !p.failed[r.Stream] {
			c.images[r.Stream].Set(r.Channel, due, p.values[i])
		}
	}
	missed, parts := 0, []gateway.Part{}
	for s, m := range c.images {
		if p.failed[s] {
			m.MarkGap()
			missed++
		}
		parts = append(parts, m.TakeParts()...)
	}
	if missed > 0 {
		c.gateway.Miss(gateway.Modbus, missed, p.err)
	}
	if len(parts) == 0 {
		return nil
	}
	start := time.Now()
	err := c.gateway.Take(ctx, &gateway.Message{Input: gateway.Modbus, Parts: parts})
	if heldBack(time.Since(start), c.options.Interval) {
		c.slowReason = gateway.ErrHeldBack
	}
	if refused := new(gateway.Refused); errors.As(err, &refused) { // the gateway has counted and logged the refusal
		for _, m := range c.images {
			m.MarkGap()
		}
		return nil
	}
	return err
}

// heldBack reports whether the gateway applied backpressure, for so long that the next poll is
// late.
func heldBack(duration, interval time.Duration) bool { return duration > max(interval/2, minHold) }

// failStreams marks the streams of registers as failed.
func (c *client) failStreams(registers []int, err error) {
	for _, i := range registers {
		c.poll.failed[c.regs[i].Stream] = true
	}
	if c.poll.err == nil {
		c.poll.err = err
	}
}

// readUnit reads the registers of a unit. A refused register fails its stream; the error means
// that the unit does not answer.
func (c *client) readUnit(ctx context.Context, u *unit) error {
	if time.Now().Before(u.retryAt) {
		return u.err
	}
	var next []request
	for _, q := range u.requests {
		requests, err := c.readRegisters(ctx, q)
		if err != nil {
			u.wait = min(max(2*u.wait, firstWait), maxWait)
			u.retryAt, u.err, u.reported = time.Now().Add(u.wait), err, false
			u.requests = groupRegisters(c.regs, u.registers)
			return err
		}
		next = append(next, requests...)
	}
	u.requests, u.wait = next, 0
	if !u.reported {
		u.reported = true
		c.options.Log.Info("Modbus: the unit answers", "server", c.options.Addr, "unit", u.id, "registers", len(u.registers), "requests", len(next), "interval", c.options.Interval)
	}
	return nil
}

// readRegisters sends a request, in halves if the device refuses the whole, and returns the
// requests for the next poll.
func (c *client) readRegisters(ctx context.Context, q request) ([]request, error) {
	if c.link == nil && c.poll.dialErr == nil {
		c.link, c.poll.dialErr = dialServer(ctx, c.options.Addr, c.options.Timeout)
	}
	if c.link == nil {
		return nil, fmt.Errorf("modbus: server %s: %w", c.options.Addr, c.poll.dialErr)
	}
	answer, err := c.link.request(&q)
	code := exception(0)
	switch refused := errors.As(err, &code); {
	case err == nil:
		for _, i := range q.registers {
			r := &c.regs[i]
			c.poll.values[i] = r.value(&q, answer)
			if r.isSuspect(&q, answer) {
				c.options.Log.Warn("Modbus: the value of a register marks a missing value on many devices, and was accepted: if it is missing, add to the register: without sunspec", "server", c.options.Addr, "register", r.name, "bits", fmt.Sprintf("%#x", sunspec[r.kind]))
			}
		}
		return []request{q}, nil
	case refused && code.isIllegal() && len(q.registers) > 1:
		var next []request
		for _, half := range q.halve(c.regs) {
			requests, err := c.readRegisters(ctx, half)
			if err != nil {
				return nil, err
			}
			next = append(next, requests...)
		}
		return next, nil
	case refused && !code.isAway():
		c.failStreams(q.registers, fmt.Errorf("modbus: server %s, %s: %w", c.options.Addr, q.describe(c.regs), err))
		return []request{q}, nil
	case !refused:
		c.disconnect()
	}
	return nil, fmt.Errorf("modbus: server %s, %s: %w", c.options.Addr, q.describe(c.regs), err)
}

// disconnect closes the connection.
func (c *client) disconnect() {
	if c.link != nil {
		c.link.close()
		c.link = nil
	}
}
