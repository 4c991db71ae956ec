package opcua

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gopcua/opcua"
	"github.com/gopcua/opcua/ua"

	"github.com/eusn-stream/eusn-stream/pipeline/gateway"
	"github.com/eusn-stream/eusn-stream/pipeline/gateway/internal/image"
	"github.com/eusn-stream/eusn-stream/pipeline/gateway/internal/loop"
)

const (
	connectWait = 10 * time.Second
	againEvery  = 2 * time.Second
	atOnce      = 500 // variables in one request

	overflow = 0x480 // of a status: the info bits are of a value, and its queue was full
	severity = 30    // where a status has its severity: 2 and 3 are bad
)

// Policies are those that an endpoint may have. Auto: the safest that the server
// offers and the settings allow.
var Policies = []string{"auto", "None", "Basic256Sha256", "Aes128_Sha256_RsaOaep", "Aes256_Sha256_RsaPss"}

// Logins are the ways to log in. Auto: by name and password where there are some, or as
// nobody.
var Logins = []string{"auto", "certificate"}

// Sampler makes samples of values.
type Sampler interface {
	Sample(channel int, value any) (x float32, ok bool)
}

// Options say what a client subscribes to.
type Options struct {
	URL            string            // opc.tcp://host:port
	Nodes          map[string]string // by KEY/CHANNEL
	Channels       []string          // of the model
	Sampler        Sampler
	Policy         string // one of Policies
	Login          string // one of Logins
	Cert, Key      string // files of the client's own certificate
	Trust          string // file of the server's certificate: no other is spoken to
	User, Password string
	Sampling       time.Duration // between two looks of the server at a variable
	Publishing     time.Duration // between two messages of the server
	Queue          int           // values of a variable that the server keeps for a message
	Period         time.Duration // between two samples; 0: a sample for each time that values have
	Log            *slog.Logger
}

// sink is a gateway.
type sink interface {
	Take(context.Context, *gateway.Message) error
	Refuse(in gateway.Input, why error)
}

// Client subscribes until Close.
type Client struct {
	to     sink
	o      Options
	trust  []byte
	own    *x509.Certificate // nil: none
	key    *rsa.PrivateKey   // of own
	wait   time.Duration     // for an answer
	items  []item
	keys   []string
	images []*image.Image
	on     bool      // a session has subscribed
	lost   time.Time // when the last one ended
	end    func()    // what Follow has begun
}

// Follow makes a client that connects, again and again, until Close.
func Follow(g *gateway.Gateway, o Options) (*Client, error) {
	c, err := newClient(g, o)
	if err != nil {
		return nil, err
	}
	c.end = loop.Run(c.run)
	return c, nil
}

func newClient(to sink, o Options) (*Client, error) {
	c := &Client{to: to, o: o, wait: connectWait}
	if !strings.HasPrefix(o.URL, "opc.tcp://") {
		return nil, fmt.Errorf("gateway: fieldbus.opcua is %q: want a URL such as opc.tcp://host:4840", o.URL)
	}
	if !slices.Contains(Policies, o.Policy) {
		return nil, fmt.Errorf("gateway: fieldbus.opcua_security is %q, want one of %q", o.Policy, Policies)
	}
	if !slices.Contains(Logins, o.Login) {
		return nil, fmt.Errorf("gateway: fieldbus.opcua_login is %q, want one of %q", o.Login, Logins)
	}
	if o.Login == "certificate" && (o.Cert == "" || o.User != "") {
		return nil, errors.New("gateway: fieldbus.opcua_login: certificate: give opcua_cert and opcua_key, and no opcua_user")
	}
	if (o.Cert == "") != (o.Key == "") || o.Cert == "" && o.Policy != "auto" && o.Policy != "None" {
		return nil, errors.New("gateway: fieldbus.opcua_cert and fieldbus.opcua_key: give both, which a security policy needs, or neither")
	}
	var err error
	if c.keys, c.items, err = parseNodes(o.Nodes, o.Channels); err != nil {
		return nil, err
	}
	if o.Cert != "" {
		if err := c.loadCertificate(); err != nil {
			return nil, fmt.Errorf("gateway: fieldbus.opcua_cert and fieldbus.opcua_key: %w", err)
		}
	}
	if o.Trust != "" {
		if c.trust, err = readTrust(o.Trust); err != nil {
			return nil, fmt.Errorf("gateway: fieldbus.opcua_trust: %w", err)
		}
	}
	for _, key := range c.keys {
		c.images = append(c.images, image.New(key, len(o.Channels), o.Period))
	}
	return c, nil
}

// Close ends the session.
func (c *Client) Close() { c.end() }

