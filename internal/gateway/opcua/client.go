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
	connectWait = 10 * time.Second
	againEvery  = 2 * time.Second
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

// Options say what a client subscribes to. A reader process gets them as JSON.
type Options struct {
	URL            string            // opc.tcp://host:port
	Nodes          map[string]string // by KEY/CHANNEL
	Channels       []string          // of the model
	Sampler        Sampler           `json:"-"`
	Policy         string            // one of Policies
	Login          string            // one of Logins
	Cert, Key      string            // files of the client's own certificate
	Trust          string            // file of the server's certificate: no other is spoken to
	User, Password string
	Sampling       time.Duration // between two looks of the server at a variable
	Publishing     time.Duration // between two messages of the server
	Queue          int           // values of a variable that the server keeps for a message
	Period         time.Duration // between two samples; 0: a sample for each time that values have
	Log            *slog.Logger  `json:"-"`
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
	told   []bool    // variables with a value in the current OPC UA session
	on     bool      // a session has subscribed
	warned bool      // that the connection has no security policy
	lost   time.Time // when the last session ended
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

// check refuses options that exclude each other.
func (o *Options) check() error {
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

func newClient(to sink, o Options) (*Client, error) {
	c := &Client{to: to, o: o, wait: connectWait}
	if err := o.check(); err != nil {
		return nil, err
	}
	var err error
	if c.keys, c.items, err = parseNodes(o.Nodes, o.Channels); err != nil {
		return nil, err
	}
	if o.Cert != "" {
		if err := c.loadCertificate(); err != nil {
			return nil, fmt.Errorf("gateway: gateway.opcua.cert and gateway.opcua.key: %w", err)
		}
	}
	if o.Trust != "" {
		if c.trust, err = readTrust(o.Trust); err != nil {
			return nil, fmt.Errorf("gateway: gateway.opcua.trust: %w", err)
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
		err := c.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if c.on {
			c.on, c.lost = false, time.Now()
		}
		c.o.Log.Warn("OPC UA: no session with the server, trying again", "server", c.o.URL, "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(againEvery):
		}
	}
}

// follow makes one session, in a process of its own, and takes what it reads until
// something fails.
func (c *Client) follow(ctx context.Context) error {
	p, err := startProcess(request{Options: c.o, Wait: c.wait})
	if err != nil {
		return fmt.Errorf("the process that reads the server cannot be started: %w", err)
	}
	stop := context.AfterFunc(ctx, p.close)
	defer stop()
	defer p.end()
	for {
		r, err := p.next()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case r.Failed != "":
			return errors.New(r.Failed)
		case r.Subscribed != nil:
			c.begin(r.Subscribed)
		default:
			if err := c.take(ctx, r.Values); err != nil {
				return err
			}
		}
	}
}

// begin logs what the server has granted, and begins the images anew: what a variable
// had in an earlier session may have changed since.
func (c *Client) begin(s *grant) {
	c.o.Log.Info("OPC UA: subscribed", "server", c.o.URL, "variables", len(c.items), "security", s.Policy, "sampling", s.Sampling, "publishing", s.Publishing, "queue", s.Queue)
	for _, what := range s.differences(&c.o) {
		c.o.Log.Warn("OPC UA: the server has changed a setting: "+what, "server", c.o.URL)
	}
	if s.Policy == "None" && !c.warned {
		c.warned = true
		what := "anybody in the network between can read and change what the server sends"
		if c.o.User != "" {
			what += ", and may read the password"
		}
		c.o.Log.Warn("OPC UA: the connection has no security policy (None): "+what+": set gateway.opcua.cert, gateway.opcua.key and gateway.opcua.trust, if the server has a policy", "server", c.o.URL)
	}
	if !c.lost.IsZero() {
		c.o.Log.Warn("OPC UA: the session is a new one: what has changed since the last one is missing, and the next samples carry the flag gap", "server", c.o.URL, "missing", time.Since(c.lost).Round(time.Second))
	}
	c.on = true
	c.told = make([]bool, len(c.items))
	for _, m := range c.images {
		m.Gap() // of what was before the session
		m.Forget()
	}
}

// value is one of a variable.
type value struct {
	item    int
	at      int64
	x       float32
	missing bool
	over    bool // values before it are lost
}

// take gives the samples of a notification to the gateway.
func (c *Client) take(ctx context.Context, readings []reading) error {
	var all []value
	for i := range readings {
		if r := &readings[i]; r.Item < len(c.items) {
			all = append(all, c.value(r))
		}
	}
	slices.SortStableFunc(all, func(a, b value) int { return cmp.Compare(a.at, b.at) })
	for _, v := range all {
		it := &c.items[v.item]
		m := c.images[it.Stream]
		if v.over {
			m.Gap()
		}
		switch {
		case c.told[v.item]:
			m.Set(it.Channel, v.at, v.x)
		case !v.missing:
			c.told[v.item] = true
			m.Know(it.Channel, v.x)
			if !slices.Contains(c.told, false) {
				c.o.Log.Info("OPC UA: all variables have values, and samples begin", "server", c.o.URL)
			}
		}
	}
	c.warnWaiting(all)
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

// warnWaiting logs the variables whose stream waits for their first value, when the
// server sends that there is none.
func (c *Client) warnWaiting(all []value) {
	var ids []string
	for _, v := range all {
		if v.missing && !c.told[v.item] {
			ids = append(ids, c.items[v.item].id.String())
		}
	}
	if len(ids) == 0 {
		return
	}
	slices.Sort(ids)
	n, more := len(slices.Compact(ids)), ""
	if n > 5 {
		ids, more = ids[:5], ", ..."
	} else {
		ids = ids[:n]
	}
	c.o.Log.Warn("OPC UA: variables have no value yet: their streams have no samples before that", "server", c.o.URL, "count", n, "variables", strings.Join(ids, ", ")+more)
}

// value reads a value with its time. A bad one, or one that is no number, is missing:
// input.non_finite says what becomes of it.
func (c *Client) value(r *reading) value {
	out := value{item: r.Item, at: r.At, x: float32(math.NaN()), missing: true, over: r.Status&overflow == overflow}
	if !r.Timed {
		out.at = time.Now().UnixNano()
	}
	if r.Status>>severity >= 2 || ua.StatusCode(r.Status&codeBits) == ua.StatusUncertainInitialValue || r.Null {
		return out
	}
	if x, ok := c.o.Sampler.Sample(c.items[r.Item].Channel, r.X); ok {
		out.x, out.missing = x, x != x
	} else {
		c.to.Refuse(gateway.OPCUA, fmt.Errorf("variable %s: a value of type %s is no number: it counts as missing (input.non_finite): name another variable in gateway.opcua.nodes", c.items[r.Item].id, r.Type))
	}
	return out
}
