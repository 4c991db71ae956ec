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
	itemsPerRequest = 500 // variables per request

	overflow = 0x480      // bits of a status: its info bits apply to a value, and the value's queue was full
	severity = 30         // shift of a status to its severity: 2 and 3 are bad
	codeBits = 0xffff0000 // mask of a status without its info bits
)

// grant has the settings granted by the server.
type grant struct {
	Policy      string
	Publishing  time.Duration
	Sampling    time.Duration // longest interval of a variable
	Queue       int           // shortest queue of a variable
	Slow, Short int           // variables with a changed sampling interval, with a shorter queue
}

// differences lists the settings changed by the server.
func (s *grant) differences(o *Options) (all []string) {
	wanted := func(d time.Duration, zeroText string) string {
		if d == 0 {
			return zeroText
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

// connectServer connects to the server. The channel lost is closed when the connection ends;
// ctx ends the watching of the connection.
func (c *Client) connectServer(ctx context.Context, opts []opcua.Option) (client *opcua.Client, lost <-chan struct{}, err error) {
	states := make(chan opcua.ConnState, 16)
	opts = append(opts, opcua.AutoReconnect(false), opcua.StateChangedCh(states), opcua.DialTimeout(c.wait), opcua.RequestTimeout(c.wait))
	if client, err = opcua.NewClient(c.options.URL, opts...); err != nil {
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

// forwardNotification reports the values of a notification.
func (c *Client) forwardNotification(n *opcua.PublishNotificationData, w *watch, send func(report) error) error {
	if n.Error != nil {
		return n.Error
	}
	switch v := n.Value.(type) {
	case *ua.StatusChangeNotification:
		return fmt.Errorf("the server has ended the subscription: %w", v.Status)
	case *ua.DataChangeNotification:
		values, clocks := c.readings(v)
		w.clocks += clocks
		if len(values) > 0 {
			if err := send(report{Values: values}); err != nil {
				return err
			}
		}
	}
	w.lastMessage = time.Now() // after the report, which backpressure may have delayed
	return nil
}

// readSession connects, subscribes and reports values until an error.
func (c *Client) readSession(parent context.Context, send func(report) error) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	opts, policy, err := c.chooseEndpoint(ctx)
	if err != nil {
		return err
	}
	client, lost, err := c.connectServer(ctx, opts)
	if err != nil {
		return err
	}
	defer closeSession(client)
	notifications := make(chan *opcua.PublishNotificationData, 16)
	sub, err := client.Subscribe(ctx, &opcua.SubscriptionParameters{Interval: c.options.Publishing}, notifications)
	if err != nil {
		return fmt.Errorf("subscription: %w", err)
	}
	granted := grant{Policy: policy, Publishing: sub.RevisedPublishingInterval}
	if err := c.monitorItems(ctx, sub, &granted); err != nil {
		return err
	}
	if err := send(report{Subscribed: &granted}); err != nil {
		return err
	}
	w := watch{ping: func() error { return c.ping(ctx, client) }, silence: 3*c.clockEvery() + 3*max(granted.Publishing, 0), lastMessage: time.Now()}
	tick := time.NewTicker(c.clockEvery())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-lost:
			return errors.New("the connection is lost: the server has ended, or the network has failed")
		case <-tick.C:
			if err := w.checkSilence(); err != nil {
				return err
			}
		case n := <-notifications:
			if err := c.forwardNotification(n, &w, send); err != nil {
				return err
			}
		}
	}
}

// closeSession ends a session. The server ends a session without a client by itself.
func closeSession(client *opcua.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = client.Close(ctx)
}

// watch detects a silent server; the library would wait for ever.
type watch struct {
	ping        func() error // sends any request to the server
	silence     time.Duration
	lastMessage time.Time // time of the newest message
	clocks      int       // values of the server's clock so far
}

// checkSilence pings a silent server. If the server answers, but an earlier working clock is
// silent, the subscription has ended.
func (w *watch) checkSilence() error {
	quiet := time.Since(w.lastMessage)
	if quiet < w.silence {
		return nil
	}
	if err := w.ping(); err != nil {
		return fmt.Errorf("the server has sent nothing for %v, and does not answer: %w", quiet.Round(time.Second), err)
	}
	if w.clocks > 1 {
		return fmt.Errorf("the server answers, but its subscription has sent nothing for %v, not even the server's clock", quiet.Round(time.Second))
	}
	return nil
}

// clockNode is the server's current time, a variable of every server.
var clockNode = ua.NewNumericNodeID(0, id.Server_ServerStatus_CurrentTime)

// clockEvery is the sampling interval of the server's clock.
func (c *Client) clockEvery() time.Duration { return c.wait / 2 }

// ping reads the server's clock.
func (c *Client) ping(ctx context.Context, client *opcua.Client) error {
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	_, err := client.Read(ctx, &ua.ReadRequest{NodesToRead: []*ua.ReadValueID{{NodeID: clockNode, AttributeID: ua.AttributeIDValue}}})
	if status := ua.StatusCode(0); errors.As(err, &status) && status != ua.StatusBadTimeout {
		return nil // an error status is an answer, too
	}
	return err
}

// monitorItems subscribes to the variables, and to the server's clock if the server permits it.
// It stores what the server has granted.
func (c *Client) monitorItems(ctx context.Context, sub *opcua.Subscription, granted *grant) error {
	granted.Queue = c.options.Queue
	for offset := 0; offset < len(c.items); offset += itemsPerRequest {
		var all []*ua.MonitoredItemCreateRequest
		for i := offset; i < min(offset+itemsPerRequest, len(c.items)); i++ {
			all = append(all, newItemRequest(c.items[i].id, i, c.options.Queue, c.options.Sampling))
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
				return fmt.Errorf("variable %s: %w", c.items[offset+i].id, r.StatusCode)
			}
			if d := milliseconds(r.RevisedSamplingInterval); d != c.options.Sampling {
				granted.Slow++
				granted.Sampling = max(granted.Sampling, d)
			}
			if n := int(r.RevisedQueueSize); n < c.options.Queue {
				granted.Short++
				granted.Queue = min(granted.Queue, n)
			}
		}
	}
	if granted.Slow == 0 {
		granted.Sampling = c.options.Sampling
	}
	_, _ = sub.Monitor(ctx, ua.TimestampsToReturnNeither, newItemRequest(clockNode, len(c.items), 1, c.clockEvery()))
	return nil
}

func newItemRequest(id *ua.NodeID, handle, queue int, sampling time.Duration) *ua.MonitoredItemCreateRequest {
	r := opcua.NewMonitoredItemCreateRequestWithDefaults(id, ua.AttributeIDValue, uint32(handle))
	r.RequestedParameters.QueueSize, r.RequestedParameters.SamplingInterval = uint32(queue), float64(sampling)/float64(time.Millisecond)
	return r
}

// milliseconds converts a duration of the server. An invalid duration is 0.
func milliseconds(x float64) time.Duration {
	if !(x > 0) {
		return 0
	}
	return time.Duration(min(x, 1e12) * float64(time.Millisecond))
}

// readings returns the values of a notification, and the number of values of the server's
// clock.
func (c *Client) readings(n *ua.DataChangeNotification) (values []reading, clocks int) {
	for _, m := range n.MonitoredItems {
		switch {
		case m == nil || m.Value == nil || m.ClientHandle > uint32(len(c.items)):
		case int(m.ClientHandle) == len(c.items):
			clocks++
		default:
			values = append(values, newReading(int(m.ClientHandle), m.Value))
		}
	}
	return values, clocks
}

// newReading reads a value. Its time is the source's time, or the server's if the source has
// none.
func newReading(item int, v *ua.DataValue) reading {
	r := reading{Item: item, Status: uint32(v.Status), Null: true}
	source := v.SourceTimestamp
	if source.IsZero() {
		source = v.ServerTimestamp
	}
	if !source.IsZero() {
		r.At, r.Timed = source.UnixNano(), true
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
