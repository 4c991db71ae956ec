package opcua

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gopcua/opcua"
	"github.com/gopcua/opcua/id"
	"github.com/gopcua/opcua/ua"
)

const (
	atOnce = 500 // variables in one request

	overflow = 0x480      // of a status: the info bits are of a value, and its queue was full
	severity = 30         // where a status has its severity: 2 and 3 are bad
	codeBits = 0xffff0000 // of a status: without the info bits
)

// grant is what a server has granted to a session.
type grant struct {
	Policy      string
	Publishing  time.Duration
	Sampling    time.Duration // the longest of a variable
	Queue       int           // the shortest of a variable
	Slow, Short int           // variables with another sampling interval, or a shorter queue
}

// differences are the settings that the server has changed.
func (s *grant) differences(o *Options) (all []string) {
	wanted := func(d time.Duration, each string) string {
		if d == 0 {
			return each
		}
		return "every " + d.String()
	}
	if s.Slow > 0 {
		all = append(all, fmt.Sprintf("it samples %s, not %s (%d of %d variables; gateway.opcua.sampling)", wanted(s.Sampling, "each change"), wanted(o.Sampling, "each change"), s.Slow, len(o.Nodes)))
	}
	if want := o.Publishing.Truncate(time.Millisecond); s.Publishing != want {
		all = append(all, fmt.Sprintf("it sends %s, not %s (gateway.opcua.publishing)", wanted(s.Publishing, "at once"), wanted(want, "at once")))
	}
	if s.Short > 0 {
		all = append(all, fmt.Sprintf("it keeps %d values, not %d (%d of %d variables; gateway.opcua.queue)", s.Queue, o.Queue, s.Short, len(o.Nodes)))
	}
	return all
}

// connect connects to the server; lost is closed when the connection is. It listens to the
// client as long as ctx lasts.
func (c *Client) connect(ctx context.Context, opts []opcua.Option) (client *opcua.Client, lost <-chan struct{}, err error) {
	states := make(chan opcua.ConnState, 16)
	opts = append(opts, opcua.AutoReconnect(false), opcua.StateChangedCh(states), opcua.DialTimeout(c.wait), opcua.RequestTimeout(c.wait))
	if client, err = opcua.NewClient(c.o.URL, opts...); err != nil {
		return nil, nil, err
	}
	ended := make(chan struct{})
	go func() {
		once := sync.OnceFunc(func() { close(ended) })
		for {
			select {
			case s := <-states:
				if s == opcua.Closed || s == opcua.Disconnected {
					once()
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	within, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	return client, ended, client.Connect(within)
}

// hear reports the values of a notification.
func (c *Client) hear(n *opcua.PublishNotificationData, w *watch, tell func(report) error) error {
	if n.Error != nil {
		return n.Error
	}
	switch v := n.Value.(type) {
	case *ua.StatusChangeNotification:
		return fmt.Errorf("the server has ended the subscription: %w", v.Status)
	case *ua.DataChangeNotification:
		all, clocks := c.readings(v)
		w.clocks += clocks
		if len(all) > 0 {
			if err := tell(report{Values: all}); err != nil {
				return err
			}
		}
	}
	w.last = time.Now() // after a gateway that holds back
	return nil
}

// session connects, subscribes, and reports what comes until something fails.
func (c *Client) session(parent context.Context, tell func(report) error) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	opts, policy, err := c.endpoint(ctx)
	if err != nil {
		return err
	}
	client, lost, err := c.connect(ctx, opts)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = client.Close(ctx) // the server ends it, too
	}()
	heard := make(chan *opcua.PublishNotificationData, 16)
	sub, err := client.Subscribe(ctx, &opcua.SubscriptionParameters{Interval: c.o.Publishing}, heard)
	if err != nil {
		return fmt.Errorf("subscription: %w", err)
	}
	granted := grant{Policy: policy, Publishing: sub.RevisedPublishingInterval}
	if err := c.monitor(ctx, sub, &granted); err != nil {
		return err
	}
	if err := tell(report{Subscribed: &granted}); err != nil {
		return err
	}
	w := watch{ask: func() error { return c.ask(ctx, client) }, silence: 3*c.clockEvery() + 3*max(granted.Publishing, 0), last: time.Now()}
	tick := time.NewTicker(c.clockEvery())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-lost:
			return errors.New("the connection is lost: the server has ended, or the network")
		case <-tick.C:
			if err := w.check(); err != nil {
				return err
			}
		case n := <-heard:
			if err := c.hear(n, &w, tell); err != nil {
				return err
			}
		}
	}
}

// watch finds out that a server is silent: the library waits for ever.
type watch struct {
	ask     func() error // asks the server for anything
	silence time.Duration
	last    time.Time // of the newest message
	clocks  int       // values of the server's clock
}