func (c *Client) run(ctx context.Context) {
	for {
		err := c.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if c.on {
			c.on, c.lost = false, time.Now()
		}
		c.o.Log.Warn("OPC UA: no session with the server, trying again", "server", c.o.URL, "err", c.explain(err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(againEvery):
		}
	}
}

// session connects, subscribes, and takes what comes until something fails.
func (c *Client) session(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	opts, err := c.endpoint(ctx)
	if err != nil {
		return err
	}
	states := make(chan opcua.ConnState, 16)
	opts = append(opts, opcua.AutoReconnect(false), opcua.StateChangedCh(states), opcua.DialTimeout(c.wait), opcua.RequestTimeout(c.wait))
	client, err := opcua.NewClient(c.o.URL, opts...)
	if err != nil {
		return err
	}
	lost := make(chan struct{})
	go func() { // as long as the client may write to it
		once := sync.OnceFunc(func() { close(lost) })
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
	connect, cancelConnect := context.WithTimeout(ctx, c.wait)
	err = client.Connect(connect)
	cancelConnect()
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
	if err := c.monitor(ctx, sub); err != nil {
		return err
	}
	c.o.Log.Info("OPC UA: subscribed", "server", c.o.URL, "variables", len(c.items), "sampling", c.o.Sampling, "publishing", sub.RevisedPublishingInterval)
	if !c.lost.IsZero() {
		c.o.Log.Warn("OPC UA: the session is a new one: what has changed since the last one is missing, and the next samples carry the flag gap", "server", c.o.URL, "missing", time.Since(c.lost).Round(time.Second))
	}
	c.on = true
	told := make([]bool, len(c.items))
	for _, m := range c.images {
		m.Gap() // of what was before the session
		m.Begin()
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-lost:
			return errors.New("the connection is lost: the server has ended, or the network")
		case n := <-heard:
			if n.Error != nil {
				return n.Error
			}
			switch v := n.Value.(type) {
			case *ua.StatusChangeNotification:
				return fmt.Errorf("the server has ended the subscription: %w", v.Status)
			case *ua.DataChangeNotification:
				if err := c.take(ctx, v, told); err != nil {
					return err
				}
			}
		}
	}
}

// monitor asks for the variables.
func (c *Client) monitor(ctx context.Context, sub *opcua.Subscription) error {
	for from := 0; from < len(c.items); from += atOnce {
		var all []*ua.MonitoredItemCreateRequest
		for i := from; i < min(from+atOnce, len(c.items)); i++ {
			r := opcua.NewMonitoredItemCreateRequestWithDefaults(c.items[i].id, ua.AttributeIDValue, uint32(i))
			r.RequestedParameters.QueueSize, r.RequestedParameters.SamplingInterval = uint32(c.o.Queue), float64(c.o.Sampling)/float64(time.Millisecond)
			all = append(all, r)
		}
		res, err := sub.Monitor(ctx, ua.TimestampsToReturnBoth, all...)
		if err != nil {
			return fmt.Errorf("variables: %w", err)
		}
		for i, r := range res.Results {
			if r.StatusCode != ua.StatusOK {
				return fmt.Errorf("variable %s: %w", c.items[from+i].id, r.StatusCode)
			}
		}
	}
	return nil
}

// value is one of a variable.
type value struct {
	item int
	at   int64
	x    float32
	over bool // values before it are lost
}

// take gives the samples of a notification to the gateway. told are the variables
// whose value the server has sent since the OPC UA session began.
func (c *Client) take(ctx context.Context, n *ua.DataChangeNotification, told []bool) error {
	var all []value
	for _, m := range n.MonitoredItems {
		if m == nil || m.Value == nil || int(m.ClientHandle) >= len(c.items) {
			continue
		}
		all = append(all, c.value(int(m.ClientHandle), m.Value))
	}
	slices.SortStableFunc(all, func(a, b value) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	for _, v := range all {
		it := &c.items[v.item]
		m := c.images[it.Stream]
		if v.over {
			m.Gap()
		}
		if !told[v.item] {
			told[v.item] = true
			m.Know(it.Channel, v.x)
			if !slices.Contains(told, false) {
				c.o.Log.Info("OPC UA: all variables have values, and samples begin", "server", c.o.URL)
			}
			continue
		}
		m.Set(it.Channel, v.at, v.x)
	}
	parts := []gateway.Part{}
	for _, m := range c.images {
		parts = append(parts, m.Parts()...)
	}
	if len(parts) == 0 {
		return nil
	}
	err := c.to.Take(ctx, &gateway.Message{Input: gateway.OPCUA, Parts: parts})
	if refused := new(gateway.Refused); errors.As(err, &refused) {
		return nil // counted, and in the log
	}
	return err
}

// value reads a value with its time. A bad one, or one that is no number, is missing:
// input.non_finite says what becomes of it.
func (c *Client) value(i int, v *ua.DataValue) value {
	out := value{item: i, x: float32(math.NaN()), over: uint32(v.Status)&overflow == overflow}
	at := v.SourceTimestamp
	if at.IsZero() {
		at = v.ServerTimestamp
	}
	if at.IsZero() {
		at = time.Now()
	}
	out.at = at.UnixNano()
	if uint32(v.Status)>>severity < 2 && v.Value != nil {
		if x, ok := c.o.Sampler.Sample(c.items[i].Channel, v.Value.Value()); ok {
			out.x = x
		} else {
			what := strings.TrimPrefix(v.Value.Type().String(), "TypeID")
			if v.Value.Has(ua.VariantArrayValues) {
				what = "array of " + what
			}
			c.to.Refuse(gateway.OPCUA, fmt.Errorf("variable %s: a value of type %s is no number: it counts as missing (input.non_finite): name another variable in fieldbus.opcua_nodes", c.items[i].id, what))
		}
	}
	return out
}
