package opcua

import (
	"cmp"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gopcua/opcua/ua"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/image"
	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/loop"
	"github.com/eusn-stream/eusn-stream/internal/urls"
)

const (
	requestTimeout = 10 * time.Second
	reconnectWait  = 2 * time.Second
)

// Policies are the security policies that an endpoint may have. "auto" selects the safest
// policy that the server offers and the settings allow.
var Policies = []string{"auto", "None", "Basic256Sha256", "Aes128_Sha256_RsaOaep", "Aes256_Sha256_RsaPss"}

// Logins are the ways to log in. "auto" logs in by name and password if they are set, otherwise
// anonymously.
var Logins = []string{"auto", "certificate"}

// Sampler converts values to samples.
type Sampler interface {
	Sample(channel int, value any) (x float32, ok bool)
}

// Options configure the subscription of a client. A reader process gets the options as JSON.
type Options struct {
	URL            string            // opc.tcp://host:port
	Nodes          map[string]string // by KEY/CHANNEL
	Channels       []string          // of the model
	Sampler        Sampler           `json:"-"`
	Policy         string            // one of Policies
	Login          string            // one of Logins
	Cert, Key      string            // files of the client's own certificate
	Trust          string            // file of the server's certificate; servers with other certificates are refused
	User, Password string
	Sampling       time.Duration // the server's sampling interval
	Publishing     time.Duration // the server's publishing interval
	Queue          int           // values per variable that the server keeps between two messages
	Period         time.Duration // between two samples; 0: one sample per source time
	Log            *slog.Logger  `json:"-"`
}

// sink is the gateway.
type sink interface {
	Take(context.Context, *gateway.Message) error
	Refuse(in gateway.Input, why error)
}

// Client subscribes to the variables of a server until Close.
type Client struct {
	gateway     sink
	options     Options
	trust       []byte
	certificate *x509.Certificate // nil if no certificate is configured
	key         *rsa.PrivateKey   // key of the certificate
	wait        time.Duration     // timeout of one request
	items       []item
	keys        []string
	images      []*image.Image
	measured    *measurer // nil: the period is configured
	known       []bool    // variables with a value in the current OPC UA session
	subscribed  bool      // a session has subscribed
	warned      bool      // whether the missing security policy was logged
	lost        time.Time // when the last session ended
	stop        func()    // stops the goroutine of Follow
}

// Follow makes a client that connects and reconnects until Close.
func Follow(g *gateway.Gateway, options Options) (*Client, error) {
	c, err := newClient(g, options)
	if err != nil {
		return nil, err
	}
	c.stop = loop.Run(c.reconnect)
	return c, nil
}

// validate refuses options that exclude each other.
func (o *Options) validate() error {
	if u, err := urls.Parse(o.URL, "opc.tcp"); err != nil || u.User != nil {
		return fmt.Errorf("gateway: gateway.opcua.url is %q: want a URL such as opc.tcp://host:4840, without a name and a password (gateway.opcua.user)", urls.Redact(o.URL))
	}
	if !slices.Contains(Policies, o.Policy) {
		return fmt.Errorf("gateway: gateway.opcua.security is %q, want one of %q", o.Policy, Policies)
	}
	if !slices.Contains(Logins, o.Login) {
		return fmt.Errorf("gateway: gateway.opcua.login is %q, want one of %q", o.Login, Logins)
	}
	if o.Login == "certificate" && (o.Cert == "" || o.User != "") {
		return errors.New("gateway: gateway.opcua.login: certificate: give gateway.opcua.cert and gateway.opcua.key, and no gateway.opcua.user")
	}
	if (o.Cert == "") != (o.Key == "") || o.Cert == "" && o.Policy != "auto" && o.Policy != "None" {
		return errors.New("gateway: gateway.opcua.cert and gateway.opcua.key: give both, which a security policy needs, or neither")
	}
	return nil
}

func newClient(gateway sink, options Options) (*Client, error) {
	c, err := newConnection(options)
	if err != nil {
		return nil, err
	}
	c.gateway = gateway
	if c.keys, c.items, err = parseNodes(options.Nodes, options.Channels); err != nil {
		return nil, err
	}
	c.makeImages(options.Period)
	return c, nil
}

// makeImages makes the images of the streams.
func (c *Client) makeImages(period time.Duration) {
	c.images = nil
	for _, key := range c.keys {
		c.images = append(c.images, image.New(key, len(c.options.Channels), period))
	}
}

// newConnection makes a client without variables.
func newConnection(options Options) (*Client, error) {
	c := &Client{options: options, wait: requestTimeout}
	if err := options.validate(); err != nil {
		return nil, err
	}
	var err error
	if options.Cert != "" {
		if err := c.loadCertificate(); err != nil {
			return nil, fmt.Errorf("gateway: gateway.opcua.cert and gateway.opcua.key: %w", err)
		}
	}
	if options.Trust != "" {
		if c.trust, err = readTrust(options.Trust); err != nil {
			return nil, fmt.Errorf("gateway: gateway.opcua.trust: %w", err)
		}
	}
	return c, nil
}

// Close ends the session and waits for the client.
func (c *Client) Close() { c.stop() }

func (c *Client) reconnect(ctx context.Context) {
	for {
		err := c.runSession(ctx)
		if ctx.Err() != nil {
			return
		}
		if c.subscribed {
			c.subscribed, c.lost = false, time.Now()
		}
		c.options.Log.Warn("OPC UA: no session with the server, retrying", "server", c.options.URL, "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(reconnectWait):
		}
	}
}

