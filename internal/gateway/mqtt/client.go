package mqtt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/sparkplug"
	"github.com/eusn-stream/eusn-stream/internal/urls"
)

const (
	connectWait = 10 * time.Second
	retryEvery  = 2 * time.Second
	quiesce     = 250 // ms for the last acknowledgements
	pingWait    = time.Minute
	upEvery     = time.Second // between two looks whether the connection that is waited for is there
	queueBytes  = 64 << 20    // of messages that wait for the gateway; beyond, QoS 0 is dropped, and the connection waits

	// unsure is how many messages are taken of which the broker may not know that:
	// fewer than half of those that the gateway remembers, because after a connection
	// that is lost as many may be new.
	unsure     = 25_000
	askEvery   = 1000                       // acknowledgements
	askedTopic = "eusn-gateway/no-messages" // the gateway never subscribes to it

	messageBytes = 256 // of memory, of one without a payload
)

// ClientOptions say of which broker a client is.
type ClientOptions struct {
	URL            string // tcp://, ssl://, ws:// or wss:// with host and port
	ID             string // of the client: the broker keeps its session under it
	User, Password string
	TLS            *tls.Config
	Topics         *gateway.Topics
	Sparkplug      *sparkplug.Host // takes the topics of Sparkplug B; nil: they are not subscribed to
	Log            *slog.Logger
}

// Client takes messages from another broker. It speaks MQTT 3.1.1, which brokers
// of MQTT 5 speak, too.
type Client struct {
	g      *gateway.Gateway
	o      ClientOptions
	client paho.Client
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu    sync.Mutex
	queue []received
	bytes int         // of memory, with those that take has in hand
	now   *connection // to the broker
	wake  chan struct{}
	room  chan struct{} // the queue is shorter
}

// received is a message, and the connection that it came by.
type received struct {
	paho.Message
	by   *connection
	lost uint64 // messages, before it
}

// CheckBroker says what is wrong with the address of a broker.
func CheckBroker(address string) error {
	_, err := brokerURL(address)
	return err
}

func brokerURL(address string) (*url.URL, error) {
	u, err := urls.Parse(address, "tcp", "mqtt", "ssl", "tls", "mqtts", "ws", "wss")
	if err != nil {
		return nil, fmt.Errorf("gateway: broker %q: want a URL such as tcp://host:1883, ssl://host:8883, ws://host/path or wss://host/path", urls.Redact(address))
	}
	return u, nil
}

// Follow makes a client that connects, again and again, until Close.
func Follow(g *gateway.Gateway, o ClientOptions) (*Client, error) {
	u, err := brokerURL(o.URL)
	if err != nil {
		return nil, err
	}
	c := &Client{g: g, o: o, wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	opts := paho.NewClientOptions().AddBroker(o.URL).SetClientID(o.ID).SetUsername(o.User).SetPassword(o.Password).
		SetProtocolVersion(4).SetCleanSession(false).SetAutoAckDisabled(true).SetOrderMatters(true).SetConnectTimeout(connectWait).
		SetPingTimeout(pingWait).SetAutoReconnect(true).SetMaxReconnectInterval(retryEvery).SetMessageChannelDepth(1024).
		SetDefaultPublishHandler(c.received).SetOnConnectHandler(c.connected).
		SetConnectionLostHandler(func(_ paho.Client, err error) {
			o.Log.Warn("connection to the broker lost, reconnecting", "broker", urls.Redact(o.URL), "err", err)
		})
	if o.TLS != nil {
		opts.SetTLSConfig(o.TLS)
	}
	// A message of the session may come before the handler of the connection is
	// called.
	opts.SetConnectionAttemptHandler(func(_ *url.URL, t *tls.Config) *tls.Config {
		c.renew()
		return t
	})
	c.client = paho.NewClient(opts)
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.ended.Go(func() { c.take(ctx) })
	c.ended.Go(func() { c.connect(ctx, u) })
	return c, nil
}

// connect makes the first connection.
func (c *Client) connect(ctx context.Context, u *url.URL) {
	for {
		t := c.client.Connect()
		t.Wait()
		if t.Error() == nil {
			return
		}
		c.o.Log.Warn("the broker is not reached, trying again", "broker", urls.Redact(c.o.URL), "err", t.Error())
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryEvery):
		}
	}
}

