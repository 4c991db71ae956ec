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
	quiesce     = 250 // milliseconds for the last acknowledgements
	pingWait    = time.Minute
	checkEvery  = time.Second // interval for checking whether a connection is still up
	queueBytes  = 64 << 20    // memory of messages that wait for the gateway; beyond, QoS 0 is dropped, and the connection blocks

	// maxUnconfirmed is the number of messages that the client accepts before the broker
	// confirms reading their acknowledgements. It is less than half of the messages that the
	// gateway remembers, because the next connection may bring as many new messages.
	maxUnconfirmed = 25_000
	probeEvery     = 1000                       // in acknowledgements
	probeTopic     = "eusn-gateway/no-messages" // the gateway never subscribes to this topic

	messageBytes = 256 // memory of a message without its payload
)

// ClientOptions configure a client of another broker.
type ClientOptions struct {
	URL            string // tcp://, ssl://, ws:// or wss:// with host and port
	ID             string // client id; the broker stores the session under this id
	User, Password string
	TLS            *tls.Config
	Topics         *gateway.Topics
	Sparkplug      *sparkplug.Host // handles the topics of Sparkplug B; nil: no subscription
	Log            *slog.Logger
}

// Client receives messages from another broker over MQTT 3.1.1, which brokers of MQTT 5
// support, too.
type Client struct {
	gateway *gateway.Gateway
	options ClientOptions
	client  paho.Client
	stop    context.CancelFunc
	ended   sync.WaitGroup

	mu      sync.Mutex
	queue   []receivedMessage
	bytes   int         // memory of the queue and of the batch in forwardMessages
	current *connection // the current connection to the broker
	wake    chan struct{}
	room    chan struct{} // signals that the queue is shorter
}

// receivedMessage is a message and its connection.
type receivedMessage struct {
	paho.Message
	conn *connection
	lost uint64 // lost messages before this message
}

// CheckBroker reports an error in the address of a broker.
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

// Follow makes a client that connects and reconnects until Close.
func Follow(g *gateway.Gateway, o ClientOptions) (*Client, error) {
	u, err := brokerURL(o.URL)
	if err != nil {
		return nil, err
	}
	c := &Client{gateway: g, options: o, wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	opts := paho.NewClientOptions().AddBroker(o.URL).SetClientID(o.ID).SetUsername(o.User).SetPassword(o.Password).
		SetProtocolVersion(4).SetCleanSession(false).SetAutoAckDisabled(true).SetOrderMatters(true).SetConnectTimeout(connectWait).
		SetPingTimeout(pingWait).SetAutoReconnect(true).SetMaxReconnectInterval(retryEvery).SetMessageChannelDepth(1024).
		SetDefaultPublishHandler(c.queueMessage).SetOnConnectHandler(c.subscribeAll).
		SetConnectionLostHandler(func(_ paho.Client, err error) {
			o.Log.Warn("connection to the broker lost, reconnecting", "broker", urls.Redact(o.URL), "err", err)
		})
	if o.TLS != nil {
		opts.SetTLSConfig(o.TLS)
	}
	// A message of the session may arrive before the connection handler is called.
	opts.SetConnectionAttemptHandler(func(_ *url.URL, t *tls.Config) *tls.Config {
		c.renewConnection()
		return t
	})
	c.client = paho.NewClient(opts)
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.ended.Go(func() { c.forwardMessages(ctx) })
	c.ended.Go(func() { c.connectFirst(ctx, u) })
	return c, nil
}

// connectFirst makes the first connection.
func (c *Client) connectFirst(ctx context.Context, u *url.URL) {
	for {
		t := c.client.Connect()
		t.Wait()
		if t.Error() == nil {
			return
		}
		c.options.Log.Warn("cannot connect to the broker, retrying", "broker", urls.Redact(c.options.URL), "err", t.Error())
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryEvery):
		}
	}
}

// renewConnection starts a new connection. Messages of the previous connection are void: the
// broker resends them.
func (c *Client) renewConnection() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		c.current.close()
	}
	c.current = newConnection(func() paho.Token { return c.client.Unsubscribe(probeTopic) }, c.client.IsConnectionOpen)
}