// runSession runs one session in a separate process and forwards the values until an error.
func (c *Client) runSession(ctx context.Context) error {
	p, err := startProcess(request{Options: c.options, Wait: c.wait})
	if err != nil {
		return fmt.Errorf("the process that reads the server cannot be started: %w", err)
	}
	stop := context.AfterFunc(ctx, p.close)
	defer stop()
	defer p.stop()
	for {
		r, err := p.readReport()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case r.Failed != "":
			return errors.New(r.Failed)
		case r.Subscribed != nil:
			c.startSession(r.Subscribed)
		default:
			if err := c.publishValues(ctx, r.Values); err != nil {
				return err
			}
		}
	}
}

// startSession logs what the server has granted and resets the images: a variable may have
// changed since its previous session.
func (c *Client) startSession(s *grant) {
	c.options.Log.Info("OPC UA: subscribed", "server", c.options.URL, "variables", len(c.items), "security", s.Policy, "sampling", s.Sampling, "publishing", s.Publishing, "queue", s.Queue)
	for _, text := range s.differences(&c.options) {
		c.options.Log.Warn("OPC UA: the server has changed a setting: "+text, "server", c.options.URL)
	}
	if s.Policy == "None" && !c.warned {
		c.warned = true
		text := "an attacker in the network can read and change the server's values"
		if c.options.User != "" {
			text += ", and may read the password"
		}
		c.options.Log.Warn("OPC UA: the connection has no security policy (None): "+text+": set gateway.opcua.cert, gateway.opcua.key and gateway.opcua.trust, if the server has a policy", "server", c.options.URL)
	}
	if !c.lost.IsZero() {
		c.options.Log.Warn("OPC UA: the session was recreated: values that changed since the previous session are missing, and the next samples carry the flag gap", "server", c.options.URL, "missing", time.Since(c.lost).Round(time.Second))
	}
	c.subscribed = true
	c.measured.reset()
	c.known = make([]bool, len(c.items))
	for _, m := range c.images {
		m.MarkGap() // values between the sessions are missing
		m.Reset()
	}
}

// value is one value of a variable.
type value struct {
	item       int
	time       int64
	number     float32
	missing    bool
	overflowed bool // earlier values are lost
}

// publishValues gives the samples of a notification to the gateway.
func (c *Client) publishValues(ctx context.Context, readings []reading) error {
	var values []value
	for i := range readings {
		if r := &readings[i]; r.Item < len(c.items) {
			values = append(values, c.readValue(r))
		}
	}
	slices.SortStableFunc(values, func(a, b value) int { return cmp.Compare(a.time, b.time) })
	if c.measured != nil && !c.measured.measurePeriod(c, &values) {
		return nil
	}
	for _, v := range values {
		target := &c.items[v.item]
		m := c.images[target.Stream]
		if v.overflowed {
			m.MarkGap()
		}
		switch {
		case c.known[v.item]:
			m.Set(target.Channel, v.time, v.number)
		case !v.missing:
			c.known[v.item] = true
			m.SetInitial(target.Channel, v.number)
			if !slices.Contains(c.known, false) {
				c.options.Log.Info("OPC UA: all variables have values, and samples begin", "server", c.options.URL)
			}
		}
	}
	c.warnWaiting(values)
	parts := []gateway.Part{}
	for _, m := range c.images {
		parts = append(parts, m.TakeParts()...)
	}
	if len(parts) == 0 {
		return nil
	}
	err := c.gateway.Take(ctx, &gateway.Message{Input: gateway.OPCUA, Parts: parts})
	if refused := new(gateway.Refused); errors.As(err, &refused) {
		return nil // the gateway has counted and logged the refusal
	}
	return err
}

// warnWaiting logs the variables without a first value: their streams have no samples yet.
func (c *Client) warnWaiting(values []value) {
	var ids []string
	for _, v := range values {
		if v.missing && !c.known[v.item] {
			ids = append(ids, c.items[v.item].id.String())
		}
	}
	if len(ids) == 0 {
		return
	}
	slices.Sort(ids)
	n, suffix := len(slices.Compact(ids)), ""
	if n > 5 {
		ids, suffix = ids[:5], ", ..."
	} else {
		ids = ids[:n]
	}
	c.options.Log.Warn("OPC UA: variables have no value yet: their streams have no samples until then", "server", c.options.URL, "count", n, "variables", strings.Join(ids, ", ")+suffix)
}

// readValue reads a value with its time. A bad value and a value that is no number count as
// missing (input.non_finite).
func (c *Client) readValue(r *reading) value {
	result := value{item: r.Item, time: r.At, number: float32(math.NaN()), missing: true, overflowed: r.Status&overflow == overflow}
	if !r.Timed {
		result.time = time.Now().UnixNano()
	}
	if r.Status>>severity >= 2 || ua.StatusCode(r.Status&codeBits) == ua.StatusUncertainInitialValue || r.Null {
		return result
	}
	if x, ok := c.options.Sampler.Sample(c.items[r.Item].Channel, r.X); ok {
		result.number, result.missing = x, x != x
	} else {
		c.gateway.Refuse(gateway.OPCUA, fmt.Errorf("variable %s: a value of type %s is no number: it counts as missing (input.non_finite): configure another variable in gateway.opcua.nodes", c.items[r.Item].id, r.Type))
	}
	return result
}