// renew begins a new connection. What came by the one before is void: the broker
// sends it again.
func (c *Client) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil {
		c.now.close()
	}
	c.now = newConnection(func() paho.Token { return c.client.Unsubscribe(askedTopic) }, c.client.IsConnectionOpen)
}

func (c *Client) connected(client paho.Client) {
	topics, filters := c.o.Topics.Filters(), map[string]byte{}
	if c.o.Sparkplug != nil {
		c.o.Sparkplug.Lost() // nodes send with QoS 0, which the broker keeps for nobody
		topics = append(topics, c.o.Sparkplug.Filters()...)
	}
	for _, f := range topics {
		filters[f] = 1
	}
	t := client.SubscribeMultiple(filters, nil)
	go func() {
		t.Wait()
		err := t.Error()
		if s, ok := t.(*paho.SubscribeToken); ok && err == nil {
			for f, code := range s.Result() {
				if code > 2 {
					err = fmt.Errorf("the broker refuses the subscription to %s", f)
				}
			}
		}
		if err != nil {
			c.o.Log.Error("not subscribed: no message comes from the broker", "err", err)
			return
		}
		c.o.Log.Info("connected to the broker", "topics", topics)
	}()
}

// received queues a message. Where there is no room, one of QoS 0 is dropped. For
// others the connection waits: some brokers send more than they should without an
// acknowledgement.
func (c *Client) received(_ paho.Client, m paho.Message) {
	size := messageBytes + len(m.Payload())
	c.mu.Lock()
	by := c.now
	for c.bytes+size > queueBytes && len(c.queue) > 0 {
		c.mu.Unlock()
		if m.Qos() == 0 {
			c.g.Drop(gateway.Broker)
			return
		}
		select {
		case <-c.room:
		case <-by.over:
			return // it comes again
		case <-time.After(upEvery):
			if !by.up() {
				return
			}
		}
		c.mu.Lock()
	}
	c.bytes += size
	c.queue = append(c.queue, received{m, by, c.g.Lost()})
	c.mu.Unlock()
	signal(c.wake)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take gives messages to the gateway, in order.
func (c *Client) take(ctx context.Context) {
	for {
		c.mu.Lock()
		queue := c.queue
		c.queue = nil
		c.mu.Unlock()
		for _, m := range queue {
			if !c.one(ctx, m) {
				return
			}
			c.mu.Lock()
			c.bytes -= messageBytes + len(m.Payload())
			c.mu.Unlock()
			signal(c.room)
		}
		if len(queue) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-c.wake:
			}
		}
	}
}

// one gives a message to the gateway. It returns false at the end.
func (c *Client) one(ctx context.Context, p received) bool {
	by := p.by
	m := &gateway.Message{Input: gateway.Broker, Payload: p.Payload()}
	acked := func() {}
	if p.Qos() == 0 {
		m.Lost = p.lost
	}
	if p.Qos() > 0 {
		if !by.wait(ctx) { // it comes again
			return ctx.Err() == nil
		}
		m.Session, m.ID, m.Repeat = gateway.BrokerSession, uint64(p.MessageID()), p.Duplicate()
		acked = by.add(func() error { p.Ack(); return nil })
		m.Done = func(error) { acked() }
	}
	if p.Retained() { // of before the subscription
		acked()
		return true
	}
	err := c.give(ctx, m, p.Topic())
	var refused *gateway.Refused
	if errors.As(err, &refused) {
		acked() // or the broker would send it for ever
		return true
	}
	return err == nil
}

// give gives a message to the gateway, or says why it is refused.
func (c *Client) give(ctx context.Context, m *gateway.Message, topic string) (err error) {
	if c.o.Sparkplug != nil && sparkplug.Has(topic) {
		return c.o.Sparkplug.Take(ctx, m, topic, func(command string, payload []byte) {
			go c.client.Publish(command, 0, false, payload) // it may wait for the connection
		})
	}
	if m.Key, err = c.o.Topics.Key(topic); err != nil {
		c.g.Refuse(gateway.Broker, err)
		return err
	}
	return c.g.Take(ctx, m)
}

// Close ends the connection, after the acknowledgements of what is stored. The
// broker keeps the session.
func (c *Client) Close() {
	c.stop()
	c.client.Disconnect(quiesce)
	c.ended.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil {
		c.now.close()
	}
}