// check asks a silent server whether it is there. A subscription whose clock has
// changed before, and does not any more, has ended.
func (w *watch) check() error {
	quiet := time.Since(w.last)
	if quiet < w.silence {
		return nil
	}
	if err := w.ask(); err != nil {
		return fmt.Errorf("the server has sent nothing for %v, and does not answer: %w", quiet.Round(time.Second), err)
	}
	if w.clocks > 1 {
		return fmt.Errorf("the server answers, but its subscription has sent nothing for %v, not even the server's clock", quiet.Round(time.Second))
	}
	return nil
}

// clock is a variable that each server has, and that changes.
var clock = ua.NewNumericNodeID(0, id.Server_ServerStatus_CurrentTime)

// clockEvery is the time between two values of the server's clock.
func (c *Client) clockEvery() time.Duration { return c.wait / 2 }

// ask reads the server's clock.
func (c *Client) ask(ctx context.Context, client *opcua.Client) error {
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	_, err := client.Read(ctx, &ua.ReadRequest{NodesToRead: []*ua.ReadValueID{{NodeID: clock, AttributeID: ua.AttributeIDValue}}})
	if status := ua.StatusCode(0); errors.As(err, &status) && status != ua.StatusBadTimeout {
		return nil // an answer
	}
	return err
}

// monitor asks for the variables, and for the server's clock if the server lets it be
// monitored. It notes what the server has granted.
func (c *Client) monitor(ctx context.Context, sub *opcua.Subscription, granted *grant) error {
	granted.Queue = c.o.Queue
	for from := 0; from < len(c.items); from += atOnce {
		var all []*ua.MonitoredItemCreateRequest
		for i := from; i < min(from+atOnce, len(c.items)); i++ {
			all = append(all, monitored(c.items[i].id, i, c.o.Queue, c.o.Sampling))
		}
		res, err := sub.Monitor(ctx, ua.TimestampsToReturnBoth, all...)
		if err != nil {
			return fmt.Errorf("variables: %w", err)
		}
		if len(res.Results) != len(all) {
			return fmt.Errorf("variables: the server answers for %d of %d", len(res.Results), len(all))
		}
		for i, r := range res.Results {
			if r.StatusCode != ua.StatusOK {
				return fmt.Errorf("variable %s: %w", c.items[from+i].id, r.StatusCode)
			}
			if d := milliseconds(r.RevisedSamplingInterval); d != c.o.Sampling {
				granted.Slow++
				granted.Sampling = max(granted.Sampling, d)
			}
			if n := int(r.RevisedQueueSize); n < c.o.Queue {
				granted.Short++
				granted.Queue = min(granted.Queue, n)
			}
		}
	}
	if granted.Slow == 0 {
		granted.Sampling = c.o.Sampling
	}
	_, _ = sub.Monitor(ctx, ua.TimestampsToReturnNeither, monitored(clock, len(c.items), 1, c.clockEvery()))
	return nil
}

func monitored(id *ua.NodeID, handle, queue int, sampling time.Duration) *ua.MonitoredItemCreateRequest {
	r := opcua.NewMonitoredItemCreateRequestWithDefaults(id, ua.AttributeIDValue, uint32(handle))
	r.RequestedParameters.QueueSize, r.RequestedParameters.SamplingInterval = uint32(queue), float64(sampling)/float64(time.Millisecond)
	return r
}

// milliseconds is a time of the server. One that is none counts as 0.
func milliseconds(x float64) time.Duration {
	if !(x > 0) {
		return 0
	}
	return time.Duration(min(x, 1e12) * float64(time.Millisecond))
}

// readings are the values of a notification, without those of the server's clock.
func (c *Client) readings(n *ua.DataChangeNotification) (all []reading, clocks int) {
	for _, m := range n.MonitoredItems {
		switch {
		case m == nil || m.Value == nil || m.ClientHandle > uint32(len(c.items)):
		case int(m.ClientHandle) == len(c.items):
			clocks++
		default:
			all = append(all, newReading(int(m.ClientHandle), m.Value))
		}
	}
	return all, clocks
}

// newReading reads a value. Its time is the source's, or the server's where the source
// has none.
func newReading(item int, v *ua.DataValue) reading {
	r := reading{Item: item, Status: uint32(v.Status), Null: true}
	at := v.SourceTimestamp
	if at.IsZero() {
		at = v.ServerTimestamp
	}
	if !at.IsZero() {
		r.At, r.Timed = at.UnixNano(), true
	}
	if v.Value == nil {
		return r
	}
	r.Null = v.Value.Value() == nil
	switch x := v.Value.Value().(type) {
	case bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64, string:
		r.X = x
	}
	r.Type = strings.TrimPrefix(v.Value.Type().String(), "TypeID")
	if v.Value.Has(ua.VariantArrayValues) {
		r.Type = "array of " + r.Type
	}
	return r
}
