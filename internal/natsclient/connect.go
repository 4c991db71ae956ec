package natsclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/urls"
)

const (
	// JetStreamWait is the time limit for an answer of JetStream.
	JetStreamWait = 3 * time.Second
	// JetStreamAttempts is the number of attempts for an unanswered request.
	JetStreamAttempts = 4

	connectWait = 10 * time.Second // the client's 2 s are short on a loaded machine
	toldEvery   = 10 * time.Second // interval of log lines for an unavailable server
)

// Options describe the connection to a NATS server. At most one of Creds, NKey, User
// and Token is set.
type Options struct {
	URL               string // nats:// or tls:// address, several joined by commas; empty = nats://127.0.0.1:4222
	Name              string // connection name the server shows
	Creds             string // file with a user JWT and its seed
	NKey              string // file with a user's nkey seed
	User, Password    string
	Token             string
	CA                string // file with the certificate authority to trust
	Cert, Key         string // files of the client's certificate, both or neither
	TLSHandshakeFirst bool   // TLS before the server's greeting; the server must be set so too
	InboxPrefix       string // if the account's permissions restrict _INBOX
	Log               *slog.Logger
	More              []nats.Option // applied last
}

// Connect tries to connect once, so that a wrong address or login is an immediate
// error. It returns ctx's error as soon as ctx ends; afterwards ctx is not used. A lost
// connection is restored without a limit of attempts.
func Connect(ctx context.Context, o Options) (*nats.Conn, error) {
	opts, err := o.clientOptions()
	if err != nil {
		return nil, err
	}
	if o.URL == "" {
		o.URL = nats.DefaultURL
	}
	nc, err := dialServers(ctx, func() (*nats.Conn, error) { return nats.Connect(o.URL, opts...) })
	if err != nil {
		var unreadable *url.Error // its text includes the address with the password
		if errors.As(err, &unreadable) {
			_, err = urls.Parse("")
		}
		return nil, fmt.Errorf("natsclient: cannot connect to the NATS server at %s: %w (is it running there, and are the credentials right?)", urls.Redact(o.URL), err)
	}
	return nc, nil
}

// dialServers does not wait for an attempt to connect after ctx has ended: the client
// cannot cancel the attempt; a late connection is closed.
func dialServers(ctx context.Context, connect func() (*nats.Conn, error)) (*nats.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	type result struct {
		nc  *nats.Conn
		err error
	}
	connected := make(chan result, 1)
	go func() {
		nc, err := connect()
		connected <- result{nc, err}
	}()
	select {
	case r := <-connected:
		return r.nc, r.err
	case <-ctx.Done():
		go func() {
			if r := <-connected; r.err == nil {
				r.nc.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

func (o Options) clientOptions() ([]nats.Option, error) {
	ways := 0
	for _, w := range []string{o.Creds, o.NKey, o.User, o.Token} {
		if w != "" {
			ways++
		}
	}
	if ways > 1 {
		return nil, errors.New("natsclient: NATS credentials: give one of creds, nkey, user, token")
	}
	if (o.Cert == "") != (o.Key == "") {
		return nil, errors.New("natsclient: NATS TLS: give both cert and key, or neither")
	}
	opts := LongLived(o.Name, o.Log)
	add := func(on bool, opt func() nats.Option) {
		if on {
			opts = append(opts, opt())
		}
	}
	if o.NKey != "" {
		opt, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			return nil, fmt.Errorf("natsclient: NATS nkey file %s: %w", o.NKey, err)
		}
		opts = append(opts, opt)
	}
	add(o.Creds != "", func() nats.Option { return nats.UserCredentials(o.Creds) })
	add(o.User != "", func() nats.Option { return nats.UserInfo(o.User, o.Password) })
	add(o.Token != "", func() nats.Option { return nats.Token(o.Token) })
	add(o.CA != "", func() nats.Option { return nats.RootCAs(o.CA) })
	add(o.Cert != "", func() nats.Option { return nats.ClientCert(o.Cert, o.Key) })
	add(o.TLSHandshakeFirst, nats.TLSHandshakeFirst)
	add(o.InboxPrefix != "", func() nats.Option { return nats.CustomInboxPrefix(o.InboxPrefix) })
	return append(opts, o.More...), nil
}

// LongLived returns the options of a connection for months, named name, which logs to
// log (nil: no log). They replace defaults for short programs: giving up after 60
// attempts, noticing a dead link after four minutes, and publishing buffered messages
// long after their time.
func LongLived(name string, log *slog.Logger) []nats.Option {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var told atomic.Int64
	var errs repeats
	return []nats.Option{
		nats.Name(name),
		nats.Timeout(connectWait),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50 * time.Millisecond),
		nats.ReconnectJitter(150*time.Millisecond, time.Second),
		nats.ReconnectBufSize(-1), // a publish while disconnected fails now instead of arriving late
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(3),
		nats.IgnoreAuthErrorAbort(), // credentials may be rotated under a running stage
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if err != nil { // nil after our own close
				log.Warn("NATS connection lost, reconnecting", "connection", name, "err", err)
			}
		}),
		// Without this, an expired certificate, a revoked login and an unresolvable
		// name would look the same.
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			now := time.Now().UnixNano()
			if before := told.Load(); now-before >= int64(toldEvery) && told.CompareAndSwap(before, now) {
				log.Warn("NATS server not reached, retrying", "connection", name, "err", err)
			}
		}),
		nats.LameDuckModeHandler(func(nc *nats.Conn) {
			log.Info("NATS server will shut down and closes its connections one by one", "connection", name, "server", nc.ConnectedUrlRedacted())
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("NATS connection restored", "connection", name, "server", nc.ConnectedUrlRedacted())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if left, ok := errs.admitText(err.Error(), time.Now()); left > 0 {
				log.Error("NATS client error", "connection", name, "err", err, "others_since", left)
			} else if ok {
				log.Error("NATS client error", "connection", name, "err", err)
			}
		}),
	}
}

// Plain explains the error of a publish without a connection. The client has no buffer
// for messages (LongLived), and reports a full buffer.
func Plain(err error) error {
	if errors.Is(err, nats.ErrReconnectBufExceeded) {
		return fmt.Errorf("no connection to the server now: %w", err)
	}
	return err
}

// AwaitJetStream returns when JetStream answers. It retries before it gives up: a
// server may answer only one of two simultaneous first requests, and a cluster may be
// electing a leader.
func AwaitJetStream(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("natsclient: JetStream: %w", err)
	}
	for range JetStreamAttempts {
		try, cancel := context.WithTimeout(ctx, JetStreamWait)
		_, err = js.AccountInfo(try)
		cancel()
		if err == nil || ctx.Err() != nil || errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("natsclient: JetStream does not answer at %s: %w (is it enabled on the server and for this account?)", nc.ConnectedUrlRedacted(), err)
	}
	return nil
}

// Another opens a further connection like nc: to the same servers, with the same login.
// Events of this connection are not logged, because nc's log has the same events.
func Another(ctx context.Context, nc *nats.Conn, name string) (*nats.Conn, error) {
	o := nc.Opts
	o.Name = name
	o.DisconnectedErrCB, o.ReconnectedCB, o.ReconnectErrCB, o.LameDuckModeHandler, o.AsyncErrorCB = nil, nil, nil, nil, nil
	other, err := dialServers(ctx, o.Connect)
	if err != nil {
		return nil, fmt.Errorf("natsclient: one more connection: %w", err)
	}
	return other, nil
}