func (c *Client) subscribeAll(client paho.Client) {
	topics, filters := c.options.Topics.Filters(), map[string]byte{}
	if c.options.Sparkplug != nil {
		c.options.Sparkplug.MarkLost() // nodes send with QoS 0, and the broker does not store such messages
		topics = append(topics, c.options.Sparkplug.Filters()...)
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
			c.options.Log.Error("the subscription has failed: the broker sends no messages", "err", err)
			return
		}
		c.options.Log.Info("connected to the broker", "topics", topics)
	}()
}

// queueMessage queues a message. If the queue is full, queueMessage drops a message of QoS 0,
// and blocks the connection for other messages: some brokers exceed the limit of unacknowledged
// messages.
func (c *Client) queueMessage(_ paho.Client, m paho.Message) {
	size := messageBytes + len(m.Payload())
	c.mu.Lock()
	conn := c.current
	for c.bytes+size > queueBytes && len(c.queue) > 0 {
		c.mu.Unlock()
		if m.Qos() == 0 {
			c.gateway.Drop(gateway.Broker)
			return
		}
		select {
		case <-c.room:
		case <-conn.closed:
			return // the broker resends the message
		case <-time.After(checkEvery):
			if !conn.isUp() {
				return
			}
		}
		c.mu.Lock()
	}
	c.bytes += size
	c.queue = append(c.queue, receivedMessage{m, conn, c.gateway.Lost()})
	c.mu.Unlock()
	wakeUp(c.wake)
}

func wakeUp(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// forwardMessages gives messages to the gateway in order.
func (c *Client) forwardMessages(ctx context.Context) {
	for {
		c.mu.Lock()
		queue := c.queue
		c.queue = nil
		c.mu.Unlock()
		for _, m := range queue {
			if !c.forwardMessage(ctx, m) {
				return
			}
			c.mu.Lock()
			c.bytes -= messageBytes + len(m.Payload())
			c.mu.Unlock()
			wakeUp(c.room)
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

// forwardMessage gives a message to the gateway. It returns false when the client ends.
func (c *Client) forwardMessage(ctx context.Context, p receivedMessage) bool {
	conn := p.conn
	m := &gateway.Message{Input: gateway.Broker, Payload: p.Payload()}
	acked := func() {}
	if p.Qos() == 0 {
		m.Lost = p.lost
	}
	if p.Qos() > 0 {
		if !conn.waitForRoom(ctx) { // the broker resends the message
			return ctx.Err() == nil
		}
		m.Session, m.ID, m.Repeat = gateway.BrokerSession, uint64(p.MessageID()), p.Duplicate()
		acked = conn.addAck(func() error { p.Ack(); return nil })
		m.Done = func(error) { acked() }
	}
	if p.Retained() { // older than the subscription
		acked()
		return true
	}
	err := c.handToGateway(ctx, m, p.Topic())
	var refused *gateway.Refused
	if errors.As(err, &refused) {
		acked() // otherwise the broker would resend the message for ever
		return true
	}
	return err == nil
}

// handToGateway passes a message to the gateway, or returns the reason for its refusal.
func (c *Client) handToGateway(ctx context.Context, m *gateway.Message, topic string) (err error) {
	if c.options.Sparkplug != nil && sparkplug.HasTopic(topic) {
		return c.options.Sparkplug.HandleMessage(ctx, m, topic, func(command string, payload []byte) {
			go c.client.Publish(command, 0, false, payload) // Publish may wait for the connection
		})
	}
	if m.Key, err = c.options.Topics.Key(topic); err != nil {
		c.gateway.Refuse(gateway.Broker, err)
		return err
	}
	return c.gateway.Take(ctx, m)
}

// Close ends the connection after the acknowledgements of the stored messages. The broker keeps
// the session.
func (c *Client) Close() {
	c.stop()
	c.client.Disconnect(quiesce)
	c.ended.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		c.current.close()
	}
}
